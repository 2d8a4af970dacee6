"""Tribeca: tokens locked to vote in the DAOs of Saber, Marinade, Sunny, Quarry and others.

Source: `locked-voter` (`state.rs`: `Escrow`, `Locker`, `LockerParams`).
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import Held, Kind, Protocol, Reading, Route, Shape, World
from schemas.protocols.vote_escrow import (
    ESCROW_TAG,
    LOCKER_TAG,
    OWNER_AT,
    Layout,
    read_escrows,
)
from schemas.solana.addresses import key

PROGRAM: Final = key("LocktDzaV1W2Bm9DeZeiyz4J9zs4fRqNiYqQyracRXw")
ESCROW: Final = Kind("tribeca_escrow", PROGRAM, ESCROW_TAG, wallets=(OWNER_AT,))
LOCKER: Final = Kind("tribeca_locker", PROGRAM, LOCKER_TAG)
_LAYOUT: Final = Layout(ESCROW, LOCKER, multiplier_at=114, max_duration_at=123)
_ROUTE: Final = "escrows"


def read(held: Held, world: World) -> Reading:
    """Return a wallet's escrows; raises Unreadable."""
    own = [each for each in held.of(ESCROW) if each.data[OWNER_AT : OWNER_AT + 32] == held.wallet]
    return (yield from read_escrows(_LAYOUT, _ROUTE, held.wallet, own, world))


PROTOCOL: Final = Protocol(
    "tribeca",
    (ESCROW, LOCKER),
    (Route(_ROUTE, Shape.GOVERNANCE, "Tokens locked to vote in Tribeca's DAOs"),),
    read,
    identified="likely",
)
