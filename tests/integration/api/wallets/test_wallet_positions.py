"""Positions over the API against the books' own records in the stores."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from api.stores import gaps
from api.stores.clients import Stores
from api.system import health
from api.wallets import positions
from api.wallets import service as wallet_service
from api.wallets import state as wallet_state
from api.wallets.positions import read_page
from api.wallets.state import WalletReader
from schemas.positions import COLD_MARK, unpack_position, unpack_wallet_day
from schemas.proto.tape_pb2 import BUY
from schemas.redis_keys import POSITIONS, WALLET_TOTALS, wallet_tag
from schemas.solana.base58 import decode, encode
from schemas.topics import SETTLED_BY_WALLET

HOUR_MS = 3_600_000
NOBODY = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"
SUMMED = (
    *("buys", "sells", "wins", "losses"),
    *("bought_lamports", "bought_usd_micros", "sold_lamports", "sold_usd_micros"),
    *("matched_cost_lamports", "matched_cost_usd_micros"),
)


async def records(redis, wallet):
    """A wallet's positions in Redis."""
    fields = await redis.hgetall(POSITIONS.make(tag=wallet_tag(wallet), wallet=wallet))
    fields.pop(COLD_MARK, None)
    return {encode(mint): unpack_position(packed)[0] for mint, packed in fields.items()}


def apart_from_time(answer):
    return {name: value for name, value in answer.items() if not name.startswith("as_of")}


async def test_positions_are_the_books_and_totals_their_sum(make_books, ask, tape):
    tape = tape(1)
    books = await make_books()
    await books.play(tape.slots(120))
    for mint in tape.mints[:9]:  # nothing is known of the others
        await books.market(mint, tape.random.choice([None, 3e-5, 1.25e-7]))
    seen = 0
    for wallet in tape.wallets:
        held = await records(books.redis, wallet)
        answer = await ask.get(f"/api/wallets/{wallet}", limit=1000)
        assert answer["as_of_slot"] == tape.slot
        assert answer["as_of_ms"] == tape.time_ms
        assert {each["mint"] for each in answer["positions"]} == held.keys()
        assert answer["totals"]["position_count"] == len(held)
        assert not answer["page"]["has_more"]
        for each in answer["positions"]:
            seen += 1
            position = held[each["mint"]]
            for name in ("held", "bought", "sold", "received", "sent", "burned", "unmatched"):
                assert each[f"{name}_raw"] == str(getattr(position, f"{name}_raw")), name
            assert each["unknown_cost_raw"] == str(position.held_raw - position.held_known_raw)
            matched = position.sold_raw + position.burned_raw - position.unmatched_raw
            realized = str(position.realized_usd_micros) if matched else None
            assert each["realized_usd_micros"] == realized
            assert (each["decimals"] is None) == (each["mint"] in tape.mints[9:])
            assert (await ask.get(f"/api/wallets/{wallet}/{each['mint']}")) == {
                **each,
                "wallet": wallet,
                "as_of_slot": tape.slot,
                "as_of_ms": tape.time_ms,
                "gaps": None,
            }
        key = WALLET_TOTALS.make(tag=wallet_tag(wallet))
        record = unpack_wallet_day(await books.redis.hget(key, decode(wallet)))
        totals = answer["totals"]
        for name in SUMMED:
            summed = sum(int(each[name]) for each in answer["positions"])
            assert int(totals[name]) == summed == getattr(record, name), name
        for unit in ("lamports", "usd_micros"):
            summed = sum(int(each[f"realized_{unit}"] or 0) for each in answer["positions"])
            assert int(totals[f"realized_{unit}"] or 0) == summed
        assert int(totals["fee_lamports"]) == record.fee_lamports
        assert record.fee_lamports >= sum(int(p["fee_lamports"]) for p in answer["positions"])
        check_open(totals["open"], answer["positions"])
    assert seen > 60


