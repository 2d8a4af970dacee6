"""Carrot: CRT, the token of its yield product, and the lending accounts of Boost.

Boost's program is a copy of marginfi's. No real bank of it was seen, so that of a bank only what
marginfi never moved is read: mint, decimals and share values. Source: `ClendAccount`, as SonarWatch
reads it.
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.balances import read_balances
from schemas.protocols.contract import (
    Held,
    Kind,
    Protocol,
    Reading,
    Route,
    Shape,
    World,
)
from schemas.protocols.in_step import in_step
from schemas.protocols.marginfi_lending import (
    ACCOUNT_SIZE,
    AUTHORITY_AT,
    BANK_SIZE,
    BANK_TAG,
    Layout,
    read_lending,
)
from schemas.solana.addresses import key

PROGRAM: Final = key("C73nDAFn23RYwiFa6vtHshSbcg8x6BLYjw3bERJ3vHxf")
CRT: Final = key("CRTx1JouZhzSU6XytsE42UQraoGqiHgxabocVfARTy2s")
ACCOUNT: Final = Kind(
    "carrot_account",
    PROGRAM,
    bytes.fromhex("0212ac239d3161ee"),  # sha256("account:ClendAccount")
    size=ACCOUNT_SIZE,
    wallets=(AUTHORITY_AT,),
)
BANK: Final = Kind("carrot_bank", PROGRAM, BANK_TAG, size=BANK_SIZE)
_LAYOUT: Final = Layout(ACCOUNT, BANK, group=None, rewards=False)


def read(held: Held, world: World) -> Reading:
    """Return a wallet's Boost accounts and its CRT; raises Unreadable."""
    return (
        yield from in_step(
            read_lending(_LAYOUT, held, world), read_balances("positions", (CRT,), held, world)
        )
    )


PROTOCOL: Final = Protocol(
    "carrot",
    (ACCOUNT, BANK),
    (
        Route("lending", Shape.LENDING, "Deposits and borrows of Boost"),
        Route("positions", Shape.YIELD, "CRT, at its market price"),
    ),
    read,
    identified="guess",
    unsupported_fields=(
        "interest of Boost since its banks' last updates, and health",
        "sums: no group of Boost is known as its own, and anybody can open one",
    ),
    reads_tokens=True,
)
