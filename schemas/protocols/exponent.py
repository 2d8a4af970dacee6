"""Exponent: tokens of yield and of principal, liquidity of two kinds, and strategy vaults."""

from __future__ import annotations

from typing import Final

from schemas.protocols import exponent_ticks, exponent_vaults, exponent_yield
from schemas.protocols.contract import Held, Protocol, Reading, Route, Shape, World
from schemas.protocols.in_step import in_step


def read(held: Held, world: World) -> Reading:
    """Return what a wallet has of Exponent's programs; raises Unreadable."""
    return (
        yield from in_step(
            exponent_yield.read(held, world),
            exponent_ticks.read(held),
            exponent_vaults.read(held),
        )
    )


PROTOCOL: Final = Protocol(
    "exponent",
    (*exponent_yield.KINDS, *exponent_ticks.KINDS, *exponent_vaults.KINDS),
    (
        Route(exponent_yield.ROUTE, Shape.YIELD, "Yield and principal tokens, and liquidity"),
        Route(exponent_ticks.ROUTE, Shape.LIQUIDITY, "Liquidity between two rates, as PT and SY"),
        Route(exponent_vaults.ROUTE, Shape.YIELD, "Shares of strategy vaults, and withdrawals"),
    ),
    read,
    identified="likely",
    unsupported_fields=(
        "interest and emissions since a vault or market last saw their indexes",
        "SY that matured principal pays: by the SY's own rate, which a vault has as it last saw it",
        "prices of SY, PT and YT without a market",
        "fees, farms and emissions of liquidity between two rates",
        "what shares of strategy vaults are worth by the vaults",
    ),
    reads_tokens=True,
)
