"""Names in Redis the chain that the live streams are of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from redis.asyncio import Redis

from infra.redis.client import RedisError
from schemas.redis_keys import CHAIN

LOOK_EVERY_S: Final = 1.0


async def keep_named(redis: Redis, genesis_hash: Callable[[], str | None]) -> NoReturn:
    """Write the genesis hash, and again whenever Redis has another one, until cancelled.

    `genesis_hash` returns None while there is nothing to say, "" for an unknown chain.
    """
    key = CHAIN.make()
    while True:
        if (wanted := genesis_hash()) is not None:
            try:
                if await redis.get(key) != (wanted.encode() or None):
                    await (redis.set(key, wanted) if wanted else redis.delete(key))
            except (RedisError, OSError):
                pass  # it is away: the streams' writer says so
        await asyncio.sleep(LOOK_EVERY_S)
