"""Perena: USD* that a wallet holds, at its market price.

USD* was a pool's LP token at first, and has a mint of its own since; both circulate. The layout of
its bank is not published, so that its own price of USD* is not known.
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.balances import read_balances
from schemas.protocols.contract import Held, Protocol, Reading, Route, Shape, World
from schemas.solana.addresses import key

USD_STAR: Final = key("star9agSpjiFe3M49B3RniVU4CMBBEK3Qnaqn3RGiFM")
USD_STAR_OF_POOL: Final = key("BenJy1n3WTx9mTjEvy63e8Q1j4RqUc6E4VBMz3ir4Wo6")


def read(held: Held, world: World) -> Reading:
    """Return the USD* that a wallet holds, of either mint."""
    return (yield from read_balances("positions", (USD_STAR, USD_STAR_OF_POOL), held, world))


PROTOCOL: Final = Protocol(
    "perena",
    (),
    (Route("positions", Shape.YIELD, "USD*, at its market price"),),
    read,
    identified="guess",
    unsupported_fields=(
        "the bank's own price of USD*: its layout is not published",
        "USD', shares of pools, and USD* that is staked",
    ),
    reads_tokens=True,
)
