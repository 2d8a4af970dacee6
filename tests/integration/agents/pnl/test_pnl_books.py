"""The books on real stores: a function of the slots, whatever is cut, killed or put away."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from uuid import uuid4

import pytest

from infra.clickhouse.client import connect
from infra.redis.client import RedisError
from pipeline.agents.pnl import cold, cold_wallets
from pipeline.agents.pnl.books import GENERATION_MS
from pipeline.agents.pnl.store import Store
from pipeline.domain.lots import Holding
from pipeline.sinks.redis import free, is_full
from schemas.money import USDC, WSOL
from schemas.positions import (
    COLD_MARK,
    LOT,
    full_chunks,
    unpack_cold,
    unpack_cold_wallet,
    unpack_position,
    unpack_wallet_day,
)
from schemas.proto.tape_pb2 import BUY, SELL, SlotBatch
from schemas.solana.base58 import decode, encode
from tests.integration.agents.pnl.conftest import WATERMARK

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def straight(make, batches, **options):
    """What one load and one flush make of the slots."""
    player = await make(**options)
    await player.apply(batches)
    await player.flush()
    return await player.state(), player.rows


@pytest.mark.parametrize("seed", range(4))
async def test_however_it_is_cut_the_stores_hold_the_same(player, market, seed):
    batches = market(seed).slots(300, step_ms=HOUR_MS // 4)
    wanted, rows = await straight(player, batches)
    assert len(wanted) > 30
    random = Random(seed)
    cut = await player(recent=5)  # forgets all the time
    at = 0
    while at < len(batches):
        count = random.choice([1, 2, 10])
        await cut.apply(batches[at : at + count])
        at += count
        if random.random() < 0.4:
            await cut.flush()
            if random.random() < 0.3:
                cut.books = None  # a restart
    await cut.flush()
    assert await cut.state() == wanted
    assert cut.rows == rows


async def test_positions_that_rest_leave_memory(player, market):
    tape = market(3)
    books = await player()
    for _ in range(20):
        await books.apply([tape.one(GENERATION_MS // 20, busy=9)])
        await books.flush()
    # private `_memory`, `_young`, `_old`: the bound on memory shows nowhere else.
    assert len({*books.books._memory.entries._young, *books.books._memory.entries._old}) > 10
    for _ in range(2):
        await books.apply([tape.one(GENERATION_MS, busy=0)])
        await books.flush()
    for recent in (books.books._memory.entries, books.books._memory.wallets):
        assert not recent._young
        assert not recent._old


async def test_redis_keeps_the_figures_of_eight_days(player, market):
    tape = market(4)
    batches = [
        *(tape.one(DAY_MS, busy=9) for _ in range(60)),
        tape.one(20 * DAY_MS, busy=9),
        *(tape.one(DAY_MS, busy=9) for _ in range(5)),
        tape.one(90 * DAY_MS, busy=9),
        *(tape.one(DAY_MS, busy=9) for _ in range(5)),
    ]
    wanted, rows = await straight(player, batches[:60])
    kept = sorted(int(key.rpartition(":")[2]) for key in wanted if key.startswith("days:"))
    today = batches[59].block_time_ms // DAY_MS
    assert kept[-1] == today
    assert today - 8 < kept[0] <= today - 6
    wanted, rows = await straight(player, batches)
    assert all(
        int(key.rpartition(":")[2]) > today + 100 for key in wanted if key.startswith("days:")
    )
    cut = await player()
    for batch in batches:
        await cut.apply([batch])
        await cut.flush()
    assert await cut.state() == wanted
    assert cut.rows == rows


async def test_what_is_applied_while_a_flush_is_under_way_is_of_the_next(player, market):
    batches = market(5).slots(200)
    wanted, rows = await straight(player, batches)
    late = await player(recent=5)
    for at in range(0, len(batches), 10):
        await late.apply(batches[at : at + 4])
        slot = late.last_slot
        writes = late.books.take()
        await late.apply(batches[at + 4 : at + 7])
        late.last_slot, newest = slot, late.last_slot
        await late.insert(writes)
        await late.commit(writes)
        late.last_slot = newest
        late.books.written()
        await late.apply(batches[at + 7 : at + 10])
    await late.flush()
    assert await late.state() == wanted
    assert late.rows == rows


async def test_a_crash_between_the_stores_and_a_replay_change_nothing(player, market):
    batches = market(6).slots(120, step_ms=HOUR_MS)
    wanted, rows = await straight(player, batches)
    crashing = await player(clickhouse=True)
    for at in range(0, len(batches), 20):
        await crashing.apply(batches[at : at + 13])
        await crashing.insert(crashing.books.take())
        crashing.books = None  # killed before Redis knew
        await crashing.apply(batches[at : at + 20])
        await crashing.flush()
    assert await crashing.state() == wanted
    await crashing.apply(batches)  # the watermark is beyond all of them
    await crashing.flush()
    assert await crashing.state() == wanted
    client = await crashing.sink.client()
    for table in ("lot_matches", "positions", "wallet_days"):
        found = await client.query(f"SELECT count() FROM {table} FINAL")
        assert found.result_rows[0][0] == sum(name == table for name, *_ in rows), table


async def test_clickhouse_says_what_redis_says(player, market):
    batches = market(7).slots(200, step_ms=HOUR_MS)
    books = await player(clickhouse=True)
    for at in range(0, len(batches), 7):
        await books.apply(batches[at : at + 7])
        await books.flush()
    state = await books.state()
    held = {
        (key.rpartition(":")[2], mint): unpack_position(packed)[0]
        for key, value in state.items()
        if key.startswith("pos:")
        for mint, packed in value.items()
    }
    client = await books.sink.client()
    latest = await client.query(
        "SELECT wallet, mint, held_raw, realized_lamports, realized_usd_micros, unmatched_raw,"
        " held_cost_lamports, buys, sells, slot FROM positions FINAL"
        " ORDER BY day DESC LIMIT 1 BY wallet, mint"
    )
    assert len(latest.result_rows) == len(held) > 50
    for wallet, mint, *figures in latest.result_rows:
        position = held[wallet, decode(mint)]
        assert figures == [
            position.held_raw,
            position.realized_lamports,
            position.realized_usd_micros,
            position.unmatched_raw,
            position.held_cost_lamports,
            position.buys,
            position.sells,
            position.changed_slot,
        ]
    realized = sum(position.realized_lamports for position in held.values())
    totals = [unpack_wallet_day(packed) for packed in state["wallets:{w3}"].values()]
    assert sum(total.realized_lamports for total in totals) == realized
    for query in (
        "SELECT sum(realized_lamports) FROM lot_matches FINAL",
        "SELECT sum(realized_lamports) FROM wallet_days FINAL",
        "SELECT sum(realized_lamports) FROM position_days",
    ):
        assert (await client.query(query)).result_rows == [(realized,)], query
    tops = {
        (key.partition("}:")[2], wallet): score
        for key, value in state.items()
        if key.startswith("top:{w3}:")
        for wallet, score in value.items()
    }
    assert tops == {
        (encode(mint), decode(wallet)): position.realized_usd_micros
        for (wallet, mint), position in held.items()
    }


@pytest.mark.parametrize("seed", [8, 9])
async def test_put_away_and_back_is_as_never_away(player, market, seed):
    tape = market(seed)
    quarter = HOUR_MS // 4
    batches = [
        *tape.slots(60, quarter),
        *tape.slots(40, quarter, mints=2),  # the others die
        *tape.slots(10, 3 * HOUR_MS, mints=2),  # longer than it takes, in one step
        *tape.slots(60, quarter),  # and move again
        *tape.slots(40, quarter, mints=3),
    ]
    last = tape.slots(1, quarter)[0]
    random = Random(seed)
    for wallet in tape.wallets:
        for mint in tape.mints:
            last.movements.add(
                signature="x", tx_index=random.randrange(9), wallet=wallet, mint=mint, sent_raw=1
            )
    batches.append(last)
    wanted, rows = await straight(player, batches)
    away = await player(clickhouse=True, cold_after_h=2, recent=10)
    most_cold, at = 0, 0
    while at < len(batches):
        count = random.choice([1, 3, 12, 30])
        await away.apply(batches[at : at + count])
        at += count
        if random.random() < 0.7 or at >= len(batches):
            await away.flush()
            here = set(await away.redis.zrange("traded:{w3}", 0, -1))
            most_cold = max(most_cold, len(tape.mints) - len(here))
            for key in await away.redis.keys("pos:*"):
                assert set(await away.redis.hkeys(key)) <= {*here, COLD_MARK}
            if random.random() < 0.3:
                away.books = None
    assert most_cold >= 3
    state = await away.state()
    marked = {
        key.rpartition(":")[2]
        for key, value in state.items()
        if key.startswith("pos:") and COLD_MARK in value
    }
    assert without_marks(state) == wanted
    asleep = {key: row for key, row in away.rows.items() if key[0] == "cold_positions"}
    assert asleep
    assert marked >= {wallet for _, _, _, wallet in asleep}
    assert {key: row for key, row in away.rows.items() if key not in asleep} == rows


def without_marks(state):
    """What is of the slots alone, however long anything rests; changes the state."""
    state.pop("away:{w3}", None)
    for key, value in state.items():
        if key.startswith(("pos:", "top:")):
            value.pop(COLD_MARK, None)
    return {key: value for key, value in state.items() if value}


def with_rows(state, rows):
    """A state together with what of it is in ClickHouse; without what differs for that."""
    state = without_marks(state)
    wallets: dict[str, tuple[int, bytes]] = {}
    for (table, *_), row in rows.items():
        if table == "cold_wallets":
            wallet, packed, slot = row
            wallets[wallet] = max(wallets.get(wallet, (0, b"")), (slot, packed))
    gone = {wallet for wallet in wallets if decode(wallet) not in state.get("due:{w3}", {})}
    for wallet in gone:
        total, balances = unpack_cold_wallet(wallets[wallet][1])
        assert f"pos:{{w3}}:{wallet}" not in state
        assert f"bal:{{w3}}:{wallet}" not in state
        if total:
            assert state.setdefault("wallets:{w3}", {}).setdefault(decode(wallet), total) == total
        if balances:
            state[f"bal:{{w3}}:{wallet}"] = balances
    for (table, *_), row in rows.items():
        if table != "cold_positions":
            continue
        mint, _, wallet, packed, *_ = row
        positions = state.setdefault(f"pos:{{w3}}:{wallet}", {})
        if decode(mint) in positions:
            continue
        assert wallet in gone or decode(mint) not in state["traded:{w3}"]
        positions[decode(mint)], chunks = unpack_cold(packed)
        position, _ = unpack_position(positions[decode(mint)])
        for number, chunk in zip(full_chunks(position), chunks, strict=True):
            state[f"lots:{{w3}}:{wallet}:{mint}:{number}"] = chunk
        top = state.setdefault(f"top:{{w3}}:{mint}", {})
        top[decode(wallet)] = position.realized_usd_micros
    return {key: value for key, value in state.items() if key not in ("due:{w3}", "traded:{w3}")}


def resting_tape(market, seed):
    """Slots in which wallets and tokens rest, some for long, and move again."""
    tape = market(seed, wallets=25)
    all_wallets, batches = tape.wallets, []
    for part in range(12):
        tape.wallets = Random(seed + part).sample(all_wallets, 6)
        step_ms = [HOUR_MS // 6, HOUR_MS // 2, 2 * HOUR_MS, 400][part % 4]
        batches += tape.slots(14, step_ms, mints=Random(part).choice([1, 2, 6]))
    return batches


async def test_a_redis_that_was_set_back_goes_on_with_positions_of_its_own_slot(
    player, market, stores
):
    batches = resting_tape(market, 0)
    hours = {"cold_after_h": 3, "traded_h": 400, "received_h": 400}
    whole = await player(clickhouse=True, **hours)
    states, slots = [], defaultdict(set)  # at which slots each position was put away
    for batch in batches:
        await whole.apply([batch])
        keys = await whole.redis.keys("*")
        async with whole.redis.pipeline(transaction=False) as ask:
            for key in keys:
                ask.dump(key)
            states.append(dict(zip(keys, await ask.execute(), strict=True)))
        before = dict(whole.rows)
        await whole.flush()
        for key, row in whole.rows.items():
            if key[0] == "cold_positions" and before.get(key) != row:
                slots[key].add(row[4])
    twice = [sorted(each) for each in slots.values() if len(each) > 1]
    assert twice, "some were put away, woken and put away again"
    wanted = await whole.state()
    # Between the first and the last time that as many as possible were put away.
    back = max(
        range(len(batches)),
        key=lambda at: sum(each[0] < batches[at].slot <= each[-1] for each in twice),
    )
    await whole.redis.flushall()
    for key, value in states[back].items():
        await whole.redis.restore(key, 0, value)
    with connect(stores) as client:
        client.command("OPTIMIZE TABLE cold_positions FINAL")
    whole.books = None
    whole.token = uuid4().hex
    for batch in batches:  # those before the watermark are left out
        await whole.apply([batch])
        if batch.slot > whole.watermark.slot:
            await whole.flush()
    assert await whole.state() == wanted


@pytest.mark.parametrize(
    ("seed", "rest", "at_once"),
    [(0, (400, 5, 2), 100), (1, (3, 5, 2), 100), (2, (2, 4, 4), 2), (3, (5, 2, 1), 100)],
)
async def test_wallets_at_rest_leave_and_come_back_as_they_were(
    player, market, monkeypatch, seed, rest, at_once
):
    monkeypatch.setattr(cold_wallets, "AT_ONCE", at_once)
    mints_h, traded_h, received_h = rest
    batches = resting_tape(market, seed)
    wanted, rows = await straight(player, batches)
    wanted = with_rows(wanted, {})
    random = Random(seed)
    hours = {"cold_after_h": mints_h, "traded_h": traded_h, "received_h": received_h}
    states = []
    for sizes in ([1, 4], [1, 2, 20], [100]):  # four slots may span more hours than wallets rest
        cut = await player(clickhouse=True, recent=5, **hours)
        at = 0
        while at < len(batches):
            count = random.choice(sizes)
            await cut.apply(batches[at : at + count])
            at += count
            if random.random() < 0.5 or at >= len(batches):
                await cut.flush()
                if random.random() < 0.3:
                    cut.books = None
                elif random.random() < 0.3 and at < len(batches):
                    await cut.apply(batches[at : at + 1])
                    await cut.insert(cut.books.take())
                    cut.books = None  # killed before Redis knew
        assert len({key[1] for key in cut.rows if key[0] == "cold_wallets"}) > 15
        assert {key: row for key, row in cut.rows.items() if not key[0].startswith("cold_")} == rows
        state = await cut.state()
        states.append(
            {key: {**value} if isinstance(value, dict) else value for key, value in state.items()}
        )
        assert with_rows(state, cut.rows) == wanted
    assert states[0] == states[1] == states[2]


def trade(slot: int, market, side: int, count: int, quantity: int = 10) -> SlotBatch:
    batch = SlotBatch(slot=slot, block_time_ms=1_763_700_000_000 + slot)
    for tx_index in range(count):
        swap = batch.events.add().swap
        swap.signature, swap.slot, swap.tx_index = "s", slot, tx_index
        swap.wallet = swap.fee_payer = market.wallets[0]
        swap.mint, swap.quote_mint = market.mints[0], "So11111111111111111111111111111111111111112"
        swap.side, swap.amount_raw, swap.wallet_amount_raw = side, quantity, quantity
        swap.quote_amount_raw = swap.wallet_quote_amount_raw = 7
        swap.sol_value_lamports = swap.usd_value_micros = 7
    return batch


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_after_a_pause_the_dead_leave_some_at_a_time(player, market, monkeypatch, seed):
    monkeypatch.setattr(cold, "AT_ONCE", 4)
    tape = market(seed, mints=40)
    before = [tape.one(HOUR_MS // 3, busy=12) for _ in range(12)]
    pause = tape.one(10 * DAY_MS, mints=2)
    after = [tape.one(HOUR_MS // 2, mints=4) for _ in range(18)]
    batches = [*before, pause, *after]
    wanted, _ = await straight(player, batches, cold_after_h=24, clickhouse=True)
    assert len(wanted["traded:{w3}"]) < 20
    random = Random(seed)
    for sizes in ([1], [1, 3, 8]):
        cut = await player(cold_after_h=24, clickhouse=True, recent=5)
        at = 0
        while at < len(batches):
            count = random.choice(sizes)
            await cut.apply(batches[at : at + count])
            at += count
            if random.random() < 0.6 or at >= len(batches):
                await cut.flush()
                if random.random() < 0.3:
                    cut.books = None
            if at == len(before) + 1:  # just after the pause
                assert len({key[1] for key in cut.rows if key[0] == "cold_positions"}) <= 4
        assert await cut.state() == wanted


@pytest.mark.parametrize("after_h", [24, 500])
async def test_a_wallet_that_was_away_for_a_moment_is_marked_too(player, market, after_h):
    tape = market(12)
    before, pause = trade(1, tape, BUY, 1), tape.one(10 * DAY_MS, busy=0)
    again = trade(pause.slot + 1, tape, SELL, 1)
    again.block_time_ms = pause.block_time_ms + 1
    batches = [before, pause, again]
    wanted, _ = await straight(player, batches, cold_after_h=after_h)  # moves in the same load
    cut = await player(cold_after_h=after_h, clickhouse=True)
    for batch in batches:
        await cut.apply([batch])
        await cut.flush()
    assert await cut.state() == wanted
    fields = wanted[f"pos:{{w3}}:{tape.wallets[0]}"]
    assert (COLD_MARK in fields) == (after_h == 24)


async def test_a_fee_is_no_token_to_put_away(player, market):
    tape = market(3)
    before, after = tape.one(busy=0), tape.one(10 * DAY_MS, busy=9)
    wallet = tape.wallets[0]
    swap = before.events.add().swap
    swap.signature, swap.slot = encode(bytes(64)), before.slot
    swap.wallet = swap.fee_payer = wallet
    swap.mint, swap.quote_mint, swap.side = USDC, WSOL, BUY
    swap.amount_raw = swap.wallet_amount_raw = 150
    swap.quote_amount_raw = swap.wallet_quote_amount_raw = 1_000
    swap.fee_lamports = 5_000
    wanted, rows = await straight(player, [before, after], cold_after_h=24)
    total = unpack_wallet_day(wanted["wallets:{w3}"][decode(wallet)])
    assert total.fee_lamports >= 5_000
    apart = await player(cold_after_h=24)
    for batch in (before, after):
        await apart.apply([batch])
        await apart.flush()
    assert await apart.state() == wanted
    assert apart.rows == rows


async def test_a_bot_with_a_hundred_thousand_lots_is_read_by_the_chunk(player, market):
    tape, total = market(10), 100_000
    books = await player(recent=2)
    for slot in range(1, 51):
        await books.apply([trade(slot, tape, BUY, total // 50)])
        await books.flush()
    position = f"pos:{{w3}}:{tape.wallets[0]}"
    (packed,) = (await books.redis.hgetall(position)).values()
    assert len(packed) < 1_000
    assert len(await books.redis.keys("lots:*")) == total // 16
    books.books = None
    await books.redis.config_resetstat()
    await books.apply([trade(60, tape, SELL, 40)])
    read = (await books.redis.info("commandstats"))["cmdstat_mget"]["calls"]
    assert read == 1
    await books.flush()
    (packed,) = (await books.redis.hgetall(position)).values()
    found, _ = unpack_position(packed)
    assert (found.lots_closed, found.held_raw) == (40, 10 * (total - 40))
    assert len(await books.redis.keys("lots:*")) == total // 16 - 2
    books.books = None
    await books.apply([trade(61, tape, SELL, 1, quantity=10 * (total - 40))])
    await books.flush()
    (packed,) = (await books.redis.hgetall(position)).values()
    found, tail = unpack_position(packed)
    assert (found.held_raw, found.held_cost_lamports, found.lots_closed) == (0, 0, total)
    assert found.matched_cost_lamports == 7 * total
    assert not await books.redis.keys("lots:*")
    assert [*full_chunks(found)] == []
    assert tail == b""
    assert len(Holding.unpack(packed).pack()) == len(packed) < LOT.size * 16


async def test_what_an_earlier_version_put_away_is_found(player, market):
    tape = market(13)
    wallet, mint = tape.wallets[0], tape.mints[0]
    books = await player(clickhouse=True, cold_after_h=24)
    await books.apply([trade(1, tape, BUY, 3)])
    await books.flush()
    await books.apply([tape.one(10 * DAY_MS, busy=0)])
    await books.flush()
    redis = books.redis
    assert await redis.zscore("traded:{w3}", decode(mint)) is None
    # As that one had it: a set of the dead tokens, and no order of the wallets.
    await redis.sadd("cold:{w3}", decode(mint))
    await redis.unlink("away:{w3}", "due:{w3}")
    books.books = None
    await Store(redis, 3).prepare(due_hour=7)
    assert not await redis.exists("cold:{w3}")
    assert await redis.zscore("due:{w3}", decode(wallet)) == 7
    sale = trade(books.last_slot + 1, tape, SELL, 1)
    sale.block_time_ms = tape.time_ms + 1
    await books.apply([sale])
    await books.flush()
    fields = await redis.hgetall(f"pos:{{w3}}:{wallet}")
    assert unpack_position(fields[decode(mint)])[0].held_raw == 20


async def test_a_full_redis_makes_room_by_itself(player, market):
    tape = market(14, wallets=600)
    crowd, few = tape.wallets, tape.wallets[:5]
    before = [tape.one(400, busy=60) for _ in range(60)]
    tape.wallets = few
    full = [tape.one(400, busy=40) for _ in range(12)]
    tape.wallets = crowd
    after = [tape.one(400, busy=60) for _ in range(40)]
    wanted, rows = await straight(player, [*before, *full, *after])
    books = await player(clickhouse=True, recent=5)
    await Store(books.redis, 3).prepare(due_hour=0)
    await books.apply(before)
    await books.flush()
    used = (await books.redis.info("memory"))["used_memory"]
    refused = evicted = 0
    try:
        await books.redis.config_set("maxmemory", used - 50_000)
        for batch in full:
            await books.apply([batch])
            writes = books.books.take()
            await books.insert(writes)
            while True:
                try:
                    await books.commit(writes)
                except RedisError as error:
                    if not is_full(error):
                        raise
                    refused += 1
                    freeing = await books.books.evict(books.watermark.slot)
                    assert freeing is not None, "nothing is left to be put away"
                    await books.insert(freeing)
                    slot = books.watermark.slot
                    assert not await free(books.redis, WATERMARK, slot + 1, freeing.commands)
                    for _ in range(2):  # the answer was lost
                        assert await free(books.redis, WATERMARK, slot, freeing.commands)
                    evicted += freeing.evicted
                else:
                    break
            books.books.written()
    finally:
        await books.redis.config_set("maxmemory", 0)
    assert refused
    assert evicted > 100
    state = await books.state()
    assert len(state["due:{w3}"]) < 600
    await books.apply(after)
    await books.flush()
    state = await books.state()
    assert with_rows(state, books.rows) == with_rows(wanted, {})
    assert {key: row for key, row in books.rows.items() if not key[0].startswith("cold_")} == rows
