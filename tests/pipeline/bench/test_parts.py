"""Which series of part counts the bench calls growing."""

import pytest

from pipeline.bench.parts import growing, slope_per_minute


def test_parts_that_are_merged_repeatedly_do_not_grow():
    assert not growing([1, 40, 3, 35, 2, 41] * 20)
    assert not growing([0] * 30 + [20] * 60)  # the start is not what counts


def test_parts_that_pile_up_grow():
    assert growing([2 * n for n in range(90)])
    assert growing([5] * 60 + [300] * 30)


def test_a_short_series_says_nothing():
    assert not growing([])
    assert not growing([1, 900])
    assert slope_per_minute([0.0], [3]) == 0.0


def test_a_slope_is_that_of_the_later_half():
    seconds = [float(n) for n in range(120)]
    parts = [500 - 5 * n if n < 60 else 10 + n // 10 for n in range(120)]
    assert slope_per_minute(seconds, parts) == pytest.approx(6, rel=0.05)
