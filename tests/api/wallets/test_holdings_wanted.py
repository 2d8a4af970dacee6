"""Which holdings `min_value_usd` leaves out."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from api.wallets.holdings import Wanted

CENT_MICROS = 10_000
MOST_USD = 10**15  # as the parameter allows


@given(st.integers(1, MOST_USD * 100))
@example(403)
def test_a_holding_worth_exactly_the_least_is_listed(cents: int) -> None:
    wanted = Wanted(float(f"{cents // 100}.{cents % 100:02}"))
    assert wanted.lists(cents * CENT_MICROS)


@given(st.integers(1, 10**11))  # above, floats are coarser than a millionth
def test_a_holding_worth_a_millionth_less_is_not(cents: int) -> None:
    assert not Wanted(cents / 100).lists(cents * CENT_MICROS - 1)


def test_a_holding_without_a_price_is_listed_where_no_least_worth_is_asked() -> None:
    assert [Wanted(least).lists(None) for least in (None, 0.0, 1e-6)] == [True, True, False]
