"""Writes to Redis in large trips."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from redis.asyncio import Redis

from infra.redis import client

_PARTS_A_TRIP: Final = 20_000  # words and values of commands
_VALUES_A_COMMAND: Final = 500


class RedisWriter:
    """Takes fields of hashes and members of sorted sets; many of one key are one command."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._commands: list[tuple[Any, ...]] = []
        self._parts = 0  # of these
        self._fields: dict[tuple[str, str], list[Any]] = defaultdict(list)

    async def hash(self, key: str, *fields_and_values: Any) -> None:
        """Set fields of a hash."""
        await self._add("HSET", key, fields_and_values)

    async def ranked(self, key: str, *scores_and_members: Any) -> None:
        """Put members into a sorted set."""
        await self._add("ZADD", key, scores_and_members)

    async def command(self, *command: Any) -> None:
        """Send any other command."""
        self._commands.append(command)
        self._parts += len(command)
        if self._parts >= _PARTS_A_TRIP:
            await self._send()

    async def flush(self) -> None:
        """Write what waits."""
        for (verb, key), values in self._fields.items():
            await self.command(verb, key, *values)
        self._fields.clear()
        await self._send()

    async def _add(self, verb: str, key: str, values: tuple[Any, ...]) -> None:
        waiting = self._fields[verb, key]
        waiting += values
        if len(waiting) >= 2 * _VALUES_A_COMMAND:
            del self._fields[verb, key]
            await self.command(verb, key, *waiting)

    async def _send(self) -> None:
        if self._commands:
            commands, self._commands, self._parts = self._commands, [], 0
            await client.ask(self._redis, commands)
