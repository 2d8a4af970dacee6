"""Ranges of time in queries: one way to write a moment, one way to bound a range.

A moment is a date, an ISO 8601 time, or milliseconds since 1970. A date is its whole day (UTC): as
`from` its first millisecond, as `to` its last. Times without an offset are UTC. Defaults follow the
chain's last block, not the clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from api.http.errors import INVALID_PARAMETER, Problem
from schemas.times import DAY_MS

MAX_MS: Final = 65_536 * DAY_MS  # ClickHouse's Date has 16 bits
LONGEST_DAYS: Final = 366
DEFAULT_DAYS: Final = 30

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = re.compile(r"[0-9]{1,13}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME: Final = re.compile(
    _DATE.pattern + r"T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
ACCEPTED: Final = (
    "a date (YYYY-MM-DD), an ISO 8601 time or milliseconds since 1970, "
    "from 1970-01-01 to 2149-06-06"
)


def first_ms(value: object) -> int | None:
    """Return the first millisecond of a range from its `from`; raises ValueError."""
    return None if value is None else _moment(str(value))[0]


def end_ms(value: object) -> int | None:
    """Return the first millisecond after a range from its `to`; raises ValueError."""
    return None if value is None else _moment(str(value))[1]


def _moment(text: str) -> tuple[int, int]:
    """Return where a moment begins and ends; both are equal but for a date."""
    try:
        if _MS.fullmatch(text):
            begin_ms = stop_ms = int(text)
        elif _DATE.fullmatch(text):
            begin_ms = _ms(datetime.fromisoformat(text))
            stop_ms = begin_ms + DAY_MS
        elif _TIME.fullmatch(text):
            begin_ms = stop_ms = _ms(datetime.fromisoformat(text))
        else:
            raise ValueError
        if not 0 <= begin_ms <= stop_ms <= MAX_MS:
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(f"must be {ACCEPTED}") from None
    return begin_ms, stop_ms


def _ms(time: datetime) -> int:
    """Return milliseconds since 1970, rounded down; without an offset a time is UTC."""
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Days:
    """A range of days, both ends included."""

    first: date
    last: date


def days(from_ms: int | None, to_ms: int | None, now_ms: int) -> Days:
    """Return the days that a range touches, by default the last 30; raises Problem."""
    end = now_ms + 1 if to_ms is None else to_ms
    if (from_ms or 0) >= end:
        raise backwards(from_ms or 0, end)
    last = (end - 1) // DAY_MS
    first = max(0, last - DEFAULT_DAYS + 1) if from_ms is None else from_ms // DAY_MS
    if last - first >= LONGEST_DAYS:
        raise Problem(
            INVALID_PARAMETER,
            f"`from` and `to` must span at most {LONGEST_DAYS} days, got {last - first + 1}",
        )
    return Days(*(date.fromordinal(_EPOCH.toordinal() + day) for day in (first, last)))


@dataclass(frozen=True, slots=True)
class Window:
    """A range of time; `to_ms` is not in it."""

    from_ms: int
    to_ms: int


def window(
    from_ms: int | None, to_ms: int | None, now_ms: int, default_ms: int, longest_ms: int
) -> Window:
    """Return a range of time, by default up to and with the chain's last block; raises Problem."""
    to_ms = now_ms + 1 if to_ms is None else to_ms
    from_ms = max(0, to_ms - default_ms) if from_ms is None else from_ms
    if from_ms >= to_ms:
        raise backwards(from_ms, to_ms)
    if to_ms - from_ms > longest_ms:
        raise Problem(
            INVALID_PARAMETER,
            f"`from` and `to` must span at most {longest_ms} ms "
            f"({longest_ms // DAY_MS} days), got {to_ms - from_ms} ms",
        )
    return Window(from_ms, to_ms)


def backwards(from_ms: int, end_ms: int) -> Problem:
    """Return the problem of a range that ends before it begins, or is empty."""
    return Problem(
        INVALID_PARAMETER,
        f"`from` must be before the end of the range, {_shown(end_ms)}, got {_shown(from_ms)}",
    )


def _shown(ms: int) -> str:
    return f"{(_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec='milliseconds')[:-6]}Z"
