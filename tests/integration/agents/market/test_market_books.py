"""The market books on a real Valkey, against what a slow reader of the whole tape says."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

import orjson
import pytest
from redis.asyncio import Redis

from pipeline.agents.market import books as market_books
from pipeline.agents.market import trending_list
from pipeline.agents.market.trending_stream import TrendingStream
from pipeline.sinks.redis import Watermark, commit
from schemas.channels import TRENDING as TRENDING_FRAMES
from schemas.channels import (
    TRENDING_FIELDS,
    trending_data,
    trending_removed_event,
    unpack,
)
from schemas.codec import CodecError
from schemas.markets import (
    INTERVALS_S,
    PRICE_SCALE,
    pack_pool,
    unpack_candles,
    unpack_head,
    unpack_pool,
    window,
)
from schemas.money import WSOL
from schemas.proto.tape_pb2 import SlotBatch
from schemas.redis_keys import (
    ACCOUNTS,
    HOLDERS,
    LIVE_EPOCH,
    MARKET,
    TRENDING,
    TRENDING_RECORDS,
    mint_tag,
    tag_of_mints,
)
from schemas.solana import base58
from schemas.topics import SETTLED_BY_MINT

TAG = tag_of_mints(0)
PUMP = "pump-fun"


async def test_any_cut_into_flushes_and_any_restart_gives_the_same_bytes(
    lab: Any, redis: Redis
) -> None:
    tape = lab.make_tape(1, 400)
    first_rows = await lab.run(redis, tape.slots, flush=lambda: len(tape.slots))
    first = await lab.dump(redis)
    for seed, reopen in ((1, 0.0), (2, 0.5), (3, 1.0)):
        await redis.flushall()
        rng = random.Random(seed)
        rows = await lab.run(redis, tape.slots, flush=lambda r=rng: r.randint(1, 9), reopen=reopen)
        assert await lab.dump(redis) == first
        assert rows == first_rows


async def test_what_is_in_memory_makes_no_difference(
    lab: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Balances around 2**53 as well, above which a score is not exact.
    tape = lab.make_tape(8, 200, mints=20, unit=1000, step_ms=20_000)
    monkeypatch.setattr(trending_list, "LISTED", 3)
    first_rows = await lab.run(redis, tape.slots, flush=lambda: 7)
    first = await lab.dump(redis)
    assert len(first["trending:{m0}"]) == 3
    exact = [
        f for name in first if name.startswith("accounts:") for f in first[name] if f[:1] == b"="
    ]
    assert exact
    await redis.flushall()
    monkeypatch.setattr(market_books, "MARKETS_IN_MEMORY", 2)
    monkeypatch.setattr(market_books, "DETAILS_IN_MEMORY", 5)
    rows = await lab.run(redis, tape.slots, flush=lambda: 2)
    assert await lab.dump(redis) == first
    assert rows == first_rows


@pytest.mark.parametrize("listed", [1, 5])
async def test_what_rests_leaves_memory_and_makes_no_difference(
    lab: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    tape = lab.make_tape(5, 200, mints=20, step_ms=60_000)
    monkeypatch.setattr(trending_list, "LISTED", listed)
    monkeypatch.setattr(market_books, "IDLE_MIN", 10**6)
    first_rows = await lab.run(redis, tape.slots, flush=lambda: 3)
    first = await lab.dump(redis)
    await redis.flushall()
    monkeypatch.setattr(market_books, "IDLE_MIN", 1)
    rows: dict[str, list[Any]] = {}
    books = await lab.opened(redis, rows)
    fewest = len(tape.balances)
    rested: set[str] = set()
    for at in range(0, len(tape.slots), 3):
        await books.load(tape.slots[at : at + 3])
        for batch in tape.slots[at : at + 3]:
            books.apply(batch)
        await lab.write(redis, books, rows)
        # private `_time_ms`: the books' own clock, which slots move.
        minute_ago_ms = (books._time_ms // 60_000 - 1) * 60_000
        # private `_markets`, `_resting`, `_trending`: the bound on memory; what is written is the
        # same without it.
        assert all(each.head.time_ms >= minute_ago_ms for each in books._markets.values())
        assert books._resting.keys() <= books._trending.scores.keys() - books._markets.keys()
        rested |= books._resting.keys()
        fewest = min(fewest, len(books._markets)) if at > 30 else fewest
    assert fewest < len(tape.balances)
    assert len(rested) >= listed
    assert await lab.dump(redis) == first
    assert rows == first_rows


async def test_what_rests_of_a_market_that_does_not_leaves_memory(
    lab: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = lab.make_tape(6, 200, mints=2, wallets=200, unit=1000, step_ms=30_000)
    monkeypatch.setattr(market_books, "DETAILS_MIN", 10**6)
    first_rows = await lab.run(redis, tape.slots, flush=lambda: 3)
    first = await lab.dump(redis)
    await redis.flushall()
    monkeypatch.undo()
    rows: dict[str, list[Any]] = {}
    books = await lab.opened(redis, rows)
    moved: dict[str, dict[bytes, int]] = defaultdict(dict)  # account -> when it moved last
    most = 0
    for at in range(0, len(tape.slots), 3):
        part = tape.slots[at : at + 3]
        await books.load(part)
        for batch in part:
            books.apply(batch)
            for each in batch.balances:
                moved[each.mint][each.account] = batch.block_time_ms // 60_000
        await lab.write(redis, books, rows)
        # What moved in the minutes before the last time that they forgot may be there still.
        since = books._time_ms // 60_000 - 2 * market_books.DETAILS_MIN
        for mint, market in books._markets.items():
            assert all(moved[mint][account] >= since for account in market.holders.accounts)
            most = max(most, len(market.traders.known))
    assert 0 < most < min(len(accounts) for accounts in moved.values()) / 2
    assert await lab.dump(redis) == first
    assert rows == first_rows


async def test_a_market_that_never_rests_does_not_fill_the_memory(
    lab: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = lab.make_tape(9, 300, mints=2, wallets=200, unit=1000)
    first_rows = await lab.run(redis, tape.slots, flush=lambda: 5)
    first = await lab.dump(redis)
    await redis.flushall()
    monkeypatch.setattr(market_books, "DETAILS_IN_MEMORY", 20)
    rows: dict[str, list[Any]] = {}
    books = await lab.opened(redis, rows)
    watermark, most = None, 0
    for at in range(0, len(tape.slots), 5):
        part = tape.slots[at : at + 5]
        await books.load(part[:3])
        for batch in part[:3]:
            books.apply(batch)
        writes = books.take()
        await books.load(part[3:])  # while that is being written
        for batch in part[3:]:
            books.apply(batch)
        for table, more in writes.rows.items():
            rows.setdefault(table, []).extend(more)
        watermark, before = Watermark(at + 1, 0, 0), watermark
        await commit(redis, "wm", before, watermark, writes.commands)
        books.written()
        for market in books._markets.values():
            most = max(most, len(market.traders.known), len(market.holders.accounts))
    await lab.write(redis, books, rows)
    assert await lab.dump(redis) == first
    assert rows == first_rows
    assert most < 60


async def test_holders_are_the_sums_of_their_accounts(lab: Any, redis: Redis) -> None:
    tape = lab.make_tape(2, 300)
    await lab.run(redis, tape.slots, flush=lambda: 3, reopen=0.3)
    for mint in tape.balances:
        expected = lab.holders_of(tape, mint)
        ranked = await redis.zrange(HOLDERS.make(tag=TAG, mint=mint), 0, -1, withscores=True)
        assert {base58.encode(owner): int(score) for owner, score in ranked} == expected
        fields = await redis.hgetall(MARKET.make(tag=TAG, mint=mint))
        head, _ = unpack_head(fields[b"head"])
        assert head.holder_count == len(expected)
        if mint in tape.creators:
            assert head.creator_raw == expected.get(tape.creators[mint], 0)
        accounts = await redis.hgetall(ACCOUNTS.make(tag=TAG, mint=mint))
        kept = {a for a, (_, amount) in tape.balances[mint].items() if amount}
        assert set(accounts) == kept | (tape.vaults[mint] & tape.balances[mint].keys())


async def file_as_before(redis: Redis) -> None:
    """Give Redis the form of earlier versions, which filed traders under 8 bytes of a pool."""
    async for key in redis.scan_iter("traders:*"):
        for member, score in await redis.zrange(key, 0, -1, withscores=True):
            if len(member) > 32:
                await redis.zrem(key, member)
                await redis.execute_command("ZADD", key, score, member[:8] + member[32:])
    async for key in redis.scan_iter("market:*"):
        for name, value in (await redis.hgetall(key)).items():
            if name.startswith(b"pool:"):
                facts, series = unpack_pool(value)
                before = replace(facts, traders_by_address=False)
                await redis.hset(key, name, pack_pool(before, series))


@pytest.mark.parametrize("of_before", [0, 200])
async def test_rolling_figures_equal_a_sum_over_all_swaps(
    lab: Any, redis: Redis, of_before: int
) -> None:
    """The first slots may be those of an earlier version."""
    tape = lab.make_tape(3, 500, mints=6, step_ms=60_000)
    if of_before:
        await lab.run(redis, tape.slots[:of_before], flush=lambda: 4, reopen=0.2)
        await file_as_before(redis)
    await lab.run(redis, tape.slots[of_before:], flush=lambda: 4, reopen=0.2)
    now_min = max(batch.block_time_ms for batch in tape.slots) // 60_000
    for mint in tape.balances:
        fields = await redis.hgetall(MARKET.make(tag=TAG, mint=mint))
        swaps = [swap for swap in tape.swaps if swap.mint == mint]
        pools = {
            name[5:].decode(): unpack_pool(value)[1]
            for name, value in fields.items()
            if name.startswith(b"pool:")
        }
        assert pools.keys() == {swap.pool for swap in swaps}
        for width, minutes, data, of in (
            (1, 5, fields[b"minutes"], swaps),
            (1, 60, fields[b"minutes"], swaps),
            (15, 1440, fields[b"quarters"], swaps),
            *(
                (15, 1440, data, [swap for swap in swaps if swap.pool == pool])
                for pool, data in pools.items()
            ),
        ):
            within = [
                swap
                for swap in of
                if (m := swap.block_time_ms // 60_000) - m % width > now_min - minutes
            ]
            figures = window(data, now_min, minutes)
            assert figures.buys == sum(swap.side == 1 for swap in within)
            assert figures.sells == sum(swap.side == 2 for swap in within)
            assert figures.buy_lamports == sum(
                swap.sol_value_lamports or 0 for swap in within if swap.side == 1
            )
            assert figures.sell_usd_micros == sum(
                swap.usd_value_micros or 0 for swap in within if swap.side == 2
            )
            assert figures.traders == len({swap.wallet for swap in within})


async def test_candles_hold_every_trade_once(lab: Any, redis: Redis) -> None:
    tape = lab.make_tape(4, 400)
    rows = await lab.run(redis, tape.slots, flush=lambda: 5, reopen=0.2)
    latest: dict[tuple[str, int, int], tuple[Any, ...]] = {}
    for row in rows["candles"]:
        key = row[:3]
        assert key not in latest or latest[key][-1] <= row[-1]
        latest[key] = row
    # What Redis still has open completes what was written.
    for mint in tape.balances:
        fields = await redis.hgetall(MARKET.make(tag=TAG, mint=mint))
        for length_s, candle in zip(
            INTERVALS_S.values(), unpack_candles(fields[b"candles"]), strict=True
        ):
            row = (mint, length_s, candle.start_s * 1000)
            latest[row] = (
                *row, *([None] * 8), candle.amount_raw, candle.lamports, candle.usd_micros,
                candle.buys, candle.sells, candle.slot,
            )  # fmt: skip
    for length_s in INTERVALS_S.values():
        expected: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
        for swap in tape.swaps:
            start = swap.block_time_ms // 1000 // length_s * length_s
            sums = expected[swap.mint, start * 1000]
            sums[0] += swap.amount_raw
            sums[1] += swap.sol_value_lamports or 0
            sums[2] += swap.usd_value_micros or 0
            sums[3 if swap.side == 1 else 4] += 1
        found = {
            (mint, start): list(row[11:16])
            for (mint, length, start), row in latest.items()
            if length == length_s
        }
        assert found == expected


async def test_candles_of_sol_are_of_the_reference_of_each_slot(lab: Any, redis: Redis) -> None:
    """On SOL's own partition, whatever the flushes and restarts; on others there are none."""
    tape = lab.make_tape(6, 300)
    for slot in tape.slots[:5]:
        slot.sol_usd = ""  # the reference is not known yet
    partition = SETTLED_BY_MINT.partition(WSOL)
    rows = await lab.run(redis, tape.slots, flush=lambda: 5, reopen=0.3, partition=partition)
    first = await lab.dump(redis)
    await redis.flushall()
    whole = await lab.run(redis, tape.slots, flush=lambda: 300, partition=partition)
    assert (whole, await lab.dump(redis)) == (rows, first)

    expected: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
    time_ms = 0
    for slot in tape.slots:
        time_ms = max(time_ms, slot.block_time_ms)
        if slot.sol_usd:
            usd = float(Fraction(slot.sol_usd))
            for length_s in INTERVALS_S.values():
                start_ms = time_ms // 1000 // length_s * length_s * 1000
                expected[length_s, start_ms].append((slot.slot, usd))
    fields = await redis.hgetall(MARKET.make(tag=mint_tag(WSOL), mint=WSOL))
    running = dict(zip(INTERVALS_S.values(), unpack_candles(fields[b"candles"]), strict=True))
    found = {(row[1], row[2]): row for row in rows["candles"] if row[0] == WSOL}
    found |= {
        (length_s, candle.start_s * 1000): market_books.candle_row(WSOL, length_s, candle)
        for length_s, candle in running.items()
    }
    assert found.keys() == expected.keys()
    for key, quotes in expected.items():
        usd = [each for _, each in quotes]
        _, _, _, *prices, amount, lamports, micros, buys, sells, slot = found[key]
        assert prices[:4] == [1.0] * 4
        assert prices[4:] == pytest.approx([usd[0], max(usd), min(usd), usd[-1]], rel=1e-12)
        assert (amount, lamports, micros, buys, sells) == (0, 0, 0, 0, 0)
        assert slot == quotes[-1][0]
    head, _ = unpack_head(fields[b"head"])
    last = [slot.sol_usd for slot in tape.slots if slot.sol_usd][-1]
    assert head.price_sol == PRICE_SCALE
    assert head.price_usd == int(Fraction(last) * PRICE_SCALE)

    await redis.flushall()
    elsewhere = await lab.run(redis, tape.slots, flush=lambda: 50)
    assert WSOL not in {row[0] for row in elsewhere["candles"]}


