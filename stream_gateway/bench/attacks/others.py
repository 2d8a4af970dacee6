"""Other users of the API and the gateway, which ask at a steady rate whatever the answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final

import aiohttp

from stream_gateway.bench.attacks.kinds import API, GATEWAY

ASKS_PER_S: Final = 20
UPGRADES_PER_S: Final = 4
GIVEN_UP_S: Final = 5.0
SOURCE: Final = "127.0.0.9"


@dataclass(slots=True)
class Answers:
    """How long answers took, from the moment the question was due; and what failed."""

    took_ms: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """Return counts and quantiles; a question that failed has no time."""
        ordered = sorted(self.took_ms)
        return {
            "answered": len(ordered),
            "failed": len(self.failed),
            "failures": sorted(set(self.failed))[:5],
            "p50_ms": _quantile(ordered, 0.5),
            "p99_ms": _quantile(ordered, 0.99),
            "max_ms": _quantile(ordered, 1.0),
        }


@dataclass(frozen=True, slots=True)
class Others:
    """The addresses, and the key of a user that does not attack."""

    api_url: str
    gateway_url: str
    key: str
    paths: Sequence[str]

    async def ask(self, seconds: float) -> dict[str, Any]:
        """Ask both doors for so long; return the figures of each."""
        answers, upgrades = Answers(), Answers()
        connector = aiohttp.TCPConnector(local_addr=(SOURCE, 0), limit=0)
        async with aiohttp.ClientSession(
            connector=connector,
            headers={"x-api-key": self.key},
            timeout=aiohttp.ClientTimeout(GIVEN_UP_S),
        ) as session:
            paths = cycle(self.paths)

            async def question() -> None:
                async with session.get(self.api_url + next(paths)) as answer:
                    await answer.read()
                    answer.raise_for_status()

            async def upgrade() -> None:
                async with session.ws_connect(self.gateway_url) as socket:
                    await socket.send_json({"action": "ping"})
                    await socket.receive()

            await asyncio.gather(
                _steadily(question, ASKS_PER_S, seconds, answers),
                _steadily(upgrade, UPGRADES_PER_S, seconds, upgrades),
            )
        return {API: answers.figures(), GATEWAY: upgrades.figures()}


async def _steadily(
    question: Callable[[], Awaitable[None]], per_s: float, seconds: float, answers: Answers
) -> None:
    async def ask(due: float) -> None:
        try:
            async with asyncio.timeout(GIVEN_UP_S):
                await question()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            answers.failed.append(_words(error))
        else:
            answers.took_ms.append((time.monotonic() - due) * 1_000)

    began = time.monotonic()
    asked: list[asyncio.Task[None]] = []
    for number in range(round(seconds * per_s)):
        due = began + number / per_s
        await asyncio.sleep(max(due - time.monotonic(), 0))
        asked.append(asyncio.create_task(ask(due)))
    await asyncio.gather(*asked)


def _words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{error.status} {error.request_info.url.path}"
    return type(error).__name__


def _quantile(ordered: list[float], quantile: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(int(len(ordered) * quantile), len(ordered) - 1)], 1)
