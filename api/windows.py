"""Ranges of time that callers ask for: always bounded, and by the chain's time, not the clock's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

from fastapi import Query
from pydantic import BeforeValidator, WithJsonSchema

from api.errors import INVALID_PARAMETER, Problem

DAY_MS: Final = 86_400_000
MAX_MS: Final = 10_000_000_000_000  # in the year 2286; ClickHouse ends in 2299
LONGEST_DAYS: Final = 366
DEFAULT_DAYS: Final = 30
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIRST_DAY: Final = date(1970, 1, 1)  # what ClickHouse's Date holds
_LAST_DAY: Final = date(2149, 6, 6)


def _day(value: object) -> date | None:
    """Return the date of a text; raises ValueError, which says what is accepted."""
    if value is None:
        return None
    text = str(value)
    try:
        day = date.fromisoformat(text) if _DAY.fullmatch(text) else None  # weeks are ISO as well
    except ValueError:
        day = None
    if day is None or not _FIRST_DAY <= day <= _LAST_DAY:
        raise ValueError(f"a date YYYY-MM-DD from {_FIRST_DAY} to {_LAST_DAY} is expected")
    return day


_DAY_SCHEMA: Final = {"type": "string", "format": "date"}
Day = Annotated[date | None, BeforeValidator(_day), WithJsonSchema(_DAY_SCHEMA)]
FromDay = Annotated[
    Day,
    Query(
        alias="from",
        description=f"First day, UTC. Without it the {DEFAULT_DAYS} days that end with `to`; "
        f"at most {LONGEST_DAYS} days",
        examples=["2026-07-02"],
    ),
]
ToDay = Annotated[
    Day,
    Query(
        alias="to",
        description="Last day, UTC. Without it the day of the chain's last block",
        examples=["2026-07-31"],
    ),
]


@dataclass(frozen=True, slots=True)
class Days:
    """A range of days, both ends included."""

    first: date
    last: date


def days(first: date | None, last: date | None, now_ms: int) -> Days:
    """Return the days asked for; raises Problem."""
    last = last or datetime.fromtimestamp(now_ms / 1000, UTC).date()
    first = first or max(_FIRST_DAY, last - timedelta(days=DEFAULT_DAYS - 1))
    if first > last:
        raise Problem(INVALID_PARAMETER, f"from: {first} is after {last}, the last day")
    if (last - first).days >= LONGEST_DAYS:
        raise Problem(
            INVALID_PARAMETER,
            f"from: {first} to {last} are {(last - first).days + 1} days; "
            f"at most {LONGEST_DAYS} are answered at once",
        )
    return Days(first, last)


@dataclass(frozen=True, slots=True)
class Window:
    """A range of time; `to_ms` is not in it."""

    from_ms: int
    to_ms: int


def window(
    from_ms: int | None, to_ms: int | None, now_ms: int, default_ms: int, longest_ms: int
) -> Window:
    """Return the range asked for, up to and with the chain's last block; raises Problem."""
    to_ms = now_ms + 1 if to_ms is None else to_ms
    from_ms = max(0, to_ms - default_ms) if from_ms is None else from_ms
    if from_ms >= to_ms:
        raise Problem(INVALID_PARAMETER, f"from_ms: {from_ms} is not before {to_ms}, the end")
    if to_ms - from_ms > longest_ms:
        raise Problem(
            INVALID_PARAMETER,
            f"from_ms: {from_ms} to {to_ms} are {to_ms - from_ms} ms; at most {longest_ms} ms "
            f"({longest_ms // DAY_MS} days) are answered at once",
        )
    return Window(from_ms, to_ms)
