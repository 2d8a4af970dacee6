"""Which venues and launch platforms there are, as the pipeline publishes in Redis."""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

import structlog
from redis.exceptions import RedisError

from infra.redis.asks import Pipelined
from schemas.redis_keys import VOCABULARY
from schemas.vocabulary import Slugs, unpack

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 5.0
_ASK: Final = [("GET", VOCABULARY.make())]


class Vocabulary:
    """The slugs that filters may name; the last ones stay while Redis is away."""

    def __init__(self, redis: Pipelined) -> None:
        self.slugs: Slugs | None = None
        """None while unknown; then any text in the form of a slug passes."""
        self._redis = redis
        self._unreadable = b""  # logged already

    async def run(self) -> NoReturn:
        """Look every few seconds, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Read what there is; what is missing or cannot be read changes nothing."""
        try:
            [value] = await self._redis.ask(_ASK)
        except (RedisError, OSError):
            return  # the source of events says that it is away
        if value is None or value == self._unreadable:
            return
        try:
            self.slugs = unpack(value)
        except ValueError as error:
            self._unreadable = value
            log.warning("vocabulary cannot be read", reason=str(error))
