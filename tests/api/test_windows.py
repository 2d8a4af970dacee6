"""Ranges of time: defaults by the chain's time, limits in words."""

from __future__ import annotations

from datetime import date

import pytest
from pydantic import TypeAdapter, ValidationError

from api.errors import INVALID_PARAMETER, Problem
from api.windows import DAY_MS, Day, Days, Window, days, window

NOW_MS = 1_785_499_140_000  # 2026-07-31
day = TypeAdapter(Day).validate_python


@pytest.mark.parametrize("text", ["1970-01-01", "2024-02-29", "2149-06-06"])
def test_days(text):
    assert str(day(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "2025-02-29", "2025-2-1", "20250201", "2025-W05-6", "1969-12-31", "2149-06-07"),
        *("9999-12-31", "0000-00-00", "2025-01-01T00:00:00", " 2025-01-01", "2025-01-01\n"),
        *("1700000000", "\u0662025-01-01", "\uff12025-01-01", "-025-01-01", "2025-01-01'--"),
    ],
)
def test_what_is_no_day(text):
    with pytest.raises(ValidationError, match="a date YYYY-MM-DD from 1970-01-01 to 2149-06-06"):
        day(text)


def test_days_end_with_the_chains_last_block():
    assert days(None, None, NOW_MS) == Days(date(2026, 7, 2), date(2026, 7, 31))
    assert days(None, date(2026, 1, 31), NOW_MS) == Days(date(2026, 1, 2), date(2026, 1, 31))
    assert days(date(2026, 7, 31), None, NOW_MS) == Days(date(2026, 7, 31), date(2026, 7, 31))
    assert days(None, None, 0) == Days(date(1970, 1, 1), date(1970, 1, 1))


def test_at_most_366_days():
    leap = date(2024, 1, 1), date(2024, 12, 31)
    assert days(*leap, NOW_MS) == Days(*leap)
    with pytest.raises(Problem, match="are 367 days; at most 366") as refused:
        days(date(2024, 1, 1), date(2025, 1, 1), NOW_MS)
    assert refused.value.kind is INVALID_PARAMETER
    with pytest.raises(Problem, match="from: 2026-08-01 is after 2026-07-31"):
        days(date(2026, 8, 1), None, NOW_MS)


def test_a_window_ends_with_the_last_block_which_is_in_it():
    assert window(None, None, NOW_MS, DAY_MS, 9 * DAY_MS) == Window(NOW_MS + 1 - DAY_MS, NOW_MS + 1)
    assert window(None, 5, NOW_MS, DAY_MS, DAY_MS) == Window(0, 5)
    assert window(5, 6, NOW_MS, DAY_MS, DAY_MS) == Window(5, 6)


def test_a_window_is_limited():
    assert window(7, 7 + DAY_MS, NOW_MS, 1, DAY_MS) == Window(7, 7 + DAY_MS)
    with pytest.raises(Problem, match=r"at most 86400000 ms \(1 days\)"):
        window(6, 7 + DAY_MS, NOW_MS, 1, DAY_MS)
    for from_ms, to_ms in ((5, 5), (6, 5), (NOW_MS + 1, None), (0, 0)):
        with pytest.raises(Problem, match="is not before"):
            window(from_ms, to_ms, NOW_MS, 1, DAY_MS)
