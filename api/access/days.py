"""Requests of users by day and path, for their own eyes: what they pay is charged elsewhere.

A process counts in memory and writes every two seconds, so a request costs next to nothing here;
one that is killed loses what it did not write. Paths are those of routes, which are a few.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final

import prometheus_client
import structlog
from redis.exceptions import RedisError

from api.access import register
from api.access.script import Asks
from schemas.redis_keys import USER_DAY, tag_of_key

log = structlog.get_logger(__name__)

SHOWN: Final = 30
"""Days that are shown."""
WRITE_EVERY_S: Final = 2.0
OTHER: Final = "other"
"""Of requests that no route takes."""
_HELD: Final = 20_000  # counts of a user, day and path
_AT_ONCE: Final = 500

LOST: Final = prometheus_client.Counter(
    "soltape_api_user_days_lost_total",
    "Requests of users that are not in their days: the Redis of the keys was away or full.",
)


class Days:
    """What a process counts."""

    def __init__(self, redis: Asks) -> None:
        self._redis = redis
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def count(self, user: str, path: str) -> None:
        """Count a request that was let in."""
        place = (user, f"{datetime.now(UTC):%Y-%m-%d}", path)
        if len(self._counts) >= _HELD and place not in self._counts:
            LOST.inc()
        else:
            self._counts[place] += 1

    async def run(self) -> None:
        """Write every two seconds, until cancelled."""
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            await self.write()

    async def write(self) -> None:
        """Write what was counted; what Redis does not take is lost, and counted as such."""
        counts, self._counts = [*self._counts.items()], Counter()
        for start in range(0, len(counts), _AT_ONCE):
            some = counts[start : start + _AT_ONCE]
            commands: list[tuple[object, ...]] = []
            for (user, day, path), number in some:
                name = USER_DAY.make(tag=tag_of_key(user), day=day)
                commands += [
                    ("HINCRBY", name, path, number),
                    ("EXPIRE", name, USER_DAY.ttl_s),
                ]
            try:
                await self._redis.ask(commands)
            except (RedisError, OSError) as error:
                LOST.inc(sum(number for _, number in some))
                log.warning("days of users are not written", reason=str(error))


async def read(redis: Asks, user: str) -> list[tuple[str, dict[str, int]]]:
    """Return a user's last days, the oldest first: requests by path; raises RedisError."""
    today = datetime.fromtimestamp(await register.now_ms(redis) / 1000, UTC)
    days = [f"{today - timedelta(days=ago):%Y-%m-%d}" for ago in reversed(range(SHOWN))]
    tag = tag_of_key(user)
    answers = await redis.ask([("HGETALL", USER_DAY.make(tag=tag, day=day)) for day in days])
    return [
        (day, {path: int(number) for path, number in register.texts(found).items()})
        for day, found in zip(days, answers, strict=True)
    ]
