"""The bitmap of what a partition put away into ClickHouse (`schemas.away`), in Redis."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio import Redis

from schemas.away import BITS, bit


class Away:
    """The bitmap of one partition. All reads raise RedisError."""

    def __init__(self, redis: Redis, key: str) -> None:
        self._ask: Callable[..., Awaitable[Any]] = redis.execute_command
        self._key = key

    async def prepare(self) -> None:
        """Take the memory of the bitmap, which a full Redis would not have."""
        if await self._ask("STRLEN", self._key) < BITS // 8:
            await self._ask("SETBIT", self._key, BITS - 1, 0)  # the last is nobody's

    async def may_be(self, addresses: Sequence[bytes]) -> list[bool]:
        """Return which of the raw addresses may have been put away ever."""
        if not addresses:
            return []
        return [bool(each) for each in await self._ask(*self.look(addresses))]

    def look(self, addresses: Sequence[bytes]) -> tuple[Any, ...]:
        """Return the command that answers with the bit of each raw address."""
        asked = [part for raw in addresses for part in ("GET", "u1", bit(raw))]
        return "BITFIELD_RO", self._key, *asked

    def mark(self, address: bytes) -> tuple[str, str, int, int]:
        """Return the command that says for good that a raw address may be put away."""
        return "SETBIT", self._key, bit(address), 1
