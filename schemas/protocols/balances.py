"""Tokens of a protocol that a wallet holds, as positions at their market price.

For protocols whose token is all that a wallet has of them. A position counts the balance, so that
it counts in no holding, and needs no account of the chain: the mint is its address, and its slot is
the one at which the wallet was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

from schemas.protocols.contract import Account, Asset, Held, Position, Reading, Role, World
from schemas.protocols.mint import MINT


def read_balances(route: str, mints: Iterable[bytes], held: Held, world: World) -> Reading:
    """Return a position of `route` for each of some mints that the wallet holds."""
    yield from ()
    return [
        Position(
            route,
            Account(mint, MINT, 0, b"", world.slot),  # whose bytes nothing here rests on
            market=mint,
            assets=[Asset(Role.SUPPLY, mint, amount_raw)],
            stands_for={mint: amount_raw},
        )
        for mint in mints
        if (amount_raw := held.tokens.get(mint, 0)) > 0
    ]
