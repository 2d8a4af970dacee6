"""From when on swaps are kept: the tape's beginning, and what their time to live takes."""

from __future__ import annotations

import pytest

from api.history.swaps_kept import kept_from
from schemas.times import DAY_MS, HOUR_MS

NOW_MS = 20_000 * DAY_MS
BEGIN_MS = NOW_MS - 100 * DAY_MS + 5


@pytest.mark.parametrize(
    ("begin_ms", "oldest_ms", "made_ms", "days", "kept_ms"),
    [
        (0, 0, NOW_MS, 90, None),
        (BEGIN_MS, 0, BEGIN_MS, 0, BEGIN_MS),
        (BEGIN_MS, BEGIN_MS + 7, BEGIN_MS, 0, BEGIN_MS),
        (BEGIN_MS, BEGIN_MS + 7, BEGIN_MS, 90, NOW_MS - 90 * DAY_MS),
        (BEGIN_MS, BEGIN_MS + 7, BEGIN_MS, 101, BEGIN_MS),
        # A shorter time took what a longer one would keep.
        (BEGIN_MS, BEGIN_MS + 70 * DAY_MS, BEGIN_MS, 0, BEGIN_MS + 70 * DAY_MS),
        (BEGIN_MS, BEGIN_MS + 70 * DAY_MS, BEGIN_MS, 90, BEGIN_MS + 70 * DAY_MS),
        # Blocks of long ago that were written today: from a recording.
        (BEGIN_MS, BEGIN_MS + 7, NOW_MS - DAY_MS, 90, BEGIN_MS),
        (BEGIN_MS, BEGIN_MS + 7, NOW_MS - 90 * DAY_MS, 90, NOW_MS - 90 * DAY_MS),
    ],
)
def test_swaps_are_kept_from(
    begin_ms: int, oldest_ms: int, made_ms: int, days: int, kept_ms: int | None
) -> None:
    assert kept_from(begin_ms, oldest_ms, made_ms, NOW_MS, days) == kept_ms


def test_the_time_of_what_expires_is_the_same_for_an_hour() -> None:
    def expired(now_ms: int) -> int | None:
        return kept_from(BEGIN_MS, BEGIN_MS, BEGIN_MS, now_ms, 90)

    known_ms = NOW_MS - 90 * DAY_MS
    assert expired(NOW_MS - HOUR_MS + 1) == known_ms
    assert expired(NOW_MS) == known_ms
    assert expired(NOW_MS + 1) == known_ms + HOUR_MS  # what has expired is not said to be kept
