"""The live stream of the trending list, as the books of one process write it.

What was written to the list but not published yet is lost when books end: a process that dies
loses about a second of it. So books that are opened write under an epoch of their own, which
readers take for what it may be: a hole. Those that are opened together share one.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from redis.asyncio import Redis

from schemas.channels import TRENDING, LiveEvent, pack
from schemas.redis_keys import LIVE_EPOCH

ENTRIES: Final = 2_000  # each of the frames of about a second of one partition


class TrendingStream:
    """Writes entries of the stream, for all books of a process."""

    def __init__(self, redis: Redis) -> None:
        self._command: Callable[..., Awaitable[Any]] = redis.execute_command
        self._opening = ""
        self._is_used = True

    def opening(self) -> str:
        """Return what marks the entries of books that are opened now."""
        if self._is_used:
            self._opening = secrets.token_hex(4)
            self._is_used = False
        return self._opening

    async def publish(self, opening: str, events: Sequence[LiveEvent]) -> None:
        """Write the events of books that were opened so; raises RedisError."""
        self._is_used = True
        epoch = await self._command("GET", LIVE_EPOCH.make())
        fields = pack(f"{(epoch or b'').decode()}/{opening}", events)
        parts = [part for item in fields.items() for part in item]
        await self._command("XADD", TRENDING.stream, "MAXLEN", "~", ENTRIES, "*", *parts)
