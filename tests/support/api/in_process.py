"""The whole API in the process of a test, asked with a key as a client does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import httpx
from fastapi import FastAPI

from api.access import register
from api.access.keys import Record, new, parse
from api.app import create_app
from infra.settings import Settings
from schemas.plans import ENTERPRISE


@cache
def document() -> dict[str, Any]:
    """Return the document of the API, generated once a process: that takes a second of CPU."""
    return create_app(Settings(_env_file=None)).openapi()


async def new_key(settings: Settings, plan: str = ENTERPRISE.name) -> str:
    """Return the text of a new key of a plan."""
    text = new()
    keys = register.connect(settings)
    assert await register.put(keys, Record(parse(text), "test", plan, "", text[-4:], 1))
    await keys.aclose()
    return text


@asynccontextmanager
async def asked(settings: Settings, key: str) -> AsyncIterator[tuple[httpx.AsyncClient, FastAPI]]:
    """Start an application of its own; return a client of it that sends the key."""
    app = create_app(settings)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app),
            base_url="http://localhost",
            headers={"x-api-key": key},
        ) as client,
    ):
        yield client, app
