"""JSON-RPC to a Solana node over HTTP, at a steady pace and with a limit on every wait."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

import aiohttp
import orjson

from infra.telemetry import host_of

REQUEST_TIMEOUT_S: Final = 30.0
MADE_UP_S: Final = 0.1
MOST_ANSWER_BYTES: Final = 256 << 20
MOST_TEXT: Final = 200  # characters of a provider's
_URL: Final = re.compile(r"\w+://\S*")


class NotNow(Exception):
    """The request failed, and may succeed later."""


class RpcRefused(Exception):
    """The node answered with an error of the protocol.

    `text` is the provider's, cut and without URLs: it goes to the log, never to a user.
    """

    def __init__(self, code: int | None, text: str) -> None:
        self.code = code
        self.text = _URL.sub("(URL)", text[: 2 * MOST_TEXT])[:MOST_TEXT]
        super().__init__(f"{self.text} ({code})")


class AnswerTooLarge(RpcRefused):
    """The answer has more bytes than the caller takes; the rest of it was not read."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(None, f"the answer has more than {most_bytes >> 20} MiB")


class Pace:
    """Lets calls through at a steady rate; what was not used of the last MADE_UP_S is made up for.

    Without that, each moment that a busy process is late would be lost to those that wait.
    """

    def __init__(self, per_s: float) -> None:
        self._interval_s = 1 / per_s
        self._next = float("-inf")

    async def wait(self) -> None:
        """Wait for one's turn."""
        await asyncio.sleep(self.pause_s(asyncio.get_running_loop().time()))

    def pause_s(self, now: float) -> float:
        """Take the next turn; return the seconds until then."""
        self._next = max(self._next + self._interval_s, now - MADE_UP_S)
        return max(self._next - now, 0.0)


def session() -> aiohttp.ClientSession:
    """Return a session for `call`; the caller closes it."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S))


async def call(
    http: aiohttp.ClientSession,
    endpoint: str,
    method: str,
    params: list[Any],
    most_bytes: int = MOST_ANSWER_BYTES,
) -> Any:
    """Return the result of one call; raises NotNow, AnswerTooLarge and RpcRefused."""
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    try:
        async with http.post(
            endpoint, data=body, headers={"content-type": "application/json"}
        ) as response:
            raw = await _read(response, most_bytes)
            status = response.status
    except (aiohttp.ClientError, TimeoutError) as error:
        raise NotNow(f"{host_of(endpoint)}: {_what(error)}") from None
    try:
        answer = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise NotNow(f"{host_of(endpoint)}: HTTP {status}, no JSON") from None
    if not isinstance(answer, dict) or status == 429 or status >= 500:
        raise NotNow(f"{host_of(endpoint)}: HTTP {status}")
    if refusal := answer.get("error"):
        if isinstance(refusal, dict):
            raise RpcRefused(_code(refusal.get("code")), str(refusal.get("message", "")))
        raise RpcRefused(None, str(refusal))
    return answer.get("result")


def _what(error: Exception) -> str:
    """Return what an error of the HTTP client is; others' texts may have the URL, with its key."""
    name = type(error).__name__
    return f"{name}: {error.strerror}" if isinstance(error, aiohttp.ClientOSError) else name


def _code(code: Any) -> int | None:
    return code if isinstance(code, int) else None


async def _read(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    read = bytearray()
    async for part in response.content.iter_any():
        read += part
        if len(read) > most_bytes:
            raise AnswerTooLarge(most_bytes)
    return bytes(read)
