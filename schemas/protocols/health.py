"""Health of a loan, the same way for all lenders: weighted collateral by weighted debt."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from schemas.protocols.contract import Asset, Health, Role

UNKNOWN = Health(None, None, None)


def health_of(assets: Iterable[Asset]) -> Health:
    """Return the health of supplies and borrows, all of whose figures must be known.

    Supplies count by price and weight, debts by price and weight: the `ltv` is weighted debt by
    plain collateral, so that it reaches `liquidation_ltv` where the health factor reaches 1.
    """
    collateral = secured = owed = Fraction(0)
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
