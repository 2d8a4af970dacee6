"""Jupiter DAO: tokens locked in a vote escrow, and parts of it on their way out.

Source: the program's IDL (`Escrow`, `Locker`), TeamRaccoons/WAGMI (`instructions/withdraw.rs`). The
IDL that is deployed has no phases: a power that does not fall is that of a max lock alone.
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

PROGRAM: Final = key("voTpe3tHQ7AjQHMapgSue2HJFAh2cGsdokqN3XqmVSj")
ESCROW: Final = Kind("jupiter_dao_escrow", PROGRAM, ESCROW_TAG, wallets=(OWNER_AT,))
LOCKER: Final = Kind("jupiter_dao_locker", PROGRAM, LOCKER_TAG)
_LAYOUT: Final = Layout(
    ESCROW,
    LOCKER,
    multiplier_at=121,
    max_duration_at=130,
    max_lock_at=161,
    is_free_at_end=True,
)
_ROUTE: Final = "staking"


def read(held: Held, world: World) -> Reading:
    """Return a wallet's escrows; raises Unreadable."""
    own = [each for each in held.of(ESCROW) if each.data[OWNER_AT : OWNER_AT + 32] == held.wallet]
    return (yield from read_escrows(_LAYOUT, _ROUTE, held.wallet, own, world))


PROTOCOL: Final = Protocol(
    "jupiter_dao",
    (ESCROW, LOCKER),
    (Route(_ROUTE, Shape.STAKING, "Tokens locked to vote, and totals of partial unstakings"),),
    read,
    unsupported_fields=(
        "when a partial unstaking is free: its account names the escrow, not the wallet",
        "rewards for voting: they are claimed from distributors of other programs",
    ),
)
