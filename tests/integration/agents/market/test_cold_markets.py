"""Markets that leave Redis: at rest, or because it is full; on a real Valkey and ClickHouse."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from infra.clickhouse.client import connect
from infra.settings import Settings
from pipeline.agents.market import cold
from pipeline.agents.market.cold import TURN_MS
from pipeline.agents.market.cold_rows import ColdTables
from pipeline.agents.market.registry import Known, Registry, packed_metadata
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.redis import Watermark, commit, free, is_full, read_watermark
from schemas.away import bit
from schemas.markets import unpack_cold
from schemas.proto.tape_pb2 import SlotBatch
from schemas.redis_keys import (
    ACCOUNTS,
    ACTIVE,
    HOLDERS,
    MARKET,
    MARKETS_AWAY,
    METADATA,
    TRADERS,
    tag_of_mints,
)
from schemas.solana import base58
from schemas.times import DAY_MS
from tests.support.systems import running_tables

TAG = tag_of_mints(0)


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("cold")
    with running_tables(folder) as port:
        url = f"http://127.0.0.1:{port}"
        yield Settings(_env_file=None, soltape_data=folder, clickhouse_url=url)


@pytest.fixture
async def sink(clickhouse: Settings) -> AsyncIterator[ClickHouseSink]:
    """Tables of nothing."""
    with connect(clickhouse) as client:
        client.command("TRUNCATE TABLE cold_markets")
    sink = ClickHouseSink(clickhouse)
    yield sink
    await sink.close()


def has_bit(bitmap: bytes, mint: str) -> bool:
    """Naive: the bit of a mint in Redis's order, the highest of a byte first."""
    at = bit(base58.decode(mint))
    return bool(bitmap[at // 8] & (0x80 >> at % 8))


async def test_dead_tokens_leave_redis_and_come_back_as_they_were(lab: Any, redis: Redis) -> None:
    tape = lab.make_tape(6, 130, mints=40, pause_at=115, pause_ms=5 * DAY_MS)
    alive = {e.swap.mint for b in tape.slots[115:] for e in b.events if e.HasField("swap")}
    assert 0 < len(alive) < len(tape.balances)
    turns = [SlotBatch(slot=10_000 + at) for at in range(3)]
    for at, turn in enumerate(turns):
        turn.block_time_ms = tape.slots[-1].block_time_ms + (at + 1) * 3_600_000
    first: dict[str, Any] = {}
    for seed in range(4):
        await redis.flushall()
        rng = random.Random(seed)
        rows: dict[str, list[Any]] = {}
        books = await lab.opened(redis, rows)
        at = 0
        while at < len(tape.slots):
            part = tape.slots[at : at + rng.choice((1, 2, 7))]
            at += len(part)
            await books.load(part)
            for batch in part:
                books.apply(batch)
            if rng.random() < 0.7:  # else what was put away may wake before it is written
                await lab.write(redis, books, rows)
                if rng.random() < 0.3:
                    books = await lab.opened(redis, rows)
        for turn in turns:
            await books.load([turn])
            books.apply(turn)
            await lab.write(redis, books, rows)
        found = await lab.dump(redis)
        assert len(rows["cold_markets"]) >= len(tape.balances) - len(alive)
        asleep = tape.balances.keys() - alive
        assert {*found[ACTIVE.make(tag=TAG)]} == {mint.encode() for mint in alive}
        bitmap = found[MARKETS_AWAY.make(tag=TAG)]
        assert asleep <= {mint for mint in tape.balances if has_bit(bitmap, mint)}
        for mint in asleep:
            assert not [name for name in found if name.endswith(f":{mint}")]
        for mint in alive:
            ranked = found[HOLDERS.make(tag=TAG, mint=mint)]
            assert {base58.encode(owner): int(score) for owner, score in ranked.items()} == (
                lab.holders_of(tape, mint)
            )
        first = first or found
        assert found == first


class Asked:
    """A registry that notes what it is asked, and what it takes of tokens that come back."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.taken: dict[str, Known | None] = {}
        self.ask, self.woken = self.asked.append, self.taken.__setitem__

    def known(self, mint: str) -> None:
        """Nothing is at hand."""


async def test_what_rpc_said_leaves_with_a_dead_token_and_comes_back_with_it(
    lab: Any, redis: Redis, sink: ClickHouseSink
) -> None:
    tape = lab.make_tape(6, 130, mints=40, pause_at=115, pause_ms=5 * DAY_MS)
    said = {
        mint: Known(f"Name of {mint}", "", "", 6, 10**15, "", "found", lab.T0_MS)
        for mint in list(tape.balances)[::2]
    }
    keys = {mint: METADATA.make(tag=TAG, mint=mint) for mint in tape.balances}
    await Registry(Settings(_env_file=None), redis, sink).keep(said)
    for mint, known in said.items():  # whatever their own partition is
        await redis.set(keys[mint], packed_metadata(known), METADATA.ttl_s)
    rows: dict[str, list[Any]] = {}
    books = await lab.opened(redis, rows, cold=ColdTables(sink))
    # private `_registry`: records what the registry is asked; the real one runs at the same time.
    registry = books._registry = Asked()
    for batch in tape.slots:
        await books.load([batch])
        books.apply(batch)
        await lab.write(redis, books, rows, sink)
    active = {mint.decode() for mint in await redis.zrange(ACTIVE.make(tag=TAG), 0, -1)}
    woken = {mint for mint, *_ in rows["cold_markets"]} & active
    assert active < tape.balances.keys()
    assert woken & said.keys()
    for mint, key in keys.items():
        kept = mint in said and mint in active
        assert await redis.get(key) == (packed_metadata(said[mint]) if kept else None)
        assert await redis.ttl(key) == (-1 if kept else -2)
    assert registry.taken == {mint: said.get(mint) for mint in woken}
    # private `_markets`: what is in memory shows nowhere else.
    assert {mint for mint in woken if not books._markets[mint].token.name} <= {*registry.asked}


async def test_a_redis_that_was_set_back_goes_on_with_markets_of_its_own_slot(
    lab: Any, redis: Redis, sink: ClickHouseSink, clickhouse: Settings
) -> None:
    tape = lab.make_tape(6, 130, mints=40, pause_at=115, pause_ms=5 * DAY_MS)
    pause_ms = tape.slots[-1].block_time_ms + 3 * DAY_MS
    rest = [SlotBatch(slot=10_000 + at, block_time_ms=pause_ms + at * TURN_MS) for at in range(2)]
    again = []  # all of it once more, days later
    for at, batch in enumerate(tape.slots[115:]):
        copy = SlotBatch.FromString(batch.SerializeToString())
        copy.slot, copy.block_time_ms = 20_000 + at, pause_ms + DAY_MS + at * 1_000
        again.append(copy)
    back = 118
    slots = [*tape.slots, *rest, *again]
    rows: dict[str, list[Any]] = {}
    books = await lab.opened(redis, rows, cold=ColdTables(sink))
    before: dict[bytes, bytes] = {}
    for at, batch in enumerate(slots):
        if at == back:
            before = {key: await redis.dump(key) for key in await redis.keys("*")}
        await books.load([batch])
        books.apply(batch)
        await lab.write(redis, books, rows, sink)
    first = await lab.dump(redis)
    asleep = {mint for mint, _, slot, _ in rows["cold_markets"] if slot > slots[back].slot}
    assert asleep & {mint for mint, _, slot, _ in rows["cold_markets"] if slot <= slots[back].slot}
    await redis.flushall()
    for key, value in before.items():
        await redis.restore(key, 0, value)
    with connect(clickhouse) as client:
        client.command("OPTIMIZE TABLE cold_markets FINAL")
    written = len(rows["cold_markets"])
    books = await lab.opened(redis, rows, cold=ColdTables(sink))
    for batch in slots[back:]:
        await books.load([batch])
        books.apply(batch)
        await lab.write(redis, books, rows, sink)
    assert await lab.dump(redis) == first
    assert {*rows["cold_markets"][written:]} <= {*rows["cold_markets"][:written]}


async def test_what_an_earlier_version_put_away_is_found(lab: Any, redis: Redis) -> None:
    tape = lab.make_tape(6, 130, mints=40, pause_at=115, pause_ms=5 * DAY_MS)
    rows: dict[str, list[Any]] = {}
    books = await lab.opened(redis, rows)
    for batch in tape.slots[:116]:
        await books.load([batch])
        books.apply(batch)
        await lab.write(redis, books, rows)
    gone = [mint for mint, *_ in rows["cold_markets"]]
    # As that one had it: a set of the mints.
    await redis.sadd("markets:{m0}:cold", *gone)
    await redis.unlink(MARKETS_AWAY.make(tag=TAG))
    await lab.opened(redis, rows)
    bitmap = await redis.get(MARKETS_AWAY.make(tag=TAG))
    assert {mint for mint in tape.balances if has_bit(bitmap, mint)} == {*gone}
    assert not await redis.exists("markets:{m0}:cold")


async def test_a_full_redis_makes_room_by_itself(
    lab: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All comes back as it was: recent traders, the trending list, what is due by time."""
    monkeypatch.setattr(cold, "EVICTED_AT_ONCE", 20)
    tape = lab.make_tape(3, 150, mints=100, step_ms=30_000)
    straight = await lab.run(redis, tape.slots, flush=lambda: 10)
    wanted = await lab.dump(redis)
    await redis.flushall()
    rows: dict[str, list[Any]] = {}
    books = await lab.opened(redis, rows)
    refused = evicted = listed = 0
    try:
        for at, batch in enumerate(tape.slots):
            if at == 80:
                used = (await redis.info("memory"))["used_memory"]
                await redis.config_set("maxmemory", used - 100_000)
            if at == 95:
                await redis.config_set("maxmemory", 0)
            await books.load([batch])
            books.apply(batch)
            writes = books.take()
            for table, more in writes.rows.items():
                rows.setdefault(table, []).extend(more)
            believed = await read_watermark(redis, "wm")
            while True:
                try:
                    await commit(
                        redis, "wm", believed, Watermark(batch.slot, 0, 0), writes.commands
                    )
                    break
                except RedisError as error:
                    if not is_full(error):
                        raise
                refused += 1
                assert believed is not None
                freeing = await books.evict(believed.slot)
                assert freeing is not None, "nothing is left to be put away"
                assert not await free(redis, "wm", believed.slot + 1, freeing.commands)
                rows.setdefault("cold_markets", []).extend(freeing.rows["cold_markets"])
                for _ in range(2):  # the answer was lost
                    assert await free(redis, "wm", believed.slot, freeing.commands)
                evicted += freeing.evicted
                gone = {mint for mint, *_ in freeing.rows["cold_markets"]}
                # private `_trending`: what is in memory shows nowhere else.
                listed += len(gone & books._trending.scores.keys())
            books.written()
            if at > 80 and at % 7 == 0:  # a process that takes over finds the same
                books = await lab.opened(redis, rows)
    finally:
        await redis.config_set("maxmemory", 0)
    assert refused
    assert evicted > 50
    assert listed
    found = await lab.dump(redis)
    away = MARKETS_AWAY.make(tag=TAG)
    assert any(found.pop(away))
    assert not any(wanted.pop(away))
    here = {mint.decode() for mint in await redis.zrange(ACTIVE.make(tag=TAG), 0, -1)}
    last = {mint: unpack_cold(packed) for mint, packed, *_ in rows["cold_markets"]}
    assert last.keys() - here
    for mint in last.keys() - here:
        found[MARKET.make(tag=TAG, mint=mint)] = last[mint].fields
        found[ACCOUNTS.make(tag=TAG, mint=mint)] = last[mint].accounts
        assert wanted.pop(HOLDERS.make(tag=TAG, mint=mint)) != {}
        assert {} != last[mint].traders == wanted.pop(TRADERS.make(tag=TAG, mint=mint))
    found.pop("markets:{m0}:active")
    wanted.pop("markets:{m0}:active")
    assert found == wanted
    for table in ("candles", "holder_snapshots", "tokens"):
        assert sorted(map(repr, rows[table])) == sorted(map(repr, straight[table]))
