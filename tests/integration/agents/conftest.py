"""`soltape agents live` as a process, the live lane it reads, and the topics it writes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import urlopen

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import CommitFailedError
from prometheus_client.parser import text_string_to_metric_families

from infra.kafka import client, topics
from infra.local.process import free_port
from infra.redis.client import connect
from infra.redis.embedded import valkey
from infra.settings import Settings
from pipeline.ingest.publisher import Publisher
from schemas import channels
from schemas.events import Side, Swap
from schemas.solana.base58 import encode
from schemas.topics import CREATIONS, LIVE, PRICES, SLOT_STATUS, SWAPS, UNDECODED
from tests.support.forked import Forked
from tests.support.systems import Mortal
from tests.support.waiting import WITHIN_S, eventually_async, without_error_async

GROUP = "soltape-live"
PUBLIC = (SWAPS, CREATIONS, PRICES, SLOT_STATUS, UNDECODED)
NO_REDIS = "redis://127.0.0.1:1/0"
SOL_USD = 150
SOL = "So11111111111111111111111111111111111111112"


class Lane:
    """The live lane as ingest writes it, and all that is new on the topics that come of it."""

    def __init__(self, settings: Settings, random: Random) -> None:
        self.settings = settings
        self.random = random
        self.sent: list[Swap] = []  # in the order sent
        self.got: dict[str, list[ConsumerRecord]] = {topic.name: [] for topic in PUBLIC}
        self._ends: dict[TopicPartition, int] = {}

    async def prepare(self) -> None:
        """What was there before is of no concern: neither to the agent nor to us."""
        await topics.create(self.settings, [LIVE, *PUBLIC])
        places = await topics.partitions(self.settings, *PUBLIC)
        async with topics.reader(self.settings) as consumer:
            self._ends = await consumer.end_offsets(places)
        lane = await topics.end_offsets(self.settings, LIVE)
        consumer = AIOKafkaConsumer(**client.aiokafka_consumer(self.settings), group_id=GROUP)
        await consumer.start()
        try:
            places = [TopicPartition(LIVE.name, number) for number in lane]
            consumer.assign(places)
            ends = {place: lane[place.partition] for place in places}
            # It fails until a killed member's session is over.
            await without_error_async(lambda: consumer.commit(ends), CommitFailedError)
        finally:
            await consumer.stop()

    @asynccontextmanager
    async def publisher(self) -> AsyncIterator[Publisher]:
        publisher = Publisher(self.settings)
        await publisher.take_over()
        # private `_sol_usd`: sets the reference price that ingest reads off the chain.
        publisher._sol_usd = str(SOL_USD)
        running = asyncio.create_task(publisher.run())
        try:
            yield publisher
        finally:
            assert await publisher.close(20) == 0
            running.cancel()

    def swap(self) -> Swap:
        """The next swap; its `tx_index` counts up, so that order and loss can be seen."""
        random, number = self.random, len(self.sent)
        swap = Swap(
            signature=encode(random.randbytes(64)),
            slot=1000 + number // 50,
            tx_index=number,
            event_index=random.randrange(5),
            block_time_ms=1_700_000_000_000 + number,
            dex="pump-swap",
            program_id=encode(bytes([9]) * 32),
            pool=encode(bytes([8, number % 40]) * 16),
            wallet=encode(random.randbytes(32)),
            fee_payer=encode(random.randbytes(32)),
            mint=encode(bytes([7, number % 40]) * 16),
            quote_mint=SOL,
            side=random.choice([Side.BUY, Side.SELL]),
            amount_raw=random.randrange(1, 2**63),
            decimals=6,
            quote_amount_raw=random.randrange(1, 2**40),
            quote_decimals=9,
            wallet_amount_raw=random.randrange(1, 2**63),
            wallet_quote_amount_raw=random.randrange(1, 2**40),
            pool_fee_raw=None,
            pool_fee_mint="",
            fee_lamports=5000,
            priority_fee_lamports=0,
            tip_lamports=0,
            router="",
            platform="",
            reserve_raw=None,
            quote_reserve_raw=None,
            liquidity=2**100,
            sqrt_price_x64=None,
        )
        swap.sol_value_lamports = swap.quote_amount_raw
        swap.usd_value_micros = swap.quote_amount_raw * SOL_USD // 1000
        self.sent.append(swap)
        return swap

    async def feed(self, count: int, per_second: float) -> None:
        """Put swaps on the lane at a steady rate."""
        async with self.publisher() as publisher:
            began, first = time.monotonic(), len(self.sent)
            while len(self.sent) - first < count:
                due = min(count, int((time.monotonic() - began) * per_second) + 1)
                while len(self.sent) - first < due:
                    publisher.event(self.swap())
                await asyncio.sleep(0.005)

    async def read_on(self) -> None:
        """Read what the topics hold by now."""
        async with topics.reader(self.settings) as consumer:
            places = list(self._ends)
            consumer.assign(places)
            ends = await consumer.end_offsets(places)
            waiting = {place for place in places if ends[place] > self._ends[place]}
            for place in waiting:
                consumer.seek(place, self._ends[place])
            async with asyncio.timeout(60):
                while waiting:
                    for place, records in (
                        await consumer.getmany(*waiting, timeout_ms=200)
                    ).items():
                        self.got[place.topic] += records
                        self._ends[place] = records[-1].offset + 1
                        if self._ends[place] >= ends[place]:
                            waiting.discard(place)

    async def until(self, enough: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        """Read until a condition holds."""

        async def holds() -> bool:
            await self.read_on()
            return enough()

        await eventually_async(
            holds, lambda: {name: len(got) for name, got in self.got.items()}, within_s
        )


@dataclass
class Agent:
    """`soltape agents live` as a child process."""

    settings: Settings
    log_file: Path
    redis_url: str = NO_REDIS
    process: Forked | None = None

    def start(self) -> None:
        self.port = free_port()
        environment = {
            "KAFKA_BOOTSTRAP": self.settings.kafka_bootstrap,
            "KAFKA_SESSION_TIMEOUT_S": str(self.settings.kafka_session_timeout_s),
            "METRICS_PORT_AGENTS": str(self.port),
            "REDIS_URL": self.redis_url,
        }
        self.log_file.touch()
        self._began_at = len(self.log)
        self.process = Forked(("agents", "live"), os.environ | environment, self.log_file)

    def signal(self, number: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(number)

    async def ended(self, within_s: float = WITHIN_S) -> int:
        assert self.process
        return await asyncio.to_thread(self.process.wait, within_s)

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def leave(self) -> None:
        """End, and leave the consumer group: the next test need not wait for the session."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(4)
        self.kill()

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def new_log(self) -> str:
        """What the process that was started last has said."""
        return self.log[self._began_at :]

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric, 0 where it does not answer or has none."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=240) as answer:
                text = answer.read().decode()
        except OSError:
            return 0.0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return 0.0

    async def until_metric(
        self, name: str, holds: Callable[[float], bool], within_s: float = WITHIN_S, **labels: str
    ) -> None:
        value = 0.0

        async def reached() -> bool:
            nonlocal value
            assert self.process
            assert self.process.poll() is None, self.new_log
            value = await asyncio.to_thread(self.metric, name, **labels)
            return holds(value)

        await eventually_async(reached, lambda: f"{name} is {value}\n{self.new_log}", within_s)

    async def until_working(self, partitions: int = LIVE.partitions) -> None:
        await self.until_metric("soltape_agents_partitions", lambda owned: owned == partitions)


