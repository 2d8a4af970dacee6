"""Ending as by Ctrl-C, whatever signal ends a command."""

from __future__ import annotations

import signal
from types import FrameType


def end_as_by_ctrl_c() -> None:
    """Let SIGTERM and SIGHUP interrupt this process as Ctrl-C does; one that is ignored stays so.

    Python ends at once by these signals, and what a command has started would go on without it.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)


def _interrupt(_: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:  # a shell has a command in the background ignore Ctrl-C
        raise KeyboardInterrupt
