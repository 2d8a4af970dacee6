"""How available the API was this month (UTC): by the minute, and by answers.

Every process looks at the stores every ten seconds and writes what it found to the Redis of the
keys. A minute is available if a process served in it and no check in it failed; a minute without a
record is not. Records that Redis did not accept are written when it answers again. A response that
costs a credit counts as failed if it is a 5xx, or a call of an MCP tool that failed for our fault
with status 200, and so does a request with a key that the server rejected at capacity. A killed
process loses the counts of its last ten seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog
from prometheus_client import Gauge
from redis.exceptions import RedisError

from api.access.script import Asks, load
from api.system.health_answers import Availability, Health
from schemas.plans import AVAILABILITY_TARGET_PCT
from schemas.redis_keys import MONTH_ANSWERS, MONTH_FAILED_MINUTES, MONTH_MINUTES, tag_of_month
from schemas.times import DAY_S, MINUTE_MS

log = structlog.get_logger(__name__)

EVERY_S: Final = 10.0
KEEP_S: Final = 400 * DAY_S
MOST_UNWRITTEN: Final = 31 * 24 * 60  # minutes of a month
_NOTE: Final = load("availability", __package__)

RATIO: Final = Gauge(
    "soltape_api_availability_ratio",
    "Share of this month (UTC) that the API was available, of minutes or of answers to keys.",
    ["of"],
)


class AvailabilityWatch:
    """Counts answers of this process, and keeps the month of all processes in Redis."""

    def __init__(self, redis: Asks) -> None:
        self._redis = redis
        self._answered = 0
        self._failed = 0
        self._unwritten: dict[tuple[str, int], None] = {}  # month, minute of a look that failed
        self.last: Availability | None = None
        """The month as of the last look; None before the first, and while Redis is away."""

    def count(self, status: int) -> None:
        """Count an answer to a key."""
        self._answered += 1
        if status >= 500:
            self._failed += 1

    async def run(self, look: Callable[[], Awaitable[Health]]) -> None:
        """Look every ten seconds, until cancelled."""
        while True:
            try:
                is_up = (await look())["status"] != "unavailable"
            except Exception:
                log.exception("the look at the stores failed")
                is_up = False
            await self.note(is_up, time.time_ns() // 1_000_000)
            await asyncio.sleep(EVERY_S)

    async def note(self, is_up: bool, now_ms: int) -> None:
        """Write what a look found, and the answers since the last one; if Redis is away, later."""
        month, began_ms, former = _month(now_ms)
        minute = (now_ms - began_ms) // MINUTE_MS
        answered, failed = self._answered, self._failed
        tag, kept = tag_of_month(month), tag_of_month(former)
        keys = [each.make(tag=tag) for each in (MONTH_ANSWERS, MONTH_MINUTES, MONTH_FAILED_MINUTES)]
        try:
            *_, has_former = await self._redis.ask(
                [*self._written_later(), ("EXISTS", MONTH_MINUTES.make(tag=kept))]
            )
            counts = await _NOTE.run(
                self._redis, keys, (minute, int(is_up), answered, failed, KEEP_S)
            )
        except (RedisError, OSError) as error:
            log.debug("availability is not written", reason=str(error))
            self._unwritten[month, minute] = None
            while len(self._unwritten) > MOST_UNWRITTEN:
                del self._unwritten[next(iter(self._unwritten))]
            self.last = None
            return
        self._unwritten.clear()
        self._answered -= answered
        self._failed -= failed
        self.last = figures(month, began_ms, minute, *counts, is_known_before=bool(has_former))
        for of, percent in (
            ("minutes", self.last["minutes_pct"]),
            ("answers", self.last["answers_pct"]),
        ):
            if percent is not None:
                RATIO.labels(of).set(percent / 100)

    def _written_later(self) -> Iterator[tuple[Any, ...]]:
        for month, minute in self._unwritten:
            key = MONTH_FAILED_MINUTES.make(tag=tag_of_month(month))
            yield ("SETBIT", key, minute, 1)
            yield ("EXPIRE", key, KEEP_S)


def figures(
    month: str,
    began_ms: int,
    minute: int,
    answered: int,
    failed: int,
    served: bytes,
    with_failures: bytes,
    *,
    is_known_before: bool,
) -> Availability:
    """Return the figures of a month up to a minute, which is not over and does not count.

    `served` and `with_failures` have a bit a minute. Where the month before is not known, what
    counts begins with the first minute of this one that somebody wrote of.
    """
    good, bad = _minutes(served), _minutes(with_failures)
    first = 0 if is_known_before else min([minute, *good, *bad])
    whole = minute - first
    available = len({each for each in good - bad if first <= each < minute})
    return {
        "month": month,
        "since_ms": began_ms + first * MINUTE_MS,
        "minutes": whole,
        "minutes_pct": round(100 * available / whole, 4) if whole else None,
        "answers": answered,
        "answers_pct": round(100 * (answered - failed) / answered, 4) if answered else None,
        "target_pct": AVAILABILITY_TARGET_PCT,
    }


def _minutes(bits: bytes) -> set[int]:
    # Redis counts bits from the highest of the first byte on.
    return {
        at * 8 + place for at, byte in enumerate(bits) for place in range(8) if byte << place & 0x80
    }


def _month(now_ms: int) -> tuple[str, int, str]:
    """Return the month of a time (2026-11), when it began, and the month before."""
    first = datetime.fromtimestamp(now_ms / 1000, UTC).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    return f"{first:%Y-%m}", int(first.timestamp()) * 1000, f"{first - timedelta(days=1):%Y-%m}"
