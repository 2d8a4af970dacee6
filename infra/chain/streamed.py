"""Answers too large for one turn of the event loop: scans in steps, and JSON sent in parts."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import monotonic
from typing import Any, Final, TypeVar

import orjson

T = TypeVar("T")

_TURN_S: Final = 0.01  # how long the event loop waits for one step
_LOOKS: Final = 512  # items between two looks at the clock
_SORTED_AT_ONCE: Final = 10_000
_PART_BYTES: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class Streamed:
    """A JSON value of which only the parts are ever in memory."""

    parts: AsyncIterator[bytes]


async def selected(items: Iterable[T], wanted: Callable[[T], bool]) -> list[T]:
    """Return the items that are wanted, giving way to others every 10 ms."""
    found: list[T] = []
    coming, until = iter(items), monotonic() + _TURN_S
    while batch := list(islice(coming, _LOOKS)):
        found += filter(wanted, batch)
        if monotonic() > until:
            await asyncio.sleep(0)
            until = monotonic() + _TURN_S
    return found


async def in_order(items: Sequence[T], key: Callable[[T], Any]) -> Iterator[T]:
    """Return the items sorted, giving way to others while it sorts."""
    runs = []
    for start in range(0, len(items), _SORTED_AT_ONCE):
        runs.append(sorted(items[start : start + _SORTED_AT_ONCE], key=key))
        await asyncio.sleep(0)
    return iter(runs[0]) if len(runs) == 1 else heapq.merge(*runs, key=key)


async def json_list(items: Iterable[T], to_json: Callable[[T], Any]) -> AsyncIterator[bytes]:
    """Yield a JSON list in parts of some 256 kB."""
    part, size, separator = [b"["], 0, b""
    until = monotonic() + _TURN_S
    for item in items:
        text = orjson.dumps(to_json(item))
        part += (separator, text)
        separator = b","
        size += len(text)
        if size > _PART_BYTES or monotonic() > until:
            yield b"".join(part)
            await asyncio.sleep(0)
            part, size, until = [], 0, monotonic() + _TURN_S
    part.append(b"]")
    yield b"".join(part)


async def wrapped(before: bytes, parts: AsyncIterator[bytes], after: bytes) -> AsyncIterator[bytes]:
    """Yield the parts between what comes before and after them."""
    yield before
    async for part in parts:
        yield part
    yield after
