"""A bound on what a block of code computes, so that a reading that loops does not hang a process.

A timer of the process's own computing time raises inside the block; what the block waits for does
not count. It fires repeatedly: what it raises is lost where the block was just then in a
`__del__` or a callback of the collector. It works in the main thread, where the API answers;
elsewhere the block has no bound. One call into C that takes long ends first.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Final

_LEAST_S: Final = 0.001  # 0 would switch the timer off
_AGAIN_S: Final = 0.02
_MAIN: Final = threading.main_thread().ident
_handles = False
_inside = False


class OverTime(BaseException):
    """The time is over; no `except Exception` of the block keeps it."""


class within:  # noqa: N801 - it reads as a statement
    """Raise OverTime where the block computes for longer than some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = max(seconds, _LEAST_S)

    def __enter__(self) -> None:
        """Start the timer."""
        global _handles, _inside
        if threading.get_ident() != _MAIN:
            return
        if not _handles:  # to ask for the handler takes longer than most blocks
            signal.signal(signal.SIGVTALRM, _over)
            _handles = True
        _inside = True
        signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds, _AGAIN_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the timer."""
        global _inside
        if threading.get_ident() == _MAIN:
            _inside = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


_ENDING: Final = frozenset({within.__enter__.__code__, within.__exit__.__code__})


def _over(_: int, frame: FrameType | None) -> None:
    # Where it fires as the block begins or ends, it must not keep the timer from being stopped.
    if not _inside:
        return
    at = frame
    for _depth in range(3):  # what `__exit__` itself calls
        if at is None:
            break
        if at.f_code in _ENDING:
            return
        at = at.f_back
    raise OverTime