def check_open(totals, positions):
    held = [each for each in positions if each["held_raw"] != "0"]
    assert totals["held_positions"] == len(held)
    for unit in ("lamports", "usd_micros"):
        assert totals[f"held_cost_{unit}"] == str(sum(int(p[f"held_cost_{unit}"]) for p in held))
        for name in ("value", "unrealized"):
            known = [int(p[f"{name}_{unit}"]) for p in held if p[f"{name}_{unit}"] is not None]
            assert totals[f"{name}_{unit}"] == (str(sum(known)) if known else None)
    assert totals["priced_positions"] == sum(p["value_lamports"] is not None for p in held)
    assert totals["unknown_cost_positions"] == sum(p["unknown_cost_raw"] != "0" for p in held)


async def test_fees_without_a_token_are_in_the_totals(make_books, ask, tape):
    tape = tape(3)
    books = await make_books()
    await books.play(tape.slots(150))
    beyond = 0
    for wallet in tape.wallets:
        answer = await ask.get(f"/api/wallets/{wallet}", limit=1000)
        fees = sum(int(each["fee_lamports"]) for each in answer["positions"])
        beyond += int(answer["totals"]["fee_lamports"]) - fees
        assert all(each["mint"] for each in answer["positions"])
    assert beyond > 0


@pytest.mark.parametrize("limit", [1, 3, 7])
async def test_pages_are_the_list_cut(make_books, ask, tape, limit):
    tape = tape(2, wallets=3, mints=30)
    books = await make_books()
    await books.play(tape.slots(60))
    crowd = tape.empty()  # many trades of one moment
    for tx_index, mint in enumerate(tape.mints[:15]):
        wallet = tape.wallets[0]
        partition = SETTLED_BY_WALLET.partition(wallet)
        tape.trade(crowd[partition], wallet, mint, tx_index, side=BUY)
    await books.play([crowd])
    for wallet in tape.wallets:
        answer = await ask.get(f"/api/wallets/{wallet}", limit=1000)
        whole = answer["positions"]
        places = [(-(each["last_trade_ms"] or 0), each["mint"]) for each in whole]
        assert places == sorted(places)
        assert await ask.all_pages(wallet, limit) == whole
        newest = await ask.get(f"/api/wallets/{wallet}/all-dex", limit=limit)
        assert newest["positions"] == whole[:limit]
        assert newest["totals"] == answer["totals"]
        assert "page" not in newest


