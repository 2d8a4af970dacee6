"""What waits to be fetched, in the background of a process: bounded, fair among hosts and keys.

A slow host holds as many at once as it has turns, and no more. Of those that wait for a host with
one free, the key that has the fewest at work goes next. A key has a share of the places to wait in.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog
from prometheus_client import Gauge

from api.metadata import hosts
from api.metadata.failures import Failed
from api.metadata.targets import Targets

log = structlog.get_logger(__name__)

WAITING: Final = Gauge("soltape_api_metadata_waiting", "Tokens whose metadata waits to be fetched.")
MOST_WAITING: Final = 1_000
MOST_OF_KEY: Final = MOST_WAITING // 8
MOST_AT_ONCE: Final = 8

Work = Callable[[str, str], Awaitable[None]]
"""Does what there is to do for a mint and its URI."""


class Queue:
    """Mints with their URIs that wait, or are at work."""

    def __init__(self, work: Work, targets: Targets) -> None:
        self._work = work
        self._targets = targets
        self._at_work: Counter[str] = Counter()  # by host
        self._at_work_for: Counter[str] = Counter()  # by key
        self._waiting_for: Counter[str] = Counter()
        self._waiting: dict[str, tuple[str, str, str]] = {}  # mint -> URI, host, key
        self._running: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._dispatching: asyncio.Task[None] | None = None

    def put(self, mint: str, uri: str, holder: str) -> bool:
        """Have a URI fetched soon for a key's fingerprint; False where too many wait."""
        if mint in self._waiting or mint in self._running:
            return True
        if len(self._waiting) >= MOST_WAITING or self._waiting_for[holder] >= MOST_OF_KEY:
            return False
        host = ""  # one that cannot be asked takes nobody's turn
        with suppress(Failed):
            host = self._targets.of(uri).host
        self._waiting[mint] = uri, host, holder
        self._waiting_for[holder] += 1
        WAITING.set(len(self._waiting))
        self._changed.set()
        if self._dispatching is None:
            self._dispatching = asyncio.create_task(self._dispatch())
        return True

    async def aclose(self) -> None:
        """End what is at work."""
        tasks = [*self._running.values()]
        if self._dispatching is not None:
            tasks.append(self._dispatching)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _dispatch(self) -> None:
        while True:
            mint = self._next() if len(self._running) < MOST_AT_ONCE else None
            if mint is None:
                self._changed.clear()
                await self._changed.wait()
                continue
            uri, host, holder = self._waiting.pop(mint)
            WAITING.set(len(self._waiting))
            _less(self._waiting_for, holder)
            self._at_work[host] += 1
            self._at_work_for[holder] += 1
            self._running[mint] = asyncio.create_task(self._run(mint, uri, host, holder))

    def _next(self) -> str | None:
        at_work = self._at_work
        free = (
            (mint, holder)
            for mint, (_, host, holder) in self._waiting.items()
            if not host or at_work[host] < hosts.MOST_AT_ONCE
        )
        fewest = min(free, key=lambda each: self._at_work_for[each[1]], default=None)
        return None if fewest is None else fewest[0]

    async def _run(self, mint: str, uri: str, host: str, holder: str) -> None:
        try:
            await self._work(mint, uri)
        except Exception:
            log.exception("metadata was not fetched", mint=mint)
        finally:
            del self._running[mint]
            _less(self._at_work, host)
            _less(self._at_work_for, holder)
            self._changed.set()


def _less(counts: Counter[str], name: str) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
