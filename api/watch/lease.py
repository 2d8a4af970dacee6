"""One process watches at a time: a lease in Redis, and nobody else's writes count.

The lease decides when another process begins. `write.lua` looks at it within the step that writes,
so a process that lost it, whatever it believes, changes nothing.
"""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import Final

import structlog
from redis.exceptions import RedisError

from api.access.script import Asks, load
from schemas.redis_keys import WATCH_LEASE, WATCH_REPORT

log = structlog.get_logger(__name__)

LEASE_S: Final = float(WATCH_LEASE.ttl_s or 0)
RENEWED_S: Final = 1.5
LOOK_EVERY_S: Final = 1.0  # of a standby

_RENEW: Final = load("renew", __package__)
_RELEASE: Final = load("release", __package__)
_MS: Final = int(LEASE_S * 1000)


class Lease:
    """The lease as this process has it, or waits for it."""

    def __init__(self, redis: Asks) -> None:
        self.token = token_hex(8)
        self.key = WATCH_LEASE.make()
        self._redis = redis

    async def acquire(self) -> None:
        """Return once this process has the lease; waits while another has it."""
        is_logged = False
        while not await self._take():
            if not is_logged:
                is_logged = True
                log.info("standby: another process watches, or Redis is away", lease_s=LEASE_S)
            await asyncio.sleep(LOOK_EVERY_S)

    async def keep(self) -> None:
        """Renew the lease; returns when another process has it, or has had it."""
        while True:
            await asyncio.sleep(RENEWED_S)
            try:
                if not await _RENEW.run(self._redis, [self.key], [self.token, _MS]):
                    return
            except (RedisError, OSError) as error:  # what is written meanwhile is looked at there
                log.warning("the lease cannot be renewed", reason=str(error))

    async def release(self, *, in_order: bool) -> None:
        """Give the lease back, so that another process begins at once.

        Who ends in order takes the report along; the report of one that fails stays, by which
        health misses it.
        """
        keys = [self.key, WATCH_REPORT.make()] if in_order else [self.key]
        try:
            await _RELEASE.run(self._redis, keys, [self.token])
        except (RedisError, OSError) as error:
            log.warning("the lease ends by itself", reason=str(error), lease_s=LEASE_S)

    async def _take(self) -> bool:
        command = ("SET", self.key, self.token, "NX", "PX", _MS)
        try:
            [answer] = await self._redis.ask([command])
        except (RedisError, OSError):
            return False
        if answer is not None:
            return True
        # An answer that was lost: the lease is ours all the same.
        try:
            return bool(await _RENEW.run(self._redis, [self.key], [self.token, _MS]))
        except (RedisError, OSError):
            return False