class Valkey(Mortal):
    """A Valkey of one test, which may kill it and start it again; `settings` lead to it."""

    def __init__(self, data: Path) -> None:
        super().__init__(valkey(data, "127.0.0.1", free_port()))
        self.settings = Settings(_env_file=None, redis_url=self.process.address)
        self.client = connect(self.settings)

    async def entries(self, stream: str) -> list[channels.Entry]:
        """All that a live stream holds."""
        return [channels.unpack(fields) for _, fields in await self.client.xrange(stream)]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Valkey]:
    store = Valkey(tmp_path / "redis")
    await store.start()
    yield store
    store.kill()
    await store.client.aclose()


@pytest.fixture
def lane_on() -> Callable[[Settings], Awaitable[Lane]]:
    async def make(settings: Settings) -> Lane:
        lane = Lane(settings, Random(4))
        await lane.prepare()
        return lane

    return make


@pytest.fixture
async def lane(broker: Any, lane_on: Callable[[Settings], Awaitable[Lane]]) -> Lane:
    return await lane_on(broker.settings)


@pytest.fixture
def make_agent(tmp_path: Path) -> Iterator[Callable[[Settings], Agent]]:
    made: list[Agent] = []

    def make(settings: Settings) -> Agent:
        agent = Agent(settings, tmp_path / f"agent{len(made)}.log")
        made.append(agent)
        return agent

    yield make
    for agent in made:
        agent.leave()


@pytest.fixture
def agent(lane: Lane, make_agent: Callable[[Settings], Agent]) -> Agent:
    """A running agent on the broker of `lane`."""
    agent = make_agent(lane.settings)
    agent.start()
    return agent
