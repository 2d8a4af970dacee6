"""From when on swaps are kept: the tape's beginning, and what their time to live takes."""

from __future__ import annotations

import pytest

from api.history.swaps_kept import kept_from
from schemas.times import DAY_MS

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
