"""Four API processes on one port, and clients of MCP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from api.access import register
from api.access.keys import Record, new, parse
from infra.local.process import free_port
from infra.settings import Settings
from tests.integration.api.conftest import Serve
from tests.support.api.served import Served

PROCESSES = 4


@pytest.fixture(scope="package")
def four(serve: Serve) -> Iterator[list[Served]]:
    """Four processes that share a port."""
    port = free_port()
    with ExitStack() as stack:
        yield [
            stack.enter_context(serve(api_reuse_port=True, api_port=port)) for _ in range(PROCESSES)
        ]


@pytest.fixture(scope="package")
def make_key(stores: Settings) -> Callable[[str], str]:
    """Make a key of a plan and return its text."""

    def make(plan: str) -> str:
        text = new()
        record = Record(parse(text), "mcp", plan, "", text[-4:], int(time.time() * 1000))

        async def put() -> None:
            redis = register.connect(stores)
            await register.put(redis, record)
            await redis.aclose()

        asyncio.run(put())
        return text

    return make
