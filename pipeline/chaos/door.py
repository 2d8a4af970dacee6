"""The API of a run, asked over HTTP with a key, as a user asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp
import orjson

from pipeline.chaos.fleet import Plan

_REQUEST_S: Final = 60.0

Ask = Callable[[str], Awaitable[tuple[int, Any]]]
"""Returns status and answer of a path."""


class Door:
    """Asks the API of a plan with its key; use as an async context manager."""

    def __init__(self, planned: Plan) -> None:
        assert planned.api_key is not None
        key = planned.api_key.read_text().strip()
        self._http = aiohttp.ClientSession(
            planned.settings.api_url,
            headers={"x-api-key": key},
            timeout=aiohttp.ClientTimeout(total=_REQUEST_S),
        )

    async def __aenter__(self) -> Ask:
        return self._ask

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def _ask(self, path: str) -> tuple[int, Any]:
        async with self._http.get(path) as answer:
            body = await answer.read()
            try:
                return answer.status, orjson.loads(body)
            except orjson.JSONDecodeError:
                return answer.status, body.decode(errors="replace")[:300]
