"""Asks the brokers what their logs take, and leaves it in Redis for the API's health.

The API has no way to Kafka. While the brokers do not answer there are no figures, neither in the
metrics nor, a minute later, in Redis.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Final, NoReturn

import structlog
from aiokafka.errors import KafkaError
from redis.asyncio import Redis

from infra.kafka.log_dirs import BrokerDisk, broker_disk
from infra.redis.client import RedisError
from infra.settings import Settings
from pipeline.agents.live.metrics import BROKER_DISK_BYTES, BROKER_LOG_BYTES
from schemas.redis_keys import BROKER_DISK

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 15.0


async def keep_known(settings: Settings, redis: Redis) -> NoReturn:
    """Look every 15 seconds, until cancelled."""
    is_known = True
    while True:
        try:
            # aiokafka raises NotImplementedError where the broker lacks DescribeLogDirs.
            found = await broker_disk(settings)
        except (KafkaError, OSError, TimeoutError, NotImplementedError) as error:
            if is_known:
                log.warning("brokers do not say what is on their disks", reason=str(error))
            is_known = False
            _show(None)
        else:
            is_known = True
            _show(found)
            await _leave(redis, found)
        await asyncio.sleep(LOOK_EVERY_S)


async def _leave(redis: Redis, found: BrokerDisk) -> None:
    facts = {
        "log_bytes": found.log_bytes,
        "disk_free_bytes": found.free_bytes,
        "disk_total_bytes": found.total_bytes,
    }
    with suppress(RedisError, OSError):  # it is away: the streams' writer says so
        await redis.set(BROKER_DISK.make(), json.dumps(facts), ex=BROKER_DISK.ttl_s)


def _show(found: BrokerDisk | None) -> None:
    BROKER_LOG_BYTES.clear()
    BROKER_DISK_BYTES.clear()
    if found is None:
        return
    for topic, size in found.topic_bytes.items():
        BROKER_LOG_BYTES.labels(topic).set(size)
    if found.free_bytes is not None and found.total_bytes is not None:
        BROKER_DISK_BYTES.labels("free").set(found.free_bytes)
        BROKER_DISK_BYTES.labels("total").set(found.total_bytes)
