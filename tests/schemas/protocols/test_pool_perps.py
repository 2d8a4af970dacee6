"""Arithmetic of bets against a pool, against fractions."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.protocols.contract import Role
from schemas.protocols.pool_perps import (
    MICROS,
    SIDES,
    Side,
    Token,
    gain_of,
    lines,
    liquidation_price,
    price_of,
)
from tests.support.exploring import examples

MINT = bytes([7]) * 32
U64 = st.integers(0, 2**64 - 1)
PRICES = st.fractions(min_value=Fraction(1, 10**12), max_value=10**12)


@given(U64, st.integers(-40, 20))
@examples(100)
def test_a_price_is_its_amount_by_a_power_of_ten(amount: int, exponent: int) -> None:
    price = price_of(amount, exponent)
    if amount and -30 <= exponent <= 12:
        assert price == amount * Fraction(10) ** exponent
    else:
        assert price is None


@given(U64, U64, U64, st.integers(0, 30), PRICES)
@examples(100)
def test_what_is_paid_is_rounded_down_and_what_is_owed_up(
    collateral: int, gain: int, owed: int, decimals: int, price: Fraction
) -> None:
    def exact(micros: int) -> Fraction:
        return micros * 10**decimals / (price * MICROS)

    found = lines(Token(MINT, decimals, price, price), collateral, gain, (owed,))
    expected = [(Role.SUPPLY, floor(exact(collateral)))]
    expected += [(Role.PENDING, floor(exact(gain)))] if gain else []
    left = sum(amount for _, amount in expected)
    expected += [(Role.BORROW, min(ceil(exact(owed)), left))] if owed else []
    assert [(each.role, each.amount_raw) for each in found] == expected


@pytest.mark.parametrize("lost", [1, 7])
def test_what_is_lost_is_owed_and_is_no_gain(lost: int) -> None:
    found = lines(Token(MINT, 6, Fraction(1), Fraction(1)), 10, -lost, (2,))
    assert [(each.role, each.amount_raw) for each in found] == [
        (Role.SUPPLY, 10),
        (Role.BORROW, lost),
        (Role.BORROW, 2),
    ]


@given(
    st.sampled_from([*SIDES.values()]),
    st.integers(1, 2**64 - 1),
    st.integers(1, 2**64 - 1),
    st.integers(-(2**64), 2**64),
)
@example("long", 1, 5, -1)
@example("short", 1, 5, -1)
@examples(100)
def test_at_its_liquidation_price_a_bet_has_lost_what_it_may(
    side: Side, size: int, entry: int, left: int
) -> None:
    price = liquidation_price(side, size, entry, left)
    lost = -gain_of(side, size, entry, price or 0)
    if price is None:  # also at nothing it has not lost more
        assert 0 < lost <= left if left >= 0 else left <= lost < 0
        return
    assert price > 0
    of_one = Fraction(size, entry)  # what it loses where the price moves by one
    assert 0 <= lost <= left < lost + of_one if left >= 0 else lost - of_one < left <= lost <= 0
