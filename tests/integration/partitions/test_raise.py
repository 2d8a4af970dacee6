"""Partitions raised amid a tape, killed at each step: the books are those of the oracle."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.chain.market import Knobs, Market, Truth
from infra.chain.source import SlotCompleted
from infra.clickhouse.client import connect as connect_clickhouse
from infra.kafka import topics
from infra.local.process import free_port
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.chaos import stores
from pipeline.chaos.compare import Oracle, books, markets
from pipeline.chaos.differences import Differences
from pipeline.chaos.truth import Slot, read
from pipeline.decoding.registry import PROGRAM_IDS
from pipeline.ingest.lane_producer import LaneProducer
from pipeline.ingest.lanes import batches_of
from pipeline.ingest.log_tail import read_log_tail
from pipeline.ingest.publisher import LANE
from pipeline.ingest.valuation import Valuation
from pipeline.partitions.lanes import part_of
from pipeline.partitions.raising import RAISED
from schemas.proto.tape_pb2 import SlotBatch
from schemas.redis_keys import METADATA, PRICE, mint_tag
from schemas.rows import COLD_POSITIONS
from schemas.solana.addresses import key
from schemas.topics import (
    SETTLED,
    SETTLED_BY_MINT,
    SETTLED_BY_WALLET,
    Topic,
    use_settled_partitions,
)
from tests.integration.chaos.conftest import settled
from tests.integration.conftest import Broker
from tests.support.forked import Forked
from tests.support.systems import running_stores
from tests.support.waiting import eventually_async

OLD, NEW = 8, 16
SLOTS = 60
KILLED_WHOLE_AT, RAISED_AT = 30, 40  # slots
BEFORE = ("removing what an earlier", "writing the books of market", "writing the books of store")
AFTER = (
    "moving the positions",
    "removing the former partitions from Redis",
    "filling Redis with the books of market",
    "removing the former partitions from ClickHouse",
)
Published = list[tuple[Topic, list[SlotBatch]]]


@dataclass(slots=True)
class Tape:
    """The truth, and what ingest publishes of it: with NEW partitions after the raise."""

    truth: list[Slot]
    published: list[Published]


async def _publish(
    truth: list[Slot], events: dict[int, list[Any]], venues: frozenset[bytes]
) -> list[Published]:
    published: list[Published] = []
    valuation = Valuation(None, ())
    for number, slot in enumerate(truth):
        use_settled_partitions(OLD if number < RAISED_AT else NEW)
        whole = settled(events[slot.slot], slot, venues)
        await valuation.settle(whole)
        count = SETTLED_BY_MINT.partitions
        published.append(
            [
                (lane.with_partitions(count), batches)
                for lane, batches in await batches_of(whole, valuation.reference)
            ]
        )
    return published


@pytest.fixture
def restored_count() -> Iterator[None]:
    yield
    use_settled_partitions(OLD)


@pytest.fixture
def tape(tmp_path: Path, restored_count: None) -> Tape:
    events: defaultdict[int, list[Any]] = defaultdict(list)
    path = tmp_path / "truth.jsonl"
    with path.open("wb") as sink:
        market = Market(Knobs(seed=9, forks=0.1, rate=150, wallets=150), Truth(sink, flows=True))
        for event in market.generate(SLOTS):
            slot = event.header.slot if isinstance(event, SlotCompleted) else event.slot
            events[slot].append(event)
    truth = read(path)
    published = asyncio.run(_publish(truth, events, frozenset(map(key, PROGRAM_IDS))))
    use_settled_partitions(OLD)
    return Tape(truth, published)


class Machine:
    """The systems, and the roles as processes."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self._folder = folder
        self._started = 0

    def environment(self, count: int) -> dict[str, str]:
        """Return what a role is given."""
        settings = self.settings
        ports = [f"METRICS_PORT_{of}" for of in ("AGENTS", "BOOKS", "INGEST", "API", "GATEWAY")]
        ports += ["API_PORT", "GATEWAY_PORT"]
        return {
            "KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
            "REDIS_URL": settings.redis_url,
            "CLICKHOUSE_URL": settings.clickhouse_url,
            "SOLTAPE_DATA": str(self._folder),
            "SETTLED_PARTITIONS": str(count),
            "LOG_FORMAT": "json",
            **{name: str(free_port()) for name in ports},
        }

    def started(self, *command: str, count: int = OLD) -> tuple[Forked, Path]:
        """Start a command; return it, and the file of what it says on stderr."""
        self._started += 1
        said = self._folder / f"{self._started}.log"
        environment = os.environ | self.environment(count)
        return Forked(command, environment, said, Path(os.devnull)), said

    async def said(self, *command: str, count: int = OLD) -> tuple[int | None, str]:
        """Run a command to its end; return its status and what it said."""
        child, said = self.started(*command, count=count)
        try:
            await eventually_async(lambda: child.poll() is not None, said.read_text, 240)
        finally:
            child.kill()
        return child.returncode, said.read_text()

    async def killed_at(self, line: str) -> None:
        """Begin a raise, and kill it with SIGKILL once it says a line."""
        child, said = self.started("partitions", "raise", str(NEW))

        async def is_said() -> bool:
            text = said.read_text()
            assert line in text or child.poll() is None or line in said.read_text(), text
            return line in text

        try:
            await eventually_async(is_said, said.read_text, 240)
        finally:
            child.kill()
            await asyncio.to_thread(child.wait)

    async def publish(self, slots: list[Published]) -> None:
        """Write slots as ingest does: by one fenced producer, in a transaction."""
        producer = LaneProducer(self.settings, LANE)
        await producer.take_over()
        for lanes in slots:
            for topic, batches in lanes:
                for partition, batch in enumerate(batches):
                    value = batch.SerializeToString()
                    producer.produce(topic.name, partition, value, lambda: None)
            producer.poll()
        assert await producer.close(60) == 0

    async def apply(self, slot: int, count: int) -> None:
        """Run the agents until all books are at a slot, and stop them."""
        use_settled_partitions(count)
        child, said = self.started("agents", *RAISED, count=count)
        async with opened(self.settings) as redis:

            async def applied() -> bool:
                assert child.poll() is None, said.read_text()
                pipe = redis.pipeline(transaction=False)
                for group, lane in RAISED.items():
                    for partition in range(count):
                        letter, place = lane.key[0], lane.place(partition)
                        pipe.hget(f"wm:{{{letter}{place}}}:{group}", "slot")
                return {*await pipe.execute()} == {str(slot).encode()}

            try:
                await eventually_async(applied, said.read_text, 240)
                child.terminate()
                await asyncio.to_thread(child.wait, 60)
            finally:
                child.kill()


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Any]:
    redis = connect(settings)
    try:
        yield redis
    finally:
        await redis.aclose()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    broker = Broker("embedded", tmp_path)
    try:
        broker.start()
        with running_stores(tmp_path) as at:
            settings = at.model_copy(update={"kafka_bootstrap": broker.settings.kafka_bootstrap})
            yield Machine(settings, tmp_path)
    finally:
        broker.stop()


