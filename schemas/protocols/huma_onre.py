"""Huma's PST and mPST, and OnRe's ONyc, that a wallet holds, at their market prices."""

from __future__ import annotations

from typing import Final

from schemas.protocols.balances import read_balances
from schemas.protocols.contract import Held, Protocol, Reading, Route, Shape, World
from schemas.solana.addresses import key

PST: Final = key("59obFNBzyTBGowrkif5uK7ojS58vsuWz3ZCvg6tfZAGw")
MPST: Final = key("HUPfpnsaJtJGpJxAPNX1vXah7BgYiQYt1c2JMgMumvPs")
ONYC: Final = key("5Y8NV33Vv7WbnLfq3zBcKSdYPrk7g2KoiQoe7M2tcxp5")


def read(held: Held, world: World) -> Reading:
    """Return the PST, mPST and ONyc that a wallet holds."""
    return (yield from read_balances("positions", (PST, MPST, ONYC), held, world))


PROTOCOL: Final = Protocol(
    "huma_onre",
    (),
    (Route("positions", Shape.YIELD, "PST, mPST and ONyc, at their market prices"),),
    read,
    identified="guess",
    unsupported_fields=(
        "the issuers' own prices, tokens that Huma keeps locked, and redemptions under way",
    ),
    reads_tokens=True,
)
