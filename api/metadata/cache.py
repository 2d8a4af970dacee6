"""The records and images in Redis, shared by all processes of the API, within a bound of bytes."""

from __future__ import annotations

import time
from typing import Final

from redis.exceptions import RedisError

from api.access.script import load
from api.metadata.records import Record, unpack
from api.stores.caches import BoundedCache, now_s
from api.stores.clients import Stores, unavailable
from schemas.redis_keys import (
    OFFCHAIN_ASKED,
    OFFCHAIN_DOCUMENTS,
    OFFCHAIN_FETCHING,
    OFFCHAIN_IMAGES,
    OFFCHAIN_SIZES,
)
from schemas.times import DAY_MS

REST_MS: Final = 7 * DAY_MS  # without being asked for, after which a token leaves
RENEWED_AFTER_S: Final = 60.0
_REMEMBERED: Final = 1 << 14
_KEEP: Final = load("keep", "api.metadata")
_KEYS: Final = tuple(
    key.make() for key in (OFFCHAIN_DOCUMENTS, OFFCHAIN_IMAGES, OFFCHAIN_SIZES, OFFCHAIN_ASKED)
)
_DOCUMENTS, _IMAGES, _, _ASKED = _KEYS


class MetadataCache:
    """What is kept of tokens' URIs. Every method raises Problem."""

    def __init__(self, stores: Stores, most_bytes: int) -> None:
        self._stores = stores
        self._most_bytes = most_bytes
        self._renewed: BoundedCache[str, float] = BoundedCache(_REMEMBERED)

    async def record(self, mint: str) -> Record | None:
        """Return what is kept of a mint, and note that it was asked for."""
        commands: list[tuple[object, ...]] = [("HGET", _DOCUMENTS, mint)]
        if now_s() - self._renewed.kept.get(mint, -RENEWED_AFTER_S) >= RENEWED_AFTER_S:
            self._renewed.put(mint, now_s())
            # XX: one that has left, or never came, is not brought back by that.
            commands.append(("ZADD", _ASKED, "XX", now_ms(), mint))
        packed = (await self._stores.ask(commands))[0]
        return None if packed is None else unpack(packed)

    async def image(self, mint: str) -> tuple[Record | None, bytes | None]:
        """Return what is kept of a mint, and the bytes of its image."""
        both = [("MULTI",), ("HGET", _DOCUMENTS, mint), ("HGET", _IMAGES, mint), ("EXEC",)]
        packed, image = (await self._stores.ask(both))[-1]
        return None if packed is None else unpack(packed), image

    async def begin(self, mint: str) -> bool:
        """Return whether this process is to fetch for a mint: no other one does."""
        key = OFFCHAIN_FETCHING.make(mint=mint)
        (taken,) = await self._stores.ask([("SET", key, "", "NX", "EX", OFFCHAIN_FETCHING.ttl_s)])
        return taken is not None

    async def end(self, mint: str) -> None:
        """Let any process fetch for a mint."""
        await self._stores.ask([("DEL", OFFCHAIN_FETCHING.make(mint=mint))])

    async def keep(self, mint: str, record: Record, image: bytes | None) -> None:
        """Keep what came; others that were asked for longest ago leave."""
        arguments = (mint, record.pack(), image or b"", now_ms(), self._most_bytes, REST_MS)
        try:
            await _KEEP.run(self._stores.redis, _KEYS, arguments)
        except (RedisError, OSError) as error:
            raise unavailable("redis", error) from None


def now_ms() -> int:
    """Return the time of the clock, ms since the Unix epoch."""
    return time.time_ns() // 1_000_000
