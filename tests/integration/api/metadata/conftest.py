"""A Valkey, a server of tokens' metadata, and the service between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import web

from api.metadata.service import MetadataService
from api.stores.clients import Stores
from infra.redis.client import connect
from infra.settings import Settings
from tests.support.systems import running_valkey


class Site:
    """A server on loopback: what it answers at a path, and how often it was asked there."""

    def __init__(self) -> None:
        self.answers: dict[str, web.Response | bytes] = {}
        self.asked: Counter[str] = Counter()
        self.origin = ""

    def url(self, path: str, answer: web.Response | bytes) -> str:
        """Have a path answered; return where that is."""
        self.answers[path] = answer
        return self.origin + path

    async def answer(self, request: web.Request) -> web.Response:
        self.asked[request.path] += 1
        found = self.answers.get(request.path)
        if found is None:
            raise web.HTTPNotFound
        if isinstance(found, bytes):  # whatever it is called, its bytes count
            return web.Response(body=found, content_type="text/html")
        return web.Response(status=found.status, headers=found.headers, body=found.body)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    found = Site()
    application = web.Application()
    application.router.add_get("/{path:.*}", found.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    place = web.TCPSite(runner, "127.0.0.1", 0)
    await place.start()
    found.origin = f"http://127.0.0.1:{place.port}"
    yield found
    await runner.cleanup()


@pytest.fixture(scope="package")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings that lead to a Valkey."""
    with running_valkey(tmp_path_factory.mktemp("metadata")) as port:
        yield Settings(_env_file=None, redis_url=f"redis://127.0.0.1:{port}/0")


@pytest.fixture
async def redis(valkey: Settings) -> AsyncIterator[Any]:
    """The Valkey, emptied."""
    redis = connect(valkey)
    await redis.flushdb()
    yield redis
    await redis.aclose()


@pytest.fixture
async def start(
    valkey: Settings, redis: Any, site: Site
) -> AsyncIterator[Callable[..., MetadataService]]:
    """Make the service of a process: `start(metadata_cache_mib=1)`; the site is trusted."""
    async with AsyncExitStack() as stack:

        def make(**changed: Any) -> MetadataService:
            used = valkey.model_copy(update={"metadata_trusted_origin": site.origin, **changed})
            stores = Stores(used)
            stack.push_async_callback(stores.close)
            service = MetadataService(stores, used)
            stack.push_async_callback(service.aclose)
            return service

        yield make
