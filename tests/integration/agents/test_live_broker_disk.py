"""What the brokers say of their disks, in Redis and in the metrics, and gone when they go."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from prometheus_client import REGISTRY

from infra.kafka import topics
from infra.redis.client import connect
from pipeline.agents.live import broker_disk
from schemas.redis_keys import BROKER_DISK
from schemas.topics import LIVE
from tests.support.waiting import eventually_async


def shown(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"soltape_live_broker_{name}", labels)


async def test_it_is_known_while_the_broker_answers(
    fresh_embedded: Any, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_disk, "LOOK_EVERY_S", 0.05)
    settings = fresh_embedded.settings
    await topics.create(settings, [LIVE])
    redis = connect(store.settings, answer_timeout_s=1.0, retries=0)
    await store.client.delete(BROKER_DISK.make())
    looking = asyncio.create_task(broker_disk.keep_known(settings, redis))
    try:

        async def is_known() -> bool:
            return bool(await store.client.exists(BROKER_DISK.make()))

        await eventually_async(is_known)
        facts = json.loads(await store.client.get(BROKER_DISK.make()))
        assert facts["log_bytes"] == 0
        assert 0 < facts["disk_free_bytes"] < facts["disk_total_bytes"]
        assert 0 < await store.client.ttl(BROKER_DISK.make()) <= 60
        assert shown("log_bytes", topic=LIVE.name) == 0
        assert shown("disk_bytes", of="free") == facts["disk_free_bytes"]

        fresh_embedded.kill()

        async def is_gone() -> bool:
            return shown("log_bytes", topic=LIVE.name) is None

        await eventually_async(is_gone)
        assert shown("disk_bytes", of="free") is None
        assert not looking.done()
    finally:
        looking.cancel()
        await redis.aclose()
