"""Faust's and aiokafka's log lines made bearable: no tracebacks, and each kind once in a while.

While a broker is away they write some forty lines a second, and what they call an error is
mostly an attempt that will be repeated.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

import structlog

log = structlog.get_logger(__name__)

EVERY_S: Final = 10.0
_LIBRARIES: Final = ("faust", "mode", "aiokafka", "asyncio")


class OncePerKind(logging.Filter):
    """Lets a library's line pass once in ten seconds, counted by its text before formatting."""

    def __init__(self) -> None:
        super().__init__()
        self._passed_at: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written; its traceback is not."""
        if record.name.partition(".")[0] not in _LIBRARIES:
            return True
        kind = (record.name, str(record.msg))
        now = time.monotonic()
        if now - self._passed_at.get(kind, -EVERY_S) < EVERY_S:
            return False
        self._passed_at[kind] = now
        if record.exc_info and (error := record.exc_info[1]) is not None:
            record.msg, record.args = f"{record.getMessage()}: {error!r}", ()
        record.exc_info = record.exc_text = record.stack_info = None
        return True


def quieten() -> None:
    """Apply it to this process, after `configure_logging`; threads that fail say so in one line."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(OncePerKind())
    threading.excepthook = _thread_failed


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    name = failed.thread.name if failed.thread else ""
    log.warning("a thread ended", thread=name, reason=repr(failed.exc_value))
