"""The chain's genesis hash on a real Valkey: as the last batch says, and again when it was lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.exceptions import RedisError

from infra.redis.client import connect
from pipeline.agents.live import chain
from schemas.redis_keys import CHAIN
from schemas.solana.networks import RECORDED, SIMULATED
from tests.support.waiting import eventually_async


async def until(store: Any, wanted: bytes | None) -> None:
    async def holds() -> bool:
        try:
            return bool(await store.client.get(CHAIN.make()) == wanted)
        except RedisError:  # it was killed, or starts
            return False

    await eventually_async(holds)


async def test_it_is_what_the_last_batch_says(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "LOOK_EVERY_S", 0.02)
    said: list[str | None] = [None]
    redis = connect(store.settings, answer_timeout_s=1.0, retries=0)
    await store.client.set(CHAIN.make(), RECORDED)
    naming = asyncio.create_task(chain.keep_named(redis, lambda: said[-1]))
    try:
        said.append(SIMULATED)
        await until(store, SIMULATED.encode())
        await store.client.delete(CHAIN.make())
        await until(store, SIMULATED.encode())
        said.append("")  # another chain, of which ingest does not know yet which it is
        await until(store, None)
        said.append(RECORDED)
        await until(store, RECORDED.encode())
        store.kill()
        await store.start()
        await store.client.flushall()
        await until(store, RECORDED.encode())
        assert not naming.done()
    finally:
        naming.cancel()
        await redis.aclose()


async def test_without_a_batch_nothing_is_written(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "LOOK_EVERY_S", 0.01)
    redis = connect(store.settings, answer_timeout_s=1.0, retries=0)
    await store.client.set(CHAIN.make(), RECORDED)
    looks = 0

    def none() -> None:
        nonlocal looks
        looks += 1

    naming = asyncio.create_task(chain.keep_named(redis, none))
    try:
        await eventually_async(lambda: looks >= 5)
        assert await store.client.get(CHAIN.make()) == RECORDED.encode()
    finally:
        naming.cancel()
        await redis.aclose()
