"""What the worker hands to every group it starts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import faust
from redis.asyncio import Redis

from infra.settings import Settings
from pipeline.agents.progress import Progress
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.kafka import KafkaSink


@dataclass(frozen=True, slots=True)
class Context:
    """The systems of one group; clients and sinks are shared by all groups of the process."""

    settings: Settings
    kafka: KafkaSink
    redis: Redis
    clickhouse: ClickHouseSink
    progress: Progress
    stop: Callable[[str], None]  # ends the process for a reason the group cannot go on with
    before_end: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """What to do before an orderly end, while Kafka still takes messages; SETTLE_S each."""


Attach = Callable[[faust.App, Context], None]
