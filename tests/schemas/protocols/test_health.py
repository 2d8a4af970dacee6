"""Health of a loan, against sums of reduced fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols.contract import Asset, Health, Role
from schemas.protocols.health import UNKNOWN, health_of
from tests.support.exploring import examples

MINT = bytes(32)
RATIOS = st.fractions(min_value=-3, max_value=10**6, max_denominator=2**48)
ASSETS = st.lists(
    st.builds(
        Asset,
        st.sampled_from(Role),
        st.just(MINT),
        st.integers(0, 2**64 - 1),
        st.integers(0, 18),
        RATIOS,
        st.none() | RATIOS,
        RATIOS,
    ),
    max_size=6,
)


def clear(assets: Sequence[Asset]) -> Health:
    collateral = secured = owed = Fraction(0)
    for asset in assets:
        if asset.role in (Role.SUPPLY, Role.BORROW) and asset.amount_raw:
            price = asset.oracle_usd if asset.health_usd is None else asset.health_usd
            assert asset.decimals is not None
            assert price is not None
            assert asset.weight is not None
            value = Fraction(asset.amount_raw, 10**asset.decimals) * price
            if asset.role is Role.BORROW:
                owed += value * asset.weight
            else:
                collateral += value
                secured += value * asset.weight
    return Health(
        health_factor=secured / owed if owed else None,
        ltv=owed / collateral if collateral else None,
        liquidation_ltv=secured / collateral if collateral else None,
    )


@given(ASSETS)
@examples(300)
def test_health_is_the_quotient_of_the_exact_sums(assets: list[Asset]) -> None:
    assert health_of(assets) == clear(assets)


def test_health_is_not_known_without_a_price() -> None:
    known = Asset(Role.SUPPLY, MINT, 10, 0, Fraction(1), None, Fraction(1, 2))
    unpriced = Asset(Role.BORROW, MINT, 1, 0, None, None, Fraction(2))
    assert health_of([known, unpriced]) == UNKNOWN
    unpriced.amount_raw = 0
    assert health_of([known, unpriced]) == Health(None, Fraction(0), Fraction(1, 2))
