"""The rows of a checkpoint: values of Redis, read while nobody writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from redis.asyncio import Redis

from infra.redis.client import ask
from infra.redis.families import family_of
from pipeline.agents.settled.changes import Changed
from schemas.rows import Row

FIELDS_AT_ONCE: Final = 2_000  # of a command: Redis does nothing else meanwhile
COMMANDS_AT_ONCE: Final = 1_000


class Rows:
    """Rows of `book_checkpoints` of one partition, as of one slot."""

    def __init__(self, group: str, place: int, slot: int) -> None:
        self.rows: list[Row] = []
        self._group = group
        self._place = place
        self._slot = slot

    def add(self, kind: str, key: bytes, field: bytes = b"", value: bytes | None = b"") -> None:
        """Add a row; a value of None means that there is none any more."""
        self.rows.append(
            (
                self._group,
                self._place,
                key,
                kind,
                field,
                value or b"",
                self._slot,
                int(value is None),
            )
        )

    async def read(self, redis: Redis, changed: Changed) -> None:
        """Add what has changed, as it is now; raises RedisError."""
        for key in changed.gone:
            self.add("gone", key)
        for key, score in changed.trimmed.items():
            self.add("trimmed", key, value=repr(score).encode())
        answers = await _ask(redis, [("GET", key) for key in changed.strings])
        for key, value in zip(changed.strings, answers, strict=True):
            self.add("string", key, value=value)
        for key, offsets in changed.bits.items():  # a bit of books is never cleared
            for offset in offsets:
                self.add("bit", key, offset, b"1")
        await self._read_fields(redis, "hash", "HMGET", changed.hashes)
        await self._read_fields(redis, "set", "SMISMEMBER", changed.sets)
        await self._read_fields(redis, "zset", "ZMSCORE", changed.zsets)

    async def _read_fields(
        self, redis: Redis, kind: str, command: str, wanted: Mapping[bytes, list[bytes]]
    ) -> None:
        parts = [
            (key, fields[at : at + FIELDS_AT_ONCE])
            for key, fields in wanted.items()
            for at in range(0, len(fields), FIELDS_AT_ONCE)
        ]
        answers = await _ask(redis, [(command, key, *fields) for key, fields in parts])
        for (key, fields), values in zip(parts, answers, strict=True):
            for field, value in zip(fields, values, strict=True):
                self.add(kind, key, field, _stored(kind, value))

    async def read_all(self, redis: Redis, tag: str) -> None:
        """Add a row that voids all older ones, and all of the partition; raises RedisError."""
        self.add("reset", b"")
        for key, kind in await books_keys(redis, tag, self._group):
            if kind == "string":
                [value] = await ask(redis, [("GET", key)])
                self.add(kind, key, value=value)
            elif kind == "hash":
                async for field, value in redis.hscan_iter(key, count=FIELDS_AT_ONCE):
                    self.add(kind, key, field, value)
            elif kind == "set":
                async for member in redis.sscan_iter(key, count=FIELDS_AT_ONCE):
                    self.add(kind, key, member)
            else:
                async for member, score in redis.zscan_iter(key, count=FIELDS_AT_ONCE):
                    self.add(kind, key, member, _stored(kind, score))


async def books_keys(redis: Redis, tag: str, group: str) -> list[tuple[bytes, str]]:
    """Return the keys that a group's books have on a tag, with their types; raises RedisError.

    What expires by itself is not among them: it can be asked for again.
    """
    found: list[tuple[bytes, str]] = []
    async for name in redis.scan_iter(f"*{tag}*", count=COMMANDS_AT_ONCE):
        family = family_of(name)
        if family is not None and family.owner == group and family.ttl_s is None:
            found.append((name, family.type))
    return found


async def _ask(redis: Redis, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    answers: list[Any] = []
    for at in range(0, len(commands), COMMANDS_AT_ONCE):
        answers += await ask(redis, commands[at : at + COMMANDS_AT_ONCE])
    return answers


def _stored(kind: str, value: Any) -> bytes | None:
    """Return what a row has of a value: its bytes, a score as text; None where it is gone."""
    if kind == "set":
        return b"" if value else None
    if kind == "zset" and isinstance(value, float):
        return repr(value).encode()
    return value  # type: ignore[no-any-return]
