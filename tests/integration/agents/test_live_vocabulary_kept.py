"""The vocabulary on a real Valkey: there from the start, and again when it was lost."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from redis.exceptions import RedisError

from infra.redis.client import connect
from pipeline.agents.live import vocabulary
from schemas.redis_keys import VOCABULARY
from schemas.vocabulary import unpack


async def told(store: Any) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            if value := await store.client.get(VOCABULARY.make()):
                assert unpack(value) == vocabulary.SLUGS
                return
        except RedisError:
            pass
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_it_is_told_again_when_redis_has_lost_it(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "LOOK_EVERY_S", 0.02)
    redis = connect(store.settings, answer_timeout_s=1.0, retries=0)
    telling = asyncio.create_task(vocabulary.keep_told(redis))
    try:
        await told(store)
        await store.client.delete(VOCABULARY.make())
        await told(store)
        await store.client.set(VOCABULARY.make(), b"of another release")
        deadline = time.monotonic() + 60
        while await store.client.get(VOCABULARY.make()) != vocabulary.SLUGS.pack():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        store.kill()
        await asyncio.sleep(0.1)
        await store.start()
        await store.client.flushall()
        await told(store)
        assert not telling.done()
    finally:
        telling.cancel()
        await redis.aclose()
