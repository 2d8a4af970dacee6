"""A bound on what a block of code computes, so that a reading that loops does not hang a process.

A clock of the process's own computing time ticks, and raises inside a block whose time is over;
what the block waits for does not count. A block's time begins at its first tick, and most have
none: to ask for the time at each beginning took two per cent of a request. The clock ticks on: what
it raises is lost where the block was just then in a `__del__` or a callback of the collector. It
ends when it ticks outside of a block: a request has dozens of them, and a timer for each took four
per cent of its time. It works in the main thread, where the API answers; elsewhere the block has no
bound. One call into C that takes long ends first.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from time import thread_time
from types import FrameType, TracebackType
from typing import Final

_TICK_S: Final = 0.02
_MAIN: Final = threading.main_thread().ident
_handles = False
_ticks = False
_left_s: float | None = None  # to the block at its beginning; None: outside of a block
_until_s: float | None = None  # by the main thread's own time; None: no tick has come in the block


class OverTime(BaseException):
    """The time is over; no `except Exception` of the block keeps it."""


class within:  # noqa: N801 - it reads as a statement
    """Raise OverTime where the block computes for longer than some seconds and up to two ticks."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        """Begin to count."""
        global _handles, _left_s, _ticks, _until_s
        if threading.get_ident() != _MAIN:
            return
        _until_s = thread_time() + self._seconds if self._seconds < _TICK_S else None
        _left_s = self._seconds
        if _ticks:
            return
        if not _handles:
            signal.signal(signal.SIGVTALRM, _tick)
            signal.siginterrupt(signal.SIGVTALRM, False)
            # The interpreter gives the handler up before its own end, which a tick would then be.
            atexit.register(_stop)
            os.register_at_fork(after_in_child=_forget)
            _handles = True
        _ticks = True
        signal.setitimer(signal.ITIMER_VIRTUAL, _TICK_S, _TICK_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Count no more."""
        global _left_s
        if threading.get_ident() == _MAIN:
            _left_s = None


_ENDING: Final = frozenset({within.__enter__.__code__, within.__exit__.__code__})


def _tick(_: int, frame: FrameType | None) -> None:
    global _until_s
    if _left_s is None:
        _stop()
        return
    if _until_s is None:
        _until_s = thread_time() + _left_s
    if thread_time() < _until_s:
        return
    # Where it comes as the block begins or ends, it must not keep the count from being ended.
    at = frame
    for _depth in range(3):  # what `__exit__` itself calls
        if at is None:
            break
        if at.f_code in _ENDING:
            return
        at = at.f_back
    raise OverTime


def _stop() -> None:
    """End the clock."""
    global _ticks
    _ticks = False
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _forget() -> None:
    """Forget the parent's clock, which a child does not inherit."""
    global _left_s, _ticks
    _ticks, _left_s = False, None
