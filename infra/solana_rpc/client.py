"""JSON-RPC to a Solana node over HTTP, at a steady pace and with a limit on every wait."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import aiohttp
import orjson

from infra.telemetry import host_of

REQUEST_TIMEOUT_S: Final = 30.0


class NotNow(Exception):
    """The request failed, and may succeed later."""


class RpcRefused(Exception):
    """The node answered with an error of the protocol."""

    def __init__(self, code: int | None, text: str) -> None:
        super().__init__(f"{text} ({code})")
        self.code = code
        self.text = text


class Pace:
    """Lets calls through at a steady rate."""

    def __init__(self, per_s: float) -> None:
        self._interval_s = 1 / per_s
        self._next = 0.0

    async def wait(self) -> None:
        """Wait for one's turn."""
        now = asyncio.get_running_loop().time()
        self._next = max(self._next + self._interval_s, now)
        await asyncio.sleep(self._next - now)


def session() -> aiohttp.ClientSession:
    """Return a session for `call`; the caller closes it."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S))


async def call(http: aiohttp.ClientSession, endpoint: str, method: str, params: list[Any]) -> Any:
    """Return the result of one call; raises NotNow and RpcRefused."""
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    try:
        async with http.post(
            endpoint, data=body, headers={"content-type": "application/json"}
        ) as response:
            raw = await response.read()
            status = response.status
    except (aiohttp.ClientError, TimeoutError) as error:
        raise NotNow(f"{host_of(endpoint)}: {error or type(error).__name__}") from None
    try:
        answer = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise NotNow(f"{host_of(endpoint)}: HTTP {status}, no JSON") from None
    if not isinstance(answer, dict) or status == 429 or status >= 500:
        raise NotNow(f"{host_of(endpoint)}: HTTP {status}")
    if refusal := answer.get("error"):
        if isinstance(refusal, dict):
            raise RpcRefused(refusal.get("code"), str(refusal.get("message", "")))
        raise RpcRefused(None, str(refusal))
    return answer.get("result")