async def test_trending_records_have_the_twenty_fields(lab: Any, redis: Redis) -> None:
    tape = lab.make_tape(5, 300)
    await lab.run(redis, tape.slots, flush=lambda: 5)
    scores = dict(await redis.zrange(TRENDING.make(tag=TAG), 0, -1, withscores=True))
    records = await redis.hgetall(TRENDING_RECORDS.make(tag=TAG))
    assert records.keys() == scores.keys()
    assert {mint.decode() for mint in records} <= tape.creators.keys()
    assert len(records) > 3
    migrated = 0
    for mint, text in records.items():
        record = orjson.loads(text)
        assert tuple(record) == TRENDING_FIELDS
        assert record["mint"] == mint.decode()
        assert record["name"] == f"Coin {record['mint'][:4]}"
        assert record["creator"] == tape.creators[record["mint"]]
        assert record["dex"] == "pump-fun"
        assert record["supply"] == 1e9
        assert record["market_cap"] == pytest.approx(record["price_usd"] * 1e9)
        assert 0 < record["bonding_curve_pct"] <= 100
        migrated += record["is_migrated"]
        holders = lab.holders_of(tape, record["mint"])
        top10 = sum(sorted(holders.values())[-10:])
        if record["holder_count"] == len(holders):
            assert record["top10_holders_pct"] == pytest.approx(100 * top10 / lab.SUPPLY, rel=0.3)
    assert migrated


