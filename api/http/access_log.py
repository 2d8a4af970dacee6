"""A line a request: who asked for what, how it ended, how long it took. Never a key.

Of a request's query nothing is logged, and of its path only what can be no key. Lines look like
those of `infra.telemetry`, but are made and written some at a time: the processors of a logger
cost as much as half an answer does.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

import orjson
import structlog

from infra.settings import Settings

FLUSH_EVERY_S: Final = 0.1
FLUSH_LINES: Final = 1_000

# Letters and digits, as addresses have; a key has an underscore, and is longer.
_PLAIN: Final = re.compile(r"(?:/[A-Za-z0-9.-]{0,44}){1,8}")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9.-]{0,44}")
_MOST_SEGMENTS: Final = 8


def shown(path: str) -> str:
    """Return a path as it may be logged: what could be a key, or is an unknown path, is a star."""
    if _PLAIN.fullmatch(path):
        return path
    segments = path.split("/", _MOST_SEGMENTS + 1)[: _MOST_SEGMENTS + 1]
    return "/".join(part if _SEGMENT.fullmatch(part) else "*" for part in segments)


class AccessLog:
    """Writes the lines to stderr, a tenth of a second later at most."""

    def __init__(self, settings: Settings, stream: TextIO | None = None) -> None:
        self.is_on = logging.getLevelNamesMapping()[settings.log_level.upper()] <= logging.INFO
        self._as_json = settings.log_format == "json"
        self._stream = stream or sys.stderr
        self._lines: list[str] = []
        self._flush: asyncio.TimerHandle | None = None

    def write(
        self,
        *,
        method: str,
        path: str,
        status: int,
        duration_ms: float,
        request_id: str,
        key_id: str | None,
        client: str,
    ) -> None:
        """Take a line; called within the event loop."""
        at = f"{datetime.now(UTC).replace(tzinfo=None).isoformat()}Z"
        path, duration_ms = shown(path), round(duration_ms, 2)
        if self._as_json:
            fields = {
                "method": method,
                "path": path,
                "status": status,
                "duration_ms": duration_ms,
                "request_id": request_id,
                "key": key_id,
                "client": client,
                "event": "request",
                "level": "info",
                "role": "api",
                "timestamp": at,
            }
            line = orjson.dumps(fields).decode()
        else:
            line = (
                f"{at} [info     ] request method={method} path={path} status={status} "
                f"duration_ms={duration_ms} request_id={request_id} key={key_id} "
                f"client={client} role=api"
            )
        self._lines.append(line)
        if len(self._lines) >= FLUSH_LINES:
            self.flush()
        elif self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self.flush)

    def flush(self) -> None:
        """Write what is waiting."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        lines, self._lines = self._lines, []
        if not lines:
            return
        try:
            self._stream.write("\n".join(lines) + "\n")
            self._stream.flush()
        except OSError as error:  # nobody reads it, or the disk is full: answers matter more
            structlog.get_logger(__name__).debug("access log not written", reason=str(error))
