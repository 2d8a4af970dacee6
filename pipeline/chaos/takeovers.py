"""How long a standby takes to write, from when the ingest that wrote is gone."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from infra.bench import progress
from pipeline.chaos.watch import LOOK_EVERY_S, Watch

BAR_S: Final = 10.0  # printed beside the figures: a busy machine may exceed it
SEEN_WITHIN_S: Final = 10.0  # after something wrote again
_STANDBY: Final = "soltape_ingest_standby"
_PUBLISHED: Final = "soltape_ingest_published_slot"


def judge(took_s: Sequence[float], limit_s: float | None) -> dict[str, float | None]:
    """Return how many takeovers there were, their median and longest, the bar, and the limit.

    Then how many were `late`, longer than the limit; None where there is no limit.
    """
    return {
        "count": len(took_s),
        "median": round(statistics.median(took_s), 1) if took_s else 0.0,
        "max": round(max(took_s, default=0.0), 1),
        "bar": BAR_S,
        "limit": limit_s,
        "late": None if limit_s is None else sum(each > limit_s for each in took_s),
    }


class Takeovers:
    """Times takeovers between ingests."""

    def __init__(self, watch: Watch, ingests: Sequence[str]) -> None:
        self._watch = watch
        self._ingests = ingests
        self.took_s: list[float] = []

    @asynccontextmanager
    async def timing(self, *gone: str) -> AsyncIterator[None]:
        """Time the takeover while the body ends one ingest and waits until slots are written.

        Nothing is timed where it was not the one that wrote, where something else is hit as well,
        or where the same one comes back and is first.
        """
        other = await self._standby_of(*gone)
        if other is None:
            yield
            return
        before = await self._watch.metric(gone[0], _PUBLISHED) or 0
        timed = asyncio.create_task(self._until_written(other, before, time.monotonic()))
        try:
            yield
            await asyncio.wait({timed}, timeout=SEEN_WITHIN_S)
        finally:
            timed.cancel()

    async def _standby_of(self, *gone: str) -> str | None:
        """Return which ingest waits while the one that is gone writes, None where none does."""
        if len(gone) != 1 or gone[0] not in self._ingests:
            return None
        waits = {name: await self._watch.metric(name, _STANDBY) for name in self._ingests}
        others = [name for name, standby in waits.items() if standby == 1]
        return others[0] if waits[gone[0]] == 0 and len(others) == 1 else None

    async def _until_written(self, other: str, before: int, began: float) -> None:
        while (await self._watch.metric(other, _PUBLISHED) or 0) <= before:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_EVERY_S)
        took_s = time.monotonic() - began
        self.took_s.append(took_s)
        progress(f"        {other} writes {took_s:.1f} s later (bar: {BAR_S:.0f} s)")
