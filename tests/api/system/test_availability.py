"""What a month's bits and counts amount to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from api.system.availability import figures

MONTH = ("2026-11", 1_793_491_200_000)
minutes = st.sets(st.integers(0, 99))


def bits(numbers: set[int]) -> bytes:
    """As SETBIT makes them."""
    made = bytearray(max(numbers, default=-8) // 8 + 1)
    for number in numbers:
        made[number // 8] |= 0x80 >> number % 8
    return bytes(made)


@given(served=minutes, failed=minutes, minute=st.integers(0, 99), known=st.booleans())
def test_a_minute_counts_where_somebody_served_and_no_look_failed(served, failed, minute, known):
    found = figures(*MONTH, minute, 0, 0, bits(served), bits(failed), is_known_before=known)
    first = 0 if known else min([minute, *served, *failed])
    lasted = list(range(first, minute))
    good = [each for each in lasted if each in served and each not in failed]
    assert found["minutes"] == len(lasted)
    if lasted:
        assert found["minutes_pct"] == round(100 * len(good) / len(lasted), 4)
    else:
        assert found["minutes_pct"] is None
    assert found["since_ms"] == MONTH[1] + first * 60_000


def test_answers_without_any_have_no_share():
    found = figures(*MONTH, 1, 0, 0, b"\x80", b"", is_known_before=False)
    assert (found["answers"], found["answers_pct"]) == (0, None)
    found = figures(*MONTH, 1, 8, 1, b"\x80", b"", is_known_before=False)
    assert (found["answers"], found["answers_pct"]) == (8, 87.5)
    assert found["target_pct"] == 99.7
