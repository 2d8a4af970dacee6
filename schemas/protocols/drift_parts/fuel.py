"""Fuel: points that Drift counts for what a wallet does. No mint represents them.

They are counted in a wallet's `UserStats`, and swept from there into its `FuelOverflow`: what is in
the one is not in the other.
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import Account, Held, Points, Position, Reading, Route, Shape, World
from schemas.protocols.drift_parts.layout import FUEL_OVERFLOW, USER_STATS, checked
from schemas.solana.borsh import u32, u128

ROUTES: Final = (Route("rewards", Shape.REWARDS, "Points (fuel), which no token represents"),)
UNSUPPORTED: Final = ("fuel since an account's last update",)
_NAMES: Final = ("insurance", "deposits", "borrows", "positions", "taker", "maker")


def read(held: Held, world: World) -> Reading:
    """Return a wallet's points; raises Unreadable."""
    yield from ()
    return [
        Position("rewards", account, points=points)
        for kind in (USER_STATS, FUEL_OVERFLOW)
        for account in held.of(kind)
        if checked(account, kind)[8:40] == held.wallet and (points := _points(account))
    ]


def _points(account: Account) -> list[Points]:
    if account.kind is USER_STATS:
        amounts = [u32(account.data, 192 + 4 * number) for number in range(len(_NAMES))]
    else:
        amounts = [u128(account.data, 40 + 16 * number) for number in range(len(_NAMES))]
    return [
        Points(f"fuel_{name}", amount)
        for name, amount in zip(_NAMES, amounts, strict=True)
        if amount
    ]