def put_away(settings: Settings, wallets: list[str]) -> None:
    """Put a position of each wallet into ClickHouse, at the place that it has now."""
    rows = [
        (f"mint{number}", SETTLED_BY_WALLET.place_of(wallet), wallet, f"packed{number}", number)
        for number, wallet in enumerate(wallets)
    ]
    with closing(connect_clickhouse(settings)) as client:
        with_slot = [(*row, row[-1]) for row in rows]  # put_away_slot
        client.insert(COLD_POSITIONS.name, with_slot, column_names=[*COLD_POSITIONS.columns])


def at_rest(settings: Settings) -> set[tuple[Any, ...]]:
    with closing(connect_clickhouse(settings)) as client:
        found = client.query(
            "SELECT mint, partition, wallet, packed, slot FROM cold_positions FINAL"
        )
    return {*map(tuple, found.result_rows)}


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_killed_at_each_step_the_books_stay_those_of_the_oracle(
    tape: Tape, machine: Machine
) -> None:
    settings = machine.settings
    slots = [slot.slot for slot in tape.truth]
    await topics.create(settings)
    await machine.publish(tape.published[:KILLED_WHOLE_AT])
    status, said = await machine.said("partitions", "raise", str(NEW))
    assert status == 1, said
    assert "Redis has no books of pnl 0" in said
    await machine.apply(slots[KILLED_WHOLE_AT - 1], OLD)
    wallets = [swap.wallet for swap in _swaps(tape)][:50]
    put_away(settings, sorted({*wallets}))
    mint = _swaps(tape)[0].mint
    async with opened(settings) as redis:
        await redis.hset(PRICE.make(tag=mint_tag(mint), mint=mint), "price_sol", "1.5")
        await redis.expire(PRICE.make(tag=mint_tag(mint), mint=mint), 5_000)
        await redis.set(METADATA.make(tag=mint_tag(mint), mint=mint), "{}")

    # Killed before the raise: the old world is whole, and goes on.
    for line in BEFORE:
        await machine.killed_at(line)
        assert await topics.settled_partitions(settings) == OLD
    # As if killed amid the new lanes: all partitions but one have the slots.
    lanes = [lane.with_partitions(NEW) for lane in SETTLED]
    await topics.create(settings, lanes)
    await machine.publish([split(lanes, one) for one in tape.published[:KILLED_WHOLE_AT]])
    assert await topics.settled_partitions(settings) == OLD
    await machine.publish(tape.published[KILLED_WHOLE_AT:RAISED_AT])
    status, said = await machine.said("partitions", "raise", str(NEW), "--dry-run")
    assert status == 1, said
    assert f"the lane ends on slot {slots[RAISED_AT - 1]}" in said
    await machine.apply(slots[RAISED_AT - 1], OLD)
    before = await read_log_tail(settings)

    # Killed amid the new lanes, which may be the tape's by then or not, and at each step after.
    await machine.killed_at("writing the new lanes")
    for line in AFTER:
        await machine.killed_at(line)
        assert await topics.settled_partitions(settings) == NEW
    for count, reason in ((OLD, f"SETTLED_PARTITIONS={NEW}"), (NEW, "ClickHouse has 8 settled")):
        status, said = await machine.said("agents", "store", count=count)
        assert status == 1, said
        assert reason in said
    status, said = await machine.said("partitions", "raise", str(NEW))
    assert status == 0, said
    assert await machine.said("partitions", "raise", str(NEW), count=NEW) == (0, "")
    for role in ("ingest", "agents", "api", "gateway", "rebuild"):
        status, said = await machine.said(role)
        assert status == 1, (role, said)
        assert "SETTLED_PARTITIONS is 8, but" in said, role
        assert "has 16 settled partitions" in said, role

    # Ingest goes on after the same slot, with all that it knew.
    use_settled_partitions(NEW)
    tail = await read_log_tail(settings)
    assert (tail.settled, tail.block_time_ms, tail.sol_usd, tail.quotes) == (
        *(before.settled, before.block_time_ms, before.sol_usd, before.quotes),
    )
    assert tail.unfinal == before.unfinal
    assert len(tail.unfinal) == RAISED_AT
    assert {*tail.last.values()} == {slots[RAISED_AT - 1]}
    assert {(place, wallet) for _, place, wallet, _, _ in at_rest(settings)} == {
        (SETTLED_BY_WALLET.place_of(wallet), wallet) for wallet in wallets
    }
    async with opened(settings) as redis:
        price = PRICE.make(tag=mint_tag(mint), mint=mint)
        assert await redis.hgetall(price) == {b"price_sol": b"1.5"}
        assert 0 < await redis.ttl(price) <= 5_000
        assert await redis.get(METADATA.make(tag=mint_tag(mint), mint=mint)) == b"{}"
        assert not [name async for name in redis.scan_iter("*{[mw][0-7]}*")]
        await redis.hset("wm:{m16}:market", "at_ms", 1)  # as if long ago: the agents do not run
    from_log = ("rebuild", "market", "--partition", "0", "--from-log")
    status, said = await machine.said(*from_log, count=NEW)
    assert status == 1, said
    assert "the log begins where its partitions were raised" in said

    await machine.publish(tape.published[RAISED_AT:])
    await machine.apply(slots[-1], NEW)
    found = Differences()
    stored = await stores.read(settings)
    oracle = Oracle(tape.truth)
    books(oracle.books, stored, found)
    markets(oracle.markets, stored, found)
    assert not found.total, found.examples
    assert found.compared["match"] > 100
    assert found.compared["position"] > 300
    assert found.compared["holder"] > 300


def split(lanes: list[Topic], published: Published) -> Published:
    """Return a slot of OLD partitions as one of NEW, without the last partition."""
    (by_mint, by_wallet), (mints, wallets) = lanes, (batches for _, batches in published)
    return [
        (by_mint, [part_of(mints[part % OLD], by_mint, part) for part in range(NEW)]),
        (by_wallet, [part_of(wallets[part % OLD], by_wallet, part) for part in range(NEW - 1)]),
    ]


def _swaps(tape: Tape) -> list[Any]:
    return [
        event.swap
        for lanes in tape.published[:KILLED_WHOLE_AT]
        for event in (each for batch in lanes[1][1] for each in batch.events)
    ]
