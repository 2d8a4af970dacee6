"""An end to what takes too long, without a timer for each that does not.

`asyncio.timeout` sets a timer and takes it back, for every request; here one look a while goes over
those that run. All have the same time, so the first to begin is the first to be late.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

_LOOKS: Final = 20  # within the time; a task is late by no more than a twentieth of it


class Deadlines:
    """Cancels tasks that run for longer than `after_s`."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._since_s: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._look: asyncio.TimerHandle | None = None

    def enter(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[Any]:
        """Begin the time of the current task, and return it."""
        task = asyncio.current_task(loop)
        assert task is not None
        self._since_s[task] = loop.time()
        if self._look is None:
            self._look = loop.call_later(self._after_s / _LOOKS, self._go_over, loop)
        return task

    def begin_again(self, task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop) -> None:
        """Begin the time of a task anew, unless it has ended or is late already."""
        if task not in self._late and self._since_s.pop(task, None) is not None:
            self._since_s[task] = loop.time()  # as the last: they are in order

    def leave(self, task: asyncio.Task[Any]) -> bool:
        """End the time of a task; return whether it was cancelled because it was late."""
        del self._since_s[task]
        if task not in self._late:
            return False
        self._late.remove(task)
        task.uncancel()
        return True

    def _go_over(self, loop: asyncio.AbstractEventLoop) -> None:
        late_s = loop.time() - self._after_s
        for task, since_s in self._since_s.items():
            if since_s > late_s:
                break
            if task not in self._late:
                self._late.add(task)
                task.cancel()
        self._look = (
            loop.call_later(self._after_s / _LOOKS, self._go_over, loop) if self._since_s else None
        )
