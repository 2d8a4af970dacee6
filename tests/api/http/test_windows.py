"""Ranges of time: defaults by the chain's time, limits in words."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.errors import INVALID_PARAMETER, Problem
from api.http.windows import MAX_MS, Days, Window, days, end_ms, first_ms, window
from schemas.times import DAY_MS

NOW_MS = 1_785_499_140_000  # 2026-07-31
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(text):
    """The milliseconds of a date's midnight, UTC."""
    return (date.fromisoformat(text) - EPOCH.date()).days * DAY_MS


@given(st.dates(date(1970, 1, 1), date(2149, 6, 6)))
def test_a_date_is_its_whole_day(day):
    assert first_ms(str(day)) == at(str(day))
    assert end_ms(str(day)) == at(str(day)) + DAY_MS


@given(st.integers(0, MAX_MS))
def test_milliseconds_are_a_moment(ms):
    for value in (ms, str(ms)):
        assert first_ms(value) == end_ms(value) == ms


OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(
    lambda minutes: timezone(timedelta(minutes=minutes))
)


@given(st.integers(DAY_MS, MAX_MS - DAY_MS), st.none() | OFFSETS, st.sampled_from("sml"))
def test_a_time_is_the_same_moment_in_every_offset_and_precision(ms, offset, precision):
    if precision == "s":
        ms -= ms % 1000
    time = EPOCH + timedelta(milliseconds=ms)
    if offset is None:
        text = time.replace(tzinfo=None).isoformat()  # without an offset it is UTC
    else:
        text = time.astimezone(offset).isoformat()
    if precision == "l" and "." in text:
        text = text.replace(".", ".", 1)[:23] + "999999" + text[26:]  # below a millisecond: down
    assert first_ms(text) == end_ms(text) == ms
    if offset is None:
        assert first_ms(f"{text}Z") == ms


@given(st.text(max_size=40))
def test_any_text_is_a_moment_or_is_refused_in_the_same_words(text):
    try:
        begin, end = first_ms(text), end_ms(text)
    except ValueError:
        with pytest.raises(
            ValueError, match=r"^must be a date \(YYYY-MM-DD\), an ISO 8601 time or"
        ):
            end_ms(text)
    else:
        assert 0 <= begin <= end <= MAX_MS


@given(st.integers(0, MAX_MS), st.integers(0, MAX_MS), st.integers(0, NOW_MS))
def test_days_are_those_that_the_range_touches(one, other, now_ms):
    begin, end = min(one, other), max(one, other)
    if begin == end or (end - 1) // DAY_MS - begin // DAY_MS >= 366:
        with pytest.raises(Problem, match=r"must be before|at most 366 days"):
            days(begin, end, now_ms)
    else:
        found = days(begin, end, now_ms)
        assert at(str(found.first)) <= begin < at(str(found.first)) + DAY_MS
        assert at(str(found.last)) < end <= at(str(found.last)) + DAY_MS


@pytest.mark.parametrize(
    "text",
    [
        *("", "2025-02-29", "2025-2-1", "20250201000000", "2025-W05-6", "1969-12-31", "2149-06-07"),
        *("9999-12-31", "0000-00-00", "-025-01-01", " 2025-01-01", "2025-01-01\n", "+5", "-1"),
        *(
            "\u0662025-01-01",
            "\uff12025-01-01",
            "\uff15",
            "2025-01-01'--",
            "1e3",
            "5.5",
            "yesterday",
        ),
        *("2025-01-01T", "2025-01-01T24:00", "2025-01-01 10:00", "2025-01-01T10:00:00 02:00"),
        *("2025-01-01T10", "2025-01-01T10:00:60Z", "2025-01-01T10:00:00+2500", "2025-01-01t10:00z"),
        *("1969-12-31T23:59:59Z", "2149-06-07T00:00:01Z", "0001-01-01T00:00:00+23:59"),
        *("yesterday", str(MAX_MS + 1), "9999-12-31T23:59:59-23:59"),
    ],
)
def test_what_is_not_a_moment(text):
    for read in (first_ms, end_ms):
        with pytest.raises(ValueError, match="from 1970-01-01 to 2149-06-06"):
            read(text)


def test_days_end_with_the_chains_last_block():
    assert days(None, None, NOW_MS) == Days(date(2026, 7, 2), date(2026, 7, 31))
    january = at("2026-01-31") + DAY_MS
    assert days(None, january, NOW_MS) == Days(date(2026, 1, 2), date(2026, 1, 31))
    today = Days(date(2026, 7, 31), date(2026, 7, 31))
    assert days(at("2026-07-31"), None, NOW_MS) == today
    assert days(None, None, 0) == Days(date(1970, 1, 1), date(1970, 1, 1))


def test_at_most_366_days():
    leap = Days(date(2024, 1, 1), date(2024, 12, 31))
    assert days(at("2024-01-01"), at("2025-01-01"), NOW_MS) == leap
    with pytest.raises(Problem, match="must span at most 366 days, got 367") as refused:
        days(at("2024-01-01"), at("2025-01-01") + 1, NOW_MS)
    assert refused.value.kind is INVALID_PARAMETER
    words = "`from` must be before the end of the range, 2026-07-31T11:59:00.001Z, got 2026-08-01T"
    with pytest.raises(Problem, match=words):
        days(at("2026-08-01"), None, NOW_MS)


def test_a_window_ends_with_the_last_block_which_is_in_it():
    assert window(None, None, NOW_MS, DAY_MS, 9 * DAY_MS) == Window(NOW_MS + 1 - DAY_MS, NOW_MS + 1)
    assert window(None, 5, NOW_MS, DAY_MS, DAY_MS) == Window(0, 5)
    assert window(5, 6, NOW_MS, DAY_MS, DAY_MS) == Window(5, 6)


def test_a_window_is_limited():
    assert window(7, 7 + DAY_MS, NOW_MS, 1, DAY_MS) == Window(7, 7 + DAY_MS)
    with pytest.raises(Problem, match=r"at most 86400000 ms \(1 days\)"):
        window(6, 7 + DAY_MS, NOW_MS, 1, DAY_MS)
    for from_ms, to_ms in ((5, 5), (6, 5), (NOW_MS + 1, None), (0, 0)):
        with pytest.raises(Problem, match="`from` must be before the end of the range"):
            window(from_ms, to_ms, NOW_MS, 1, DAY_MS)
