"""The log once more: onto the finished stores, or onto empty ones."""

from __future__ import annotations

from functools import partial
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CommitFailedError

from infra.clickhouse.client import connect
from infra.kafka import client, topics
from infra.redis.client import connect as connect_redis
from infra.settings import Settings
from pipeline.chaos.watch import SETTLED_GROUPS, Watch
from schemas.topics import GAPS, SETTLED_BY_MINT, SETTLED_BY_WALLET, Topic

READ_S: Final = 360.0
REWIND_S: Final = 30.0
SKIPPED: Final = "soltape_agents_skipped_slots_total"
_TOPICS: Final[dict[str, tuple[Topic, ...]]] = {
    "pnl": (SETTLED_BY_WALLET,),
    "store": (SETTLED_BY_MINT, GAPS),
    "market": (SETTLED_BY_MINT,),
}


async def rewind(settings: Settings, watch: Watch) -> None:
    """Let the groups begin at the beginning of their topics; none of them may be running.

    Raises TimeoutError where the broker does not let go of a group's former members.
    """
    for group in SETTLED_GROUPS:
        places = await topics.partitions(settings, *_TOPICS[group])
        await watch.until(
            partial(_rewound, settings, group, places), REWIND_S, f"{group} without members"
        )


async def _rewound(settings: Settings, group: str, places: list[TopicPartition]) -> bool:
    async with _Member(settings, group, places) as consumer:
        try:
            await consumer.commit(await consumer.beginning_offsets(places))
        except CommitFailedError:  # somebody is a member still, until the session times out
            return False
    return True


async def skipped(settings: Settings, watch: Watch) -> None:
    """Wait until the groups have read all of their lane again; raises TimeoutError.

    Every slot of it must be passed over, as it is in the stores.
    """
    for group in SETTLED_GROUPS:
        lane = _TOPICS[group][0]
        messages = sum([1 async for _ in topics.records_so_far(settings, lane)])

        async def done(group: str = group, lane: Topic = lane, messages: int = messages) -> bool:
            passed = await watch.metric(group, SKIPPED, topic=lane.name)
            return passed is not None and passed >= messages

        await watch.until(done, READ_S, f"{group} at the end of the log again")


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
