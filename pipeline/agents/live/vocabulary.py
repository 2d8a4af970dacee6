"""Publishes the venues and launch platforms, for roles that may not import the decoders."""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

import structlog
from redis.asyncio import Redis

from infra.redis.client import RedisError
from pipeline.decoding.platforms import PLATFORMS
from pipeline.decoding.registry import VENUES
from schemas.redis_keys import VOCABULARY
from schemas.vocabulary import Slugs

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 5.0
SLUGS: Final = Slugs(
    dexes=tuple(sorted({venue.dex for venue in VENUES})), platforms=tuple(sorted(PLATFORMS.slugs))
)


async def keep_published(redis: Redis) -> NoReturn:
    """Write the vocabulary, and again whenever Redis has lost it, until cancelled."""
    key, value = VOCABULARY.make(), SLUGS.pack()
    while True:
        try:
            if await redis.get(key) != value:
                await redis.set(key, value)
                log.info("venues and platforms published", dexes=len(SLUGS.dexes))
        except (RedisError, OSError):
            pass  # it is away: the streams' writer says so
        await asyncio.sleep(LOOK_EVERY_S)
