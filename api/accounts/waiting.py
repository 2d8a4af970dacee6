"""Requests that wait for something to be complete: one look at the store for all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from enum import Enum, auto
from typing import Final, Generic, TypeVar

from api.http.errors import Problem

LOOK_EVERY_S: Final = 0.02

K = TypeVar("K")


class Waited(Enum):
    """How a wait ended."""

    COMPLETE = auto()
    TIMED_OUT = auto()
    NO_ROOM = auto()  # as many wait as may, of all or of one holder: it did not begin


class Waiting(Generic[K]):
    """Looks at what is waited for while anybody waits, `most` callers at once.

    Of these, `most_of_one` are for the same holder: a few keys that wait for what never completes
    leave room for others.

    `look` is given all that is waited for and returns what of it is complete. A look that the store
    does not answer is made again; callers wait no longer for it.
    """

    def __init__(
        self,
        look: Callable[[Collection[K]], Awaitable[Collection[K]]],
        most: int,
        most_of_one: int,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._look = look
        self._most = most
        self._most_of_one = most_of_one
        self._every_s = every_s
        self._waiting: dict[K, set[asyncio.Future[None]]] = {}
        self._of_holder: Counter[str] = Counter()
        self._looking: asyncio.Task[None] | None = None

    async def until_complete(self, wanted: K, wait_s: float, holder: str) -> Waited:
        """Wait until something is complete, `wait_s` at most; `holder` is the key that waits."""
        of_holder = self._of_holder
        if of_holder.total() >= self._most or of_holder[holder] >= self._most_of_one:
            return Waited.NO_ROOM
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(wanted, set()).add(future)
        of_holder[holder] += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_while_waited_for())
        try:
            async with asyncio.timeout(wait_s):
                await future
        except TimeoutError:
            return Waited.TIMED_OUT
        finally:
            self._leave(wanted, future, holder)
        return Waited.COMPLETE

    async def aclose(self) -> None:
        """End the looks; who waits, waits for their time."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    def _leave(self, wanted: K, future: asyncio.Future[None], holder: str) -> None:
        self._of_holder[holder] -= 1
        if not self._of_holder[holder]:
            del self._of_holder[holder]
        others = self._waiting[wanted]
        others.remove(future)
        if not others:
            del self._waiting[wanted]

    async def _look_while_waited_for(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(self._every_s)
                with suppress(Problem):  # it has been counted
                    for complete in await self._look([*self._waiting]):
                        for future in self._waiting.get(complete, ()):
                            if not future.done():
                                future.set_result(None)
                        # Those who wait leave before the next look.
                await asyncio.sleep(0)
        finally:
            self._looking = None