DAY_MS = 24 * 3_600_000


class Follower:
    """Follows the stream of the trending list; where something may be missing, reads the list."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._seen = "-"
        self.epochs: list[str] = []
        self.tokens: dict[str, dict[str, Any]] = {}
        self.removed = 0

    async def listed(self) -> dict[str, dict[str, Any]]:
        records = await self._redis.hgetall(TRENDING_RECORDS.make(tag=TAG))
        return {mint.decode(): trending_data(orjson.loads(text)) for mint, text in records.items()}

    async def follow(self) -> None:
        for entry_id, fields in await self._redis.xrange(TRENDING_FRAMES.stream, min=self._seen):
            self._seen = f"({entry_id.decode()}"
            entry = unpack(fields)
            if entry.epoch not in self.epochs:
                self.epochs.append(entry.epoch)
                self.tokens = await self.listed()
            for event in entry.events:
                frame = orjson.loads(event.frame)
                data = frame["data"]
                assert tuple(event.index) == (data["mint"], data["dex"]) == (data["mint"], PUMP)
                if frame["type"] == "trending":
                    self.tokens[data["mint"]] = data
                else:
                    assert frame["type"] == "trending_removed"
                    self.removed += self.tokens.pop(data["mint"], None) is not None


@pytest.mark.parametrize("crashes", [False, True])
async def test_a_follower_of_the_trending_stream_has_the_list(
    lab: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch, crashes: bool
) -> None:
    """Tokens leave it: a full list pushes them out, and a day without a trade ends all."""
    monkeypatch.setattr(trending_list, "LISTED", 4)
    tape = lab.make_tape(12, 250, mints=20, step_ms=20_000)
    rows: dict[str, list[Any]] = {}
    books, follower, opened, compared = await lab.opened(redis, rows), Follower(redis), 1, 0
    later = SlotBatch(slot=10_000, block_time_ms=tape.slots[-1].block_time_ms + 3 * DAY_MS)
    for at, batch in enumerate([*tape.slots, later]):
        await books.load([batch])
        books.apply(batch)
        if at % 3 and batch is not later:
            continue
        await lab.write(redis, books, rows)
        if crashes and at % 30 == 15:
            books = await lab.opened(redis, rows)  # without having published what was written
            opened += 1
            continue
        await books.tick()
        await follower.follow()
        if len(follower.epochs) == opened:  # else there was nothing to publish since
            assert follower.tokens == await follower.listed()
            compared += 1
    assert follower.removed > 10
    assert not follower.tokens
    assert compared > 60
    assert opened == len(follower.epochs) == (9 if crashes else 1)


async def test_books_that_are_opened_together_share_an_epoch(redis: Redis) -> None:
    await redis.set(LIVE_EPOCH.make(), "live")
    stream = TrendingStream(redis)
    removals = [trending_removed_event("m", PUMP)]
    first, second = stream.opening(), stream.opening()
    for opening in (first, second):
        await stream.publish(opening, removals)
    await stream.publish(stream.opening(), removals)
    entries = [unpack(fields) for _, fields in await redis.xrange(TRENDING_FRAMES.stream)]
    assert [entry.epoch for entry in entries] == [f"live/{first}"] * 2 + [entries[2].epoch]
    assert first == second
    assert entries[2].epoch not in ("live", f"live/{first}")


async def test_absurd_values_are_borne_and_wrong_ones_refused(lab: Any, redis: Redis) -> None:
    tape = lab.make_tape(9, 60)
    most = 2**64 - 1
    for at, batch in enumerate(tape.slots):
        batch.sol_usd = ("1e30", "0.000000000000000001", "150")[at % 3]
        for event in batch.events:
            if event.HasField("swap"):
                event.swap.sol_value_lamports = event.swap.usd_value_micros = most
                event.swap.amount_raw = (1, most)[at % 2]
                event.swap.reserve_raw = event.swap.quote_reserve_raw = most
                event.swap.decimals = (0, 255)[at % 2]
        for balance in batch.balances:
            balance.amount_raw = most
    rows = await lab.run(redis, tape.slots, flush=lambda: 1, reopen=0.5)
    assert rows["candles"]
    await lab.run(redis, [], flush=lambda: 1)  # and can be read again

    wrong = [SlotBatch.FromString(batch.SerializeToString()) for batch in tape.slots[-4:]]
    wrong[0].block_time_ms = -1
    wrong[1].balances.add(account=b"short", owner=base58.encode(bytes(32)), mint="no mint")
    wrong[2].events.add().swap.mint = "0OIl"
    wrong[3].sol_usd = "much"
    books = await lab.opened(redis, {})
    for batch in wrong:
        with pytest.raises(CodecError, match=r"block_time_ms|5 bytes|SlotBatch|Swap"):
            await books.load([batch])
