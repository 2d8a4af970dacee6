"""The whole API in the process of a test, asked with a key as a client does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.routing import APIRoute

from api.access import register
from api.access.keys import Record, new, parse
from api.app import create_app
from infra.settings import Settings
from schemas.plans import ENTERPRISE

_PATIENT_S = 120.0  # for an answer, on a busy machine
_DOCUMENTS: dict[tuple[str, ...], Any] = {}


def document(app: FastAPI) -> Any:
    """Return an application's document, generated once for its routes: that takes a second of CPU.

    Tests that have protocols of their own have other routes.
    """
    routes = tuple(
        f"{route.path} {route.summary} {route.responses}"
        for route in app.routes
        if isinstance(route, APIRoute)
    )
    if routes not in _DOCUMENTS:
        _DOCUMENTS[routes] = app.openapi()
    return _DOCUMENTS[routes]


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
    app = create_app(settings.model_copy(update={"api_timeout_s": _PATIENT_S}))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app),
            base_url="http://localhost",
            headers={"x-api-key": key},
        ) as client,
    ):
        yield client, app
