"""A bound on what a block of code computes, so that a reading that loops does not hang a process.

A timer of the process's own computing time raises inside the block; what the block waits for does
not count. It works in the main thread, where the API answers; elsewhere the block has no bound.
One call into C that takes long ends first.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_LEAST_S: Final = 0.001  # 0 would switch the timer off
_inside = False


class OverTime(BaseException):
    """The time is over; no `except Exception` of the block keeps it."""


def _over(_: int, __: FrameType | None) -> None:
    if _inside:  # else it fired as the block ended
        raise OverTime


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise OverTime where the block computes for longer."""
    global _inside
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getsignal(signal.SIGVTALRM) is not _over:
        signal.signal(signal.SIGVTALRM, _over)
    _inside = True
    signal.setitimer(signal.ITIMER_VIRTUAL, max(seconds, _LEAST_S))
    try:
        yield
    finally:
        _inside = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