async def test_positions_put_away_are_answered_as_if_they_were_not(make_books, ask, tape):
    def play():
        made = tape(4)
        return (
            made,
            [
                *made.slots(60, HOUR_MS // 4),
                *made.slots(30, HOUR_MS // 2, mints=made.mints[:3]),  # the others die
                *made.slots(4, HOUR_MS // 8, mints=made.mints[:5]),  # two of them come back
                *made.slots(12, HOUR_MS // 2, mints=made.mints[:4]),
            ],
        )

    made, slots = play()
    wallets = [*made.wallets, NOBODY]
    books = await make_books()
    await books.play(slots)
    paths = [f"/api/wallets/{wallet}" for wallet in wallets]
    paths += [f"/api/wallets/{wallet}/all-dex" for wallet in wallets]
    paths += [f"/api/wallets/{wallet}/portfolio" for wallet in wallets]
    wanted = [await ask.get(path) for path in paths]
    single = {
        (wallet, each["mint"]): await ask.get(f"/api/wallets/{wallet}/{each['mint']}")
        for wallet, answer in zip(wallets, wanted, strict=False)
        for each in answer["positions"]
    }
    many = await ask.post("/api/wallets/batch", {"wallets": wallets})

    _, slots = play()
    away = await make_books(cold_after_h=4)
    for at in range(0, len(slots), 7):
        await away.play(slots[at : at + 7])
    cold = await away.cold(made.wallets[0])
    assert len(cold) >= 5
    here = await records(away.redis, made.wallets[0])
    assert here.keys() & cold == set()
    assert len(here) < sum(wallet == made.wallets[0] for wallet, _ in single)
    assert [await ask.get(path) for path in paths] == wanted
    for (wallet, mint), answer in single.items():
        assert await ask.get(f"/api/wallets/{wallet}/{mint}") == answer
    assert await ask.post("/api/wallets/batch", {"wallets": wallets}) == many
    for wallet in made.wallets:
        answer = await ask.get(f"/api/wallets/{wallet}", limit=1000)
        assert await ask.all_pages(wallet, 2) == answer["positions"]


async def test_a_position_put_away_while_it_is_read_is_there_once(
    make_books, stores, tape, monkeypatch
):
    made = tape(5)
    books = await make_books(cold_after_h=3)
    await books.play(made.slots(40))
    for _ in range(3):
        await books.play(made.slots(10, HOUR_MS // 2, mints=made.mints[:6]))
    wallet = made.wallets[0]
    assert await books.cold(wallet)
    reader = WalletReader(stores)
    whole = await read_page(reader, wallet, 1000, None)
    assert whole.count > 6
    query = stores.query
    later = [
        made.slots(20, HOUR_MS // 2, mints=made.mints[8:11]),  # some go, some come back,
        made.slots(20, HOUR_MS // 2, mints=made.mints[10:12]),  # and of these some go again
    ]
    tokens = set(made.mints[8:10])

    async def late(*args):
        for slots in later:
            await books.play(slots)
        return await query(*args)

    monkeypatch.setattr(stores, "query", late)
    before = await books.cold(wallet)
    found = await read_page(reader, wallet, 1000, None)
    after = await books.cold(wallet)
    assert after - before, "something went"
    assert before - after, "something came back"
    assert dict(found.positions) == dict(whole.positions)
    assert found.state.as_of_slot == whole.state.as_of_slot
    monkeypatch.undo()
    now = dict((await read_page(reader, wallet, 1000, None)).positions)
    changed = {mint for mint, position in found.positions if now[mint] != position}
    assert changed & tokens & before & after, "one was in ClickHouse, but for a while"


async def test_a_wallet_with_thousands_of_positions_is_read_by_the_page(
    make_books, ask, tape, stores, monkeypatch
):
    made = tape(6, wallets=2, mints=1300)
    wallet = made.wallets[0]
    partition = SETTLED_BY_WALLET.partition(wallet)
    books = await make_books(cold_after_h=2)
    slots = []
    for start in range(0, 1300, 100):
        slot = made.empty(HOUR_MS // 20)
        for tx_index, mint in enumerate(made.mints[start : start + 100]):
            made.trade(slot[partition], wallet, mint, tx_index, side=BUY)
        for tx_index in range(3):  # some are received only
            slot[partition].movements.add(
                signature="s",
                tx_index=200 + tx_index,
                wallet=wallet,
                mint=made.address(),
                received_raw=5,
            )
        slots.append(slot)
    await books.play(slots)
    held = await records(books.redis, wallet)
    assert len(held) > 1_250
    wanted = sorted(held, key=lambda mint: (-held[mint].last_trade_ms, mint))

    read = []
    # private `_state`: counts positions read from Redis; answers are the same without the bound.
    whole = wallet_state._state

    def counted(*args):
        state = whole(*args)
        read.append(len(state.positions))
        return state

    monkeypatch.setattr(wallet_state, "_state", counted)
    pages = await ask.all_pages(wallet, 200)
    assert [each["mint"] for each in pages] == wanted
    assert max(read) == 0, "Redis was never asked for all of them"
    answer = await ask.get(f"/api/wallets/{wallet}/all-dex", limit=500)
    assert [each["mint"] for each in answer["positions"]] == wanted[:500]
    assert answer["totals"]["open"] is None
    assert answer["totals"]["position_count"] == len(held)
    glance = (await ask.get(f"/api/wallets/{wallet}/portfolio"))["positions"]
    assert not glance["is_complete"]
    assert glance["position_count"] == len(held)
    assert glance["held_positions"] == 1_000
    (item,) = (await ask.post("/api/wallets/batch", {"wallets": [wallet]}))["wallets"]
    assert [each["mint"] for each in item["positions"]["positions"]] == wanted[:50]

    keeper, half = made.wallet(partition), made.mints[:650]
    slot = made.empty(HOUR_MS)
    for tx_index, mint in enumerate(half):
        made.trade(slot[partition], keeper, mint, tx_index, side=BUY)
    await books.play([slot])
    await books.play([made.empty(HOUR_MS), made.empty(HOUR_MS // 2)])
    left = await records(books.redis, wallet)
    assert len(left) == len(held.keys() & set(half)), "the others are put away"
    assert await ask.all_pages(wallet, 200) == pages
    await books.play([made.empty(HOUR_MS) for _ in range(4)])
    assert not await records(books.redis, wallet)
    asked = []
    query = Stores.query

    async def counted(self, sql, parameters):
        # private `_GAPS`, `_COUNTS`, `_WALLETS`: names the statements that the clock sends.
        if sql not in (health._GAPS, gaps._COUNTS, gaps._WALLETS):  # asked by the clock
            asked.append(sql)
        return await query(self, sql, parameters)

    monkeypatch.setattr(Stores, "query", counted)
    assert await ask.all_pages(wallet, 1_000) == pages
    # Counted, put in order, read by the page; never all of them at once.
    # private `_COUNTED`, `_TRADED`, `_COLD_OF`: which statements are sent is what is tested.
    assert asked == [positions._COUNTED, positions._TRADED, positions._COLD_OF] * 2


async def test_a_cursor_leads_on_with_its_own_wallet_alone(make_books, ask, tape):
    made = tape(6, wallets=2, mints=5)
    await (await make_books()).play(made.slots(80))
    paths = [f"/api/wallets/{wallet}" for wallet in made.wallets]
    held = [answer["positions"][0]["mint"] for answer in [await ask.get(path) for path in paths]]
    paths += [f"{path}/{mint}/lots" for path in paths for mint in held]
    cursors = {}
    for path in paths:
        cursors[path] = (await ask.get(path, limit=1))["page"]["next_cursor"]
    assert len(paths) == len(set(cursors.values()) - {None}) == 6
    for path, cursor in cursors.items():
        for other in paths:
            answer = await ask.get(other, 200 if other == path else 422, cursor=cursor)
            assert other == path or answer["code"] == "invalid_cursor"


async def test_random_pages_of_a_moving_wallet_repeat_nothing(make_books, ask, tape):
    made = tape(7, wallets=2, mints=40)
    books = await make_books()
    await books.play(made.slots(80))
    wallet = made.wallets[0]
    before = {each["mint"]: each for each in await ask.all_pages(wallet, 1_000)}
    random = Random(7)
    seen, query, traded = [], {"limit": 4}, set()
    while True:
        answer = await ask.get(f"/api/wallets/{wallet}", **query)
        seen += [each["mint"] for each in answer["positions"]]
        if not answer["page"]["has_more"]:
            break
        query["cursor"] = answer["page"]["next_cursor"]
        slot, mint = made.empty(), random.choice(sorted(before))
        made.trade(slot[SETTLED_BY_WALLET.partition(wallet)], wallet, mint, 0, side=BUY)
        traded.add(mint)
        await books.play([slot])
    assert len(seen) == len(set(seen))
    assert before.keys() - traded <= set(seen)


@pytest.fixture
def without_caches(monkeypatch):
    """Every answer of an application made after this is read anew."""
    monkeypatch.setattr(wallet_service, "FRESH_FOR_S", 0.0)


async def test_every_answer_is_one_state_while_the_books_go_on(
    without_caches, make_books, ask, tape
):
    made = tape(8, wallets=4, mints=14)
    books = await make_books(cold_after_h=3)
    slots = [
        *made.slots(60, HOUR_MS // 8),
        *(slot for n in range(12) for slot in made.slots(8, HOUR_MS // 2, made.mints[n : n + 4])),
    ]
    is_over = False
    slots_seen, were_cold = set(), 0

    async def look(wallet):
        nonlocal were_cold
        while not is_over:
            answer = await ask.get(f"/api/wallets/{wallet}", limit=1000)
            for name in SUMMED:
                summed = sum(int(each[name]) for each in answer["positions"])
                assert int(answer["totals"][name]) == summed, (name, answer["as_of_slot"])
            mints = [each["mint"] for each in answer["positions"]]
            assert len(mints) == len(set(mints)) == answer["totals"]["position_count"]
            were_cold += len(mints) > len(await records(books.redis, wallet))
            slots_seen.add(answer["as_of_slot"])

    async def play():
        nonlocal is_over
        try:
            for at in range(0, len(slots), 4):
                await books.play(slots[at : at + 4])
        finally:
            is_over = True

    await asyncio.gather(play(), *map(look, made.wallets))
    assert len(slots_seen) > 15
    assert were_cold > 10
