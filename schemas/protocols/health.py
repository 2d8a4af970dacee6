"""Health of a loan, the same way for all lenders: weighted collateral by weighted debt."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from schemas.protocols.contract import Asset, Health, Role

UNKNOWN = Health(None, None, None)

_SUPPLY: Final = Role.SUPPLY
_BORROW: Final = Role.BORROW

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
        is_borrow = asset.role is _BORROW
        if not is_borrow and asset.role is not _SUPPLY:
            continue
        raw, decimals, weight = asset.amount_raw, asset.decimals, asset.weight
        price = asset.oracle_usd if asset.health_usd is None else asset.health_usd
        if raw == 0:
            continue
        if raw is None or decimals is None or weight is None or price is None:
            return UNKNOWN
        over, under = price.as_integer_ratio()
        weighs, by = weight.as_integer_ratio()
        over, under = raw * over, 10**decimals * under
        weighted = over * weighs, under * by
        if is_borrow:
            owed = _sum(owed, weighted)
        else:
            collateral = _sum(collateral, (over, under))
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
