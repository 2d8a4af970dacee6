"""Readings and answers that all requests of a process share for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from random import uniform
from typing import Any, Final, Generic, Protocol, TypeVar

from api.reply import Encoded, encode

FRESH_FOR_S: Final = 0.5
"""The stores are written three times a second."""

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """What was last made of what was read, as many as `size`; the first to come go first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.kept: dict[K, V] = {}  # read it; write with `put`

    def put(self, key: K, value: V) -> None:
        """Remember a value in place of the one before."""
        kept = self.kept
        kept.pop(key, None)
        if len(kept) >= self._size:
            del kept[next(iter(kept))]
        kept[key] = value


class Shared(Generic[T]):
    """A reading that is made when it is asked for, and then stands for half a second.

    Those who come while one is under way wait for that one; who leaves does not end it. What went
    wrong is raised to all who waited, and the next to come tries again.
    """

    def __init__(self, read: Callable[[], Awaitable[T]], fresh_for_s: float = FRESH_FOR_S) -> None:
        self._read = read
        self._fresh_for_s = fresh_for_s
        self._last: tuple[float, T] | None = None  # since when, of the loop's clock
        self._reading: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return the reading; raises what the reading raises."""
        if self._last is not None and now_s() - self._last[0] <= self._fresh_for_s:
            return self._last[1]
        if self._reading is None:
            self._reading = asyncio.create_task(self._begin())
            self._reading.add_done_callback(self._ended)
        return await asyncio.shield(self._reading)

    async def _begin(self) -> T:
        began = now_s()
        found = await self._read()
        self._last = began, found
        return found

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._reading = None
        if not task.cancelled():
            task.exception()  # those who waited have it; nobody may be left of them


class Answer(Protocol):
    """An answer that is kept."""

    @property
    def json(self) -> bytes:
        """Return what it takes."""


A = TypeVar("A", bound=Answer)


class Kept(Generic[A]):
    """Answers by what was asked, as many as fit into so many bytes; the first to come go first."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._answers: dict[Hashable, A] = {}

    def get(self, key: Hashable) -> A | None:
        """Return the answer, however old it is."""
        return self._answers.get(key)

    def put(self, key: Hashable, answer: A) -> None:
        """Keep an answer in place of the one before."""
        if (before := self._answers.pop(key, None)) is not None:
            self._bytes -= len(before.json)
        self._answers[key] = answer
        self._bytes += len(answer.json)
        while self._bytes > self._most_bytes:
            oldest = next(iter(self._answers))
            self._bytes -= len(self._answers.pop(oldest).json)


@dataclass(frozen=True, slots=True)
class _Stood:
    """An answer as it was sent."""

    encoded: Encoded
    until: float

    @property
    def json(self) -> bytes:
        return self.encoded.body


class Standing:
    """Answers for all requests of a process, each of which stands for a while.

    Whoever looks at a wallet or a token asks for it again and again, most often with nothing
    changed. How long is a matter of chance, three quarters at least: what was read together, as
    after a pause, would be read together ever after, and all others wait for it.
    """

    def __init__(self, most_bytes: int, fresh_for_s: float = FRESH_FOR_S) -> None:
        self._kept: Kept[_Stood] = Kept(most_bytes)
        self._fresh_for_s = fresh_for_s

    async def get(self, read: Callable[..., Awaitable[Any]], *asked: Hashable) -> Encoded:
        """Return what `read` answers, read now if none stands; raises what it raises."""
        at, key = now_s(), (read, *asked)
        stood = self._kept.get(key)
        if stood is None or at > stood.until:
            share = uniform(0.75, 1.0)  # noqa: S311 - no secret
            stood = _Stood(encode(await read(*asked)), at + share * self._fresh_for_s)
            self._kept.put(key, stood)
        return stood.encoded


def now_s() -> float:
    """Return the time of the loop's clock."""
    return asyncio.get_running_loop().time()
