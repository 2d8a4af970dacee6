"""A node's JSON-RPC over HTTP whose answers a test makes up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

Answer = Callable[[str, list[Any]], Awaitable[Any]]
"""From method and params to the `value` of the result, or a response as it is."""


@asynccontextmanager
async def serving(answer: Answer, slot: int = 9) -> AsyncIterator[str]:
    """Yield the URL of a server that answers as of a slot."""

    async def take(request: web.Request) -> web.StreamResponse:
        call = orjson.loads(await request.read())
        value = await answer(call["method"], call["params"])
        if isinstance(value, web.StreamResponse):
            return value
        return web.json_response({"result": {"context": {"slot": slot}, "value": value}})

    application = web.Application()
    application.router.add_post("/", take)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"{site.name}/"
    finally:
        await runner.cleanup()
