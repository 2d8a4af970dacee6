"""States of mints in memory and in Redis' form."""

from __future__ import annotations

import orjson
import pytest

from infra.redis.client import connect
from infra.settings import Settings
from pipeline.agents.live import conflation, prices

# private `_closes`: the packed form of one field.
# private `_commands`: the commands that one state comes to, without a Redis.
from pipeline.agents.live.prices import MintState, Prices, SolState, _closes, _commands
from pipeline.agents.live.receipt import Receipt
from pipeline.agents.live.streams import LiveStreams
from pipeline.domain.pool_trade import Trade
from schemas.channels import price_event
from schemas.codec import migration_from_proto, swap_from_proto
from schemas.money import WSOL
from schemas.prices import CLOSE_MS, day_ago
from schemas.proto import tape_pb2
from schemas.times import DAY_MS

NOW_MS = 1_732_170_000_000


def traded(state, lamports, time_ms, amount_raw=10**9, pool="pool"):
    state.decimals = 6
    state.price.apply(Trade(pool, "dex", time_ms // 400, time_ms, lamports, amount_raw))
    if news := state.news(150.0):
        state.sent = news
        return state.publish(news)
    return None


def stored(state):
    fields = {}
    for command in (*_commands("key", state), *_closes("key", state)):
        if command[0] == "HSET":
            assert command[1] == "key"
            pairs = [p if isinstance(p, bytes) else str(p).encode() for p in command[2:]]
            fields |= dict(zip(pairs[::2], pairs[1::2], strict=True))
    return fields


def test_what_is_written_is_what_is_read():
    state = MintState()
    for n in range(5):
        traded(state, 10**9 + n, NOW_MS + n * CLOSE_MS)
    again = MintState.of_hash("mint", stored(state))
    assert again.price.pack() == state.price.pack()
    assert (again.last, again.sent, again.closes) == (state.last, state.last, state.closes)


def test_only_another_price_is_news():
    state = MintState()
    assert state.news(150.0) is None
    assert traded(state, 10**9, NOW_MS) is False
    assert traded(state, 10**9, NOW_MS + 1) is None
    assert traded(state, 2 * 10**9, NOW_MS + 2) is False
    assert state.news(200.0) is None, "dollars alone are no news"
    assert state.last.price_sol == pytest.approx(2 / 1000)
    assert state.last.price_usd == pytest.approx(2 / 1000 * 150)


def test_a_price_without_dollars_is_no_news():
    state = MintState()
    state.decimals = 6
    state.price.apply(Trade("pool", "dex", 1, NOW_MS, 10**9, 10**9))
    assert state.news(None) is None
    assert state.news(None, traded=True) is None
    assert state.news(150.0).price_usd == pytest.approx(1 / 1000 * 150)


def test_after_a_trade_another_price_in_dollars_is_news():
    state = MintState()
    traded(state, 10**9, NOW_MS)
    state.sent = state.sent._replace(price_usd=None)  # as a version before this one stored it
    assert state.news(None, traded=True) is None
    assert state.news(150.0) is None
    assert state.news(150.0, traded=True).price_usd == pytest.approx(1 / 1000 * 150)
    state.sent = state.news(150.0, traded=True)
    assert state.news(150.0, traded=True) is None
    assert state.news(151.0, traded=True).price_usd == pytest.approx(1 / 1000 * 151)
    assert state.news(None, traded=True) is None, "what was known is not taken back"


def test_five_minutes_close_with_their_last_price_once_there_is_a_younger_one():
    state, begin = MintState(), NOW_MS // CLOSE_MS * CLOSE_MS
    assert traded(state, 1 * 10**9, begin) is False
    assert traded(state, 2 * 10**9, begin + CLOSE_MS - 1) is False
    assert state.closes == b""
    assert traded(state, 3 * 10**9, begin + 7 * CLOSE_MS) is True
    before = day_ago(state.last, state.closes, begin + DAY_MS + 3 * CLOSE_MS)
    assert before[0] == pytest.approx(2 / 1000)


@pytest.mark.parametrize(
    "fields",
    [
        {b"state": b"no state"},
        {b"price_sol": b"1.0"},
        {b"price_sol": b"x", b"price_usd": b"", b"time_ms": b"1", b"slot": b"1", b"pool": b""},
    ],
)
def test_a_hash_of_another_form_begins_anew(fields):
    state = MintState.of_hash("mint", fields)
    assert state.price.price is None
    assert state.last is None


def test_sol_is_news_when_the_reference_moves_and_is_not_older():
    sol = SolState()
    assert sol.news(None) is None
    assert sol.news(150.0) is None, "no trade has dated the reference"
    sol.at_ms, sol.at_slot = NOW_MS, 9
    price = sol.news(150.0)
    assert (price.price_sol, price.price_usd, price.time_ms, price.slot) == (1.0, 150.0, NOW_MS, 9)
    sol.sent = price
    assert sol.news(150.0) is None
    assert sol.news(151.0)
    sol.at_ms -= 1
    assert sol.news(151.0) is None
    sol.at_ms, sol.at_slot = NOW_MS + 1, 8
    assert sol.news(151.0) is None


@pytest.fixture
async def board(monkeypatch):
    monkeypatch.setattr(prices, "MINTS_IN_MEMORY", 3)
    redis = connect(Settings(_env_file=None, redis_url="redis://127.0.0.1:1"), retries=0)
    streams = LiveStreams(redis, stream_bytes=1, hold_bytes=1)
    yield Prices(redis, None, streams)
    await redis.aclose()


async def test_the_mints_that_traded_longest_ago_are_forgotten_but_none_of_the_batch(board):
    await board.load(["a", "b", "c"])
    await board.load(["a", "d"])
    # private `_mints`: the bound on memory, and states as Redis had them.
    assert list(board._mints) == ["c", "a", "d"]
    await board.load(["c", "e", "f"])
    assert list(board._mints) == ["c", "e", "f"]


async def test_what_is_still_to_be_written_is_not_forgotten(board):
    await board.load(["a"])
    # private `_write`: marks a mint as one with a write that waits.
    board._write("a", board._mints["a"])
    await board.load(["b", "c", "d", "e"])
    assert "a" in board._mints


async def test_a_redis_that_is_away_is_asked_once(board):
    await board.load(["a"])
    # private `_streams`: that Redis was found to be away.
    assert board._streams.away
    await board.load(["b"])
    assert set(board._mints) == {"a", "b"}


class Board:
    """A sink whose partitions a test acknowledges, and what is published live."""

    def __init__(self, redis, sol_usd=150.0):
        self.acks = []
        self.sent = []
        self.published = []
        self.prices = Prices(redis, self, self)
        if sol_usd is not None:
            self.prices.set_sol_usd(sol_usd, Receipt(lambda: None))

    away = True  # nothing is asked of Redis
    lost_touch = state = will_write = lambda *_: False

    async def send(self, messages, acked):
        self.acks.append(acked)
        self.sent += [tape_pb2.PriceUpdate.FromString(message.value) for message in messages]

    def add(self, place, events, receipts):
        self.published += [orjson.loads(event.frame)["data"]["timestamp"] for _, event in events]

    async def reprice(self, mint, n):
        await self.prices.load([mint])
        state = self.prices._mints[mint]
        state.decimals = 6
        state.price.apply(Trade("pool", "dex", 400 + n, NOW_MS + n, 10**9 + n, 10**9))
        # private `_changed`: a price of a given slot without a swap that comes to it.
        self.prices._changed(mint, state, Receipt(lambda: None))
        await self.prices.publish()


async def test_prices_are_published_in_the_order_they_were_sent_in(monkeypatch):
    monkeypatch.setattr(conflation, "EVERY_S", 0.0)
    board = Board(None)
    for n in range(4):
        await board.reprice("m", n)
    assert len(board.acks) == 4
    for n, published in ((2, 0), (0, 1), (3, 1), (1, 4)):  # acknowledged, published
        board.acks[n]()
        assert board.published == [NOW_MS + m for m in range(published)]
    assert board.prices._mints["m"].last.time_ms == NOW_MS + 3


def swap(pool="pool", lamports=10**9, depth=10**12, slot=1, time_ms=NOW_MS):
    return swap_from_proto(
        tape_pb2.Swap(
            mint="m", pool=pool, side=tape_pb2.BUY, slot=slot, block_time_ms=time_ms,
            amount_raw=10**9, decimals=6, quote_mint=WSOL, quote_amount_raw=lamports,
            quote_decimals=9, sol_value_lamports=lamports, quote_reserve_raw=depth,
        )
    )  # fmt: skip


async def test_a_trade_at_the_same_price_is_published_when_sol_has_moved(monkeypatch):
    monkeypatch.setattr(conflation, "EVERY_S", 0.0)
    board = Board(None)
    await board.prices.load(["m"])
    for sol_usd in (150.0, 150.0, 151.0):
        board.prices.set_sol_usd(sol_usd, Receipt(lambda: None))
        await board.prices.publish()
        board.prices.trade(swap(), Receipt(lambda: None))
        await board.prices.publish()
    assert [u.price_usd for u in board.sent] == [pytest.approx(0.15), pytest.approx(0.151)]
    assert len({update.price_sol for update in board.sent}) == 1


async def test_a_late_swap_takes_sol_back_neither_in_slot_nor_in_time(monkeypatch):
    monkeypatch.setattr(conflation, "EVERY_S", 0.0)
    board = Board(None)
    await board.prices.load([WSOL])
    for sol_usd, slot, time_ms in (
        (150.0, 9, NOW_MS),
        (151.0, 8, NOW_MS + 1),  # another transaction of an earlier slot
        (152.0, 10, NOW_MS - 1),  # fetched later: dated by its block
        (153.0, 11, NOW_MS + 2),
    ):
        board.prices.set_sol_usd(sol_usd, Receipt(lambda: None))
        board.prices.reference(swap(slot=slot, time_ms=time_ms), Receipt(lambda: None))
        await board.prices.publish()
    assert [(u.price_usd, u.slot, u.timestamp - NOW_MS) for u in board.sent] == [
        (150.0, 9, 0), (151.0, 9, 1), (152.0, 10, 1), (153.0, 11, 2),
    ]  # fmt: skip


async def test_prices_wait_until_sol_has_one_and_hold_no_batch_up(monkeypatch):
    monkeypatch.setattr(conflation, "EVERY_S", 0.0)
    board = Board(None, sol_usd=None)
    await board.prices.load(["m", "quiet"])
    done = []
    for lamports in (10**9, 2 * 10**9):
        receipt = Receipt(lambda: done.append("batch"))
        board.prices.trade(swap(lamports=lamports), receipt)
        receipt.release()
        await board.prices.publish()
    assert (board.sent, done) == ([], ["batch", "batch"])
    receipt = Receipt(lambda: done.append("reference"))
    board.prices.set_sol_usd(150.0, receipt)
    receipt.release()
    await board.prices.publish()
    [update] = board.sent
    assert (update.mint, update.price_usd) == ("m", pytest.approx(update.price_sol * 150))
    frame = orjson.loads(price_event(update).frame)["data"]
    assert frame["price_usd"] == update.price_usd
    assert done == ["batch", "batch"], "the batch of the reference waits for its prices"
    board.prices.set_sol_usd(151.0, Receipt(lambda: None))
    await board.prices.publish()
    assert len(board.sent) == 1, "later moves of SOL publish no token"


def migration():
    return migration_from_proto(tape_pb2.Migration(mint="m", from_pool="curve", pool="pool"))


async def test_a_migration_is_published_when_it_makes_another_price(monkeypatch):
    monkeypatch.setattr(conflation, "EVERY_S", 0.0)
    board = Board(None)
    await board.prices.load(["m"])
    done = []
    for pool, lamports in (("curve", 10**9), ("pool", 2 * 10**9)):
        # The curve weighs more: the trade in the new pool is not the price until then.
        swaps = 20 if pool == "curve" else 1
        for _ in range(swaps):
            board.prices.trade(swap(pool, lamports), Receipt(lambda: None))
            await board.prices.publish()
    board.prices.set_sol_usd(160.0, Receipt(lambda: None))
    state = board.prices._mints["m"]
    for _ in range(2):
        receipt = Receipt(lambda: done.append(1))
        board.prices.migration(migration(), receipt)
        receipt.release()
        await board.prices.publish()
    assert [(update.price_sol, update.pool) for update in board.sent] == [
        (pytest.approx(1 / 1000), "curve"),
        (pytest.approx(2 / 1000), "pool"),
    ]
    assert state.sent.price_sol == pytest.approx(2 / 1000)
    assert done == [1], "the second is none; the first waits for its acknowledgement"


async def test_what_redis_had_is_enough_to_publish_a_migration(monkeypatch):
    board = Board(None)
    await board.prices.load(["m"])
    for pool, lamports, times in (("curve", 10**9, 20), ("pool", 2 * 10**9, 1)):
        for _ in range(times):
            board.prices.trade(swap(pool, lamports), Receipt(lambda: None))
    before = stored(board.prices._mints["m"])
    for fields, published in (
        (before, [pytest.approx(2 / 1000)]),
        ({name: value for name, value in before.items() if name != b"decimals"}, []),
    ):
        board = Board(None)
        board.prices._mints["m"] = MintState.of_hash("m", fields)
        board.prices.migration(migration(), Receipt(lambda: None))
        await board.prices.publish()
        assert [update.price_sol for update in board.sent] == published
