"""Names that RPC knows, in live trending frames of tokens whose creation the tape lacks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from redis.asyncio import Redis

from infra.settings import Settings
from pipeline.agents.market.books import MarketBooks
from pipeline.agents.market.registry import Known, Registry, packed_metadata
from schemas.channels import TRENDING as TRENDING_FRAMES
from schemas.channels import unpack
from schemas.proto.tape_pb2 import SlotBatch
from schemas.redis_keys import METADATA, mint_tag
from tests.support.waiting import eventually_async

SUPPLY_RAW = 10**15


class Sink:
    """A stand-in for ClickHouse's sink that keeps nothing."""

    async def insert(self, *_: Any) -> None:
        pass


class Node:
    """RPC that knows no account, and counts how often it is asked for each."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def answer(self, request: web.Request) -> web.Response:
        accounts = (await request.json())["params"][0]
        self.asked.update(accounts)
        return web.json_response({"id": 1, "result": {"value": [None] * len(accounts)}})

    @asynccontextmanager
    async def registry(self, redis: Redis) -> AsyncIterator[Registry]:
        """Give a registry at work, as a process that begins has one."""
        app = web.Application()
        app.router.add_post("/", self.answer)
        failed: list[str] = []
        async with TestServer(app) as server:
            settings = Settings(_env_file=None, rpc_endpoint=str(server.make_url("/")))
            registry = Registry(settings, redis, Sink())  # type: ignore[arg-type]
            registry.start(failed.append)
            yield registry
            registry.close()
        assert not failed


def uncreated(slots: Iterable[SlotBatch]) -> list[SlotBatch]:
    """Return slots without the creations, as a tape that began after them."""
    kept = []
    for slot in slots:
        copy = SlotBatch()
        copy.CopyFrom(slot)
        del copy.events[:]
        copy.events.extend(event for event in slot.events if not event.HasField("creation"))
        kept.append(copy)
    return kept


class Life:
    """A process that takes slots; what it publishes is read from the stream."""

    def __init__(self, lab: Any, redis: Redis, books: MarketBooks) -> None:
        self._lab = lab
        self._redis = redis
        self._books = books

    async def take(self, slots: Iterable[SlotBatch]) -> list[dict[str, Any]]:
        """Take slots, each as it comes; return what the frames say."""
        await self._redis.delete(TRENDING_FRAMES.stream)
        for slot in slots:
            await self._books.load([slot])
            self._books.apply(slot)
            await self._lab.write(self._redis, self._books, {})
            await self._books.tick()
        events = [
            orjson.loads(event.frame)
            for _, fields in await self._redis.xrange(TRENDING_FRAMES.stream)
            for event in unpack(fields).events
        ]
        return [event["data"] for event in events if event["type"] == "trending"]


async def keep(redis: Redis, mints: Iterable[str]) -> None:
    """Put into Redis what RPC said of mints in an earlier life."""
    for mint in mints:
        known = Known("Old", "OLD", "", 6, SUPPLY_RAW, "", "found", time.time_ns() // 10**6)
        await redis.set(METADATA.make(tag=mint_tag(mint), mint=mint), packed_metadata(known))


@pytest.mark.parametrize("forgets", [False, True])
async def test_frames_after_a_restart_have_the_names_that_redis_has(
    lab: Any, redis: Redis, forgets: bool
) -> None:
    slots = uncreated(lab.make_tape(3, 120).slots)
    before = await Life(lab, redis, await lab.opened(redis, {})).take(slots[:40])
    mints = {data["mint"] for data in before}
    assert len(mints) > 3
    assert {data["name"] for data in before} == {None}
    await keep(redis, mints)
    node = Node()
    async with node.registry(redis) as registry:
        life = Life(lab, redis, await lab.opened(redis, {}, registry=registry))
        await eventually_async(lambda: all(registry.known(mint) for mint in mints))
        if forgets:  # as when more come than it remembers
            for mint in mints:
                registry.woken(mint, None)
            await life.take(slots[40:80])
            await eventually_async(lambda: all(registry.known(mint) for mint in mints))
        after = [data for data in await life.take(slots[80:]) if data["mint"] in mints]
    assert len({data["mint"] for data in after}) > 3
    for data in after:
        assert (data["name"], data["symbol"], data["supply"]) == ("Old", "OLD", 1e9)
        assert data["market_cap"] == pytest.approx(data["price_usd"] * 1e9)
    assert not node.asked.keys() & mints


async def test_what_rpc_does_not_know_is_asked_of_it_once(lab: Any, redis: Redis) -> None:
    slots = uncreated(lab.make_tape(3, 120).slots)
    await Life(lab, redis, await lab.opened(redis, {})).take(slots[:40])
    node = Node()
    frames: list[dict[str, Any]] = []
    async with node.registry(redis) as registry:
        life = Life(lab, redis, await lab.opened(redis, {}, registry=registry))
        for slot in slots[40:]:
            frames += await life.take([slot])
            # private `_waiting`: an idle registry says so nowhere else.
            await eventually_async(lambda: not registry._waiting)
    shown = Counter(data["mint"] for data in frames)
    assert max(shown.values()) > 10
    assert {node.asked[mint] for mint in shown} == {1}
