"""The log once more: onto the finished stores, or onto empty ones."""

from __future__ import annotations

from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from infra.clickhouse.client import connect
from infra.kafka import client, topics
from infra.redis.client import connect as connect_redis
from infra.settings import Settings
from pipeline.chaos.watch import SETTLED_GROUPS, Watch
from schemas.topics import GAPS, SETTLED_BY_MINT, SETTLED_BY_WALLET, Topic

READ_S: Final = 180.0
_TOPICS: Final[dict[str, tuple[Topic, ...]]] = {
    "pnl": (SETTLED_BY_WALLET,),
    "store": (SETTLED_BY_MINT, GAPS),
    "market": (SETTLED_BY_MINT,),
}


async def rewind(settings: Settings) -> None:
    """Let the groups begin at the beginning of their topics; none of them may be running."""
    for group in SETTLED_GROUPS:
        places = await topics.partitions(settings, *_TOPICS[group])
        async with _Member(settings, group, places) as consumer:
            await consumer.commit(await consumer.beginning_offsets(places))


async def read_to_the_end(settings: Settings, watch: Watch) -> None:
    """Wait until the groups have committed the end of their topics; raises TimeoutError."""
    for group in SETTLED_GROUPS:
        places = await topics.partitions(settings, *_TOPICS[group])
        async with topics.reader(settings) as consumer:
            ends = await topics.ends(consumer, places)

        async def done(group: str = group, ends: dict[TopicPartition, int] = ends) -> bool:
            async with _Member(settings, group, list(ends)) as consumer:
                committed = [(await consumer.committed(place) or 0, ends[place]) for place in ends]
            return all(at >= end for at, end in committed)

        await watch.until(done, READ_S, f"{group} at the end of the log")


class _Member:
    """A consumer that reads and writes a group's offsets without being a member of it."""

    def __init__(self, settings: Settings, group: str, places: list[TopicPartition]) -> None:
        self._consumer = AIOKafkaConsumer(
            **client.aiokafka_consumer(settings) | {"enable_auto_commit": False},
            group_id=f"soltape-{group}",
        )
        self._places = places

    async def __aenter__(self) -> AIOKafkaConsumer:
        self._consumer.assign(self._places)
        await self._consumer.start()
        return self._consumer

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()


async def empty(settings: Settings) -> None:
    """Forget all that the stores hold."""
    redis = connect_redis(settings)
    try:
        await redis.flushall()
    finally:
        await redis.aclose()
    clickhouse = connect(settings, database="default")
    try:
        clickhouse.command(f"DROP DATABASE IF EXISTS {settings.clickhouse_database} SYNC")
    finally:
        clickhouse.close()
