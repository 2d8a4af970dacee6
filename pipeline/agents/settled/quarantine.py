"""Wallets, mints or accounts with a stored value that cannot be read: a group leaves them out.

What such a wallet or mint does is not applied from then on, as it would be applied to a wrong
state; all others go on exactly. The record is written in the MULTI that moves the watermark past
the first slot left out. No checkpoint is taken of a partition meanwhile: the last one, and the log
since then, is what `soltape rebuild` mends it from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from struct import error as StructError  # noqa: N812 - it is an exception
from typing import Any, Final, cast

import orjson
import structlog
from redis.asyncio import Redis

from pipeline.agents import metrics
from schemas.redis_keys import QUARANTINE

log = structlog.get_logger(__name__)

MOST: Final = 1_000  # of a partition: more are no single bad values
UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError, StructError)
"""What reading a value that is wrong may raise, as `schemas` and JSON do."""


class StoreSpoiled(Exception):
    """Too many values cannot be read: the store is not to be relied on; the text names a remedy."""


class Quarantine:
    """The wallets or mints of one partition that its books leave out."""

    def __init__(self, group: str, tag: str, names: set[str] | None = None) -> None:
        self.slot = 0
        """The slot that whatever is put here now does not have any more."""
        self._group = group
        self._tag = tag
        self._key = QUARANTINE.make(tag=tag, group=group)
        self._names = names or set()
        self._unwritten: dict[str, bytes] = {}
        self._fresh: list[str] = []
        self._report()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def put(self, name: str, place: str, error: Exception | str) -> None:
        """Leave a wallet or mint out from now on; `place` is where its value is.

        Raises StoreSpoiled where there are too many.
        """
        if name in self._names:
            return
        cause = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        if len(self._names) >= MOST:
            raise StoreSpoiled(
                f"more than {MOST:,} wallets or mints of {self._tag} have values that cannot be "
                f"read, the last one {place}: {cause}. Run `soltape rebuild {self._group} "
                "--from-checkpoint`, which fills Redis from ClickHouse and the log"
            )
        self._names.add(name)
        self._fresh.append(name)
        self._unwritten[name] = orjson.dumps({"slot": self.slot, "place": place, "cause": cause})
        self._report()
        log.error(
            "a stored value cannot be read: going on without its wallet or mint",
            group=self._group,
            name=name,
            place=place,
            cause=cause,
            mend=f"stop the agents of {self._group}, then run soltape rebuild {self._group}",
        )

    def fresh(self) -> list[str]:
        """Return what was put here since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def commands(self) -> list[tuple[Any, ...]]:
        """Return what writes the records made since the last call."""
        if not self._unwritten:
            return []
        parts = [part for pair in self._unwritten.items() for part in pair]
        self._unwritten = {}
        return [("HSET", self._key, *parts)]

    def _report(self) -> None:
        metrics.QUARANTINED.labels(self._group, self._tag.strip("{amw}")).set(len(self._names))


async def read_quarantine(redis: Redis, group: str, tag: str) -> Quarantine:
    """Return the quarantine of a partition as Redis has it; raises RedisError."""
    names = await cast(Awaitable[Any], redis.hkeys(QUARANTINE.make(tag=tag, group=group)))
    return Quarantine(group, tag, {name.decode() for name in names})
