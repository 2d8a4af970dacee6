"""Liquidity between two prices, against exact fractions."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols.math.concentrated import (
    Growth,
    earned_raw,
    grown,
    growth_inside,
    owed_raw,
    owed_raw_of_each,
    price,
    price_range,
    token_amounts,
)
from schemas.protocols.math.ticks import (
    MAX_TICK,
    MIN_TICK,
    array_start,
    orca_sqrt_price_x64,
    raydium_sqrt_price_x64,
)
from tests.support.exploring import examples

U128 = st.integers(0, 2**128 - 1)
TICKS = st.integers(MIN_TICK, MAX_TICK)
A, B = bytes([1]) * 32, bytes([2]) * 32


@given(TICKS)
@examples(60)
def test_both_programs_are_near_the_exact_price_of_a_tick(tick: int) -> None:
    exact = Fraction(10001, 10000) ** tick
    for found in (orca_sqrt_price_x64(tick), raydium_sqrt_price_x64(tick)):
        assert abs(Fraction(found, 2**64) ** 2 / exact - 1) < Fraction(1, 10**9) + Fraction(
            3, found
        )


@given(st.integers(MIN_TICK, MAX_TICK - 1))
@examples(300)
def test_prices_ascend_with_ticks(tick: int) -> None:
    for root in (orca_sqrt_price_x64, raydium_sqrt_price_x64):
        assert root(tick) < root(tick + 1)


def test_the_programs_own_bounds() -> None:
    """Their constants MIN_SQRT_PRICE_X64 and MAX_SQRT_PRICE_X64: they differ at the lower end."""
    assert orca_sqrt_price_x64(MIN_TICK) == 4295048016
    assert orca_sqrt_price_x64(MAX_TICK) == 79226673515401279992447579055
    assert raydium_sqrt_price_x64(MIN_TICK) == 4295048016
    assert raydium_sqrt_price_x64(MAX_TICK) == 79226673521066979257578248091
    for root in (orca_sqrt_price_x64, raydium_sqrt_price_x64):
        assert root(0) == 2**64
        for tick in (MIN_TICK - 1, MAX_TICK + 1):
            with pytest.raises(ValueError, match="beyond"):
                root(tick)


def test_orca_multiplies_powers_of_the_root_of_1_0001_that_are_rounded_down() -> None:
    """A power for each bit of a tick; the last digits of a power show in high ticks only."""
    with localcontext(prec=100):
        root = Decimal("1.0001").sqrt()
        ups = [int(root ** (2**n) * 2**96) for n in range(19)]
        downs = [int(2**64 / root ** (2**n)) for n in range(19)]
    powers = [2**n for n in range(19)]
    highest = (*range(392_216, 393_216), *range(MAX_TICK - 1_000, MAX_TICK + 1))
    for tick in (*powers, *highest):
        up, down = 2**96, 2**64
        for n in range(19):
            if tick & 2**n:
                up, down = up * ups[n] // 2**96, down * downs[n] // 2**64
        assert orca_sqrt_price_x64(tick) == up // 2**32
        assert orca_sqrt_price_x64(-tick) == down


@pytest.mark.parametrize(
    ("tick", "spacing", "start"),
    [(120, 3, 0), (-120, 3, -180), (-1002, 30, -1800), (-600, 10, -600), (MIN_TICK, 1, -443640)],
)
def test_first_ticks_of_arrays_of_sixty(tick: int, spacing: int, start: int) -> None:
    """The cases of Raydium's own test."""
    assert array_start(tick, spacing, 60) == start


@given(U128, st.tuples(TICKS, TICKS, TICKS))
@examples(300)
def test_amounts_are_the_exact_ones_rounded_down(
    liquidity: int, ticks: tuple[int, int, int]
) -> None:
    lower, now, upper = sorted(orca_sqrt_price_x64(tick) for tick in ticks)
    below, inside, above = (token_amounts(liquidity, at, lower, upper) for at in (1, now, 2**127))
    exact_a = liquidity * (Fraction(2**64, now) - Fraction(2**64, upper))
    exact_b = liquidity * Fraction(now - lower, 2**64)
    assert inside == (exact_a // 1, exact_b // 1)
    assert below[1] == above[0] == 0
    assert below[0] >= inside[0]
    assert above[1] >= inside[1]


@given(U128, U128, U128, st.integers(-9, 9), U128)
@examples(300)
def test_growth_below_inside_and_above_is_the_whole(
    whole: int, lower: int, upper: int, current: int, checkpoint: int
) -> None:
    inside = growth_inside(current, (-3, 3), whole, lower, upper)
    below = lower if current >= -3 else whole - lower
    above = upper if current < 3 else whole - upper
    assert (below + inside + above - whole) % 2**128 == 0
    assert earned_raw(2**64, inside, inside) == 0
    delta = (inside - checkpoint) % 2**128
    assert earned_raw(2**64, inside, checkpoint) == (delta if delta < 2**64 else 0)


def test_growth_wraps_and_what_overflows_is_lost() -> None:
    assert grown(2**128 - 1, 10, 2, 5) == 3
    assert grown(7, 2**127, 2, 5) == 7
    assert grown(7, 10, 2, 0) == 7
    assert earned_raw(2**64, 5, 2**128 - 5) == 10
    assert earned_raw(2**127, 2, 0) == 0


# Growths are near each other or anywhere; what is owed is u64.
NEAR = st.one_of(U128, st.integers(0, 2**70), st.integers(2**128 - 2**70, 2**128 - 1))
GROWTHS = st.builds(Growth, NEAR, NEAR, NEAR, NEAR, st.integers(0, 2**64 - 1))


@given(
    st.one_of(st.just(0), st.integers(0, 2**40), U128),
    st.integers(-3, 3),
    st.sampled_from([(-2, 2), (-1, 0), (0, 1)]),
    st.lists(GROWTHS, max_size=5),
)
@examples(500)
def test_what_is_owed_of_several_tokens_is_what_is_owed_of_each(
    liquidity: int, current: int, ticks: tuple[int, int], growths: list[Growth]
) -> None:
    found = owed_raw_of_each(liquidity, current, ticks, growths)
    assert found == [owed_raw(liquidity, current, ticks, each) for each in growths]


def test_a_price_is_of_a_whole_token() -> None:
    assert price(2**64, 9, 6) == 1000
    assert price(2**65, 6, 9) == Fraction(4, 1000)
    assert price(2**64, None, 6) is None
    assert price(2**64, 6, None) is None


def test_a_range_earns_from_its_lower_tick_to_before_its_upper() -> None:
    for current, is_in in ((-11, False), (-10, True), (19, True), (20, False)):
        found = price_range((A, B), (6, 6), (-10, 20), current, (2**63, 2**65, 2**64))
        assert found.is_in_range is is_in
        assert (found.lower_index, found.upper_index, found.current_index) == (-10, 19, current)
        assert (found.lower, found.upper, found.current) == (
            Fraction(1, 4),
            Fraction(4),
            Fraction(1),
        )
        assert (found.base, found.quote) == (A, B)


@given(st.integers(1, 2**128 - 1), st.integers(0, 255), st.integers(0, 255))
@examples(200)
def test_a_price_is_the_square_in_whole_tokens(root: int, of_a: int, of_b: int) -> None:
    exact = Fraction(root, 2**64) ** 2 * Fraction(10) ** (of_a - of_b)
    assert price(root, of_a, of_b) == exact
