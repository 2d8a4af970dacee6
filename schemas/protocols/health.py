"""Health of a loan, the same way for all lenders: weighted collateral by weighted debt."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from schemas.protocols.contract import Asset, Health, Role

UNKNOWN = Health(None, None, None)

_Ratio = tuple[int, int]  # numerator and positive denominator
_NOTHING: Final[_Ratio] = (0, 1)


def health_of(assets: Iterable[Asset]) -> Health:
    """Return the health of supplies and borrows, all of whose figures must be known.

    Supplies count by price and weight, debts by price and weight: the `ltv` is weighted debt by
    plain collateral, so that it reaches `liquidation_ltv` where the health factor reaches 1.
    """
    # Sums of quotients that are not reduced: to reduce each takes longer than all the rest.
    collateral = secured = owed = _NOTHING
    for asset in assets:
        if asset.role not in (Role.SUPPLY, Role.BORROW):
            continue
        price = asset.oracle_usd if asset.health_usd is None else asset.health_usd
        if asset.amount_raw == 0:
            continue
        if (
            asset.amount_raw is None
            or asset.decimals is None
            or asset.weight is None
            or price is None
        ):
            return UNKNOWN
        worth = asset.amount_raw * price.numerator, 10**asset.decimals * price.denominator
        weighted = worth[0] * asset.weight.numerator, worth[1] * asset.weight.denominator
        if asset.role is Role.BORROW:
            owed = _sum(owed, weighted)
        else:
            collateral = _sum(collateral, worth)
            secured = _sum(secured, weighted)
    return Health(
        health_factor=_quotient(secured, owed),
        ltv=_quotient(owed, collateral),
        liquidation_ltv=_quotient(secured, collateral),
    )


def _sum(first: _Ratio, second: _Ratio) -> _Ratio:
    if first[1] == second[1]:
        return first[0] + second[0], first[1]
    return first[0] * second[1] + second[0] * first[1], first[1] * second[1]


def _quotient(dividend: _Ratio, divisor: _Ratio) -> Fraction | None:
    """Return a quotient, reduced; None where the divisor is 0."""
    if not divisor[0]:
        return None
    return Fraction(dividend[0] * divisor[1], dividend[1] * divisor[0])
