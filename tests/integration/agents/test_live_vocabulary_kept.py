"""The vocabulary on a real Valkey: there from the start, and again when it was lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.exceptions import RedisError

from infra.redis.client import connect
from pipeline.agents.live import vocabulary
from schemas.redis_keys import VOCABULARY
from schemas.vocabulary import unpack
from tests.support.waiting import eventually_async


async def published(store: Any) -> None:
    async def found() -> bytes | None:
        try:
            value: bytes | None = await store.client.get(VOCABULARY.make())
        except RedisError:  # it was killed, or starts
            return None
        return value

    assert unpack(await eventually_async(found)) == vocabulary.SLUGS


async def test_it_is_published_again_when_redis_has_lost_it(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "LOOK_EVERY_S", 0.02)
    redis = connect(store.settings, answer_timeout_s=1.0, retries=0)
    publishing = asyncio.create_task(vocabulary.keep_published(redis))
    try:
        await published(store)
        await store.client.delete(VOCABULARY.make())
        await published(store)
        await store.client.set(VOCABULARY.make(), b"of another release")

        async def is_ours() -> bool:
            return bool(await store.client.get(VOCABULARY.make()) == vocabulary.SLUGS.pack())

        await eventually_async(is_ours)
        store.kill()
        await store.start()
        await store.client.flushall()
        await published(store)
        assert not publishing.done()
    finally:
        publishing.cancel()
        await redis.aclose()
