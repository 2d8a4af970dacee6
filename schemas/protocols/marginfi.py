"""marginfi v2: deposits and borrows are shares of a bank, worth more with every second.

Source: marginfi-v2, IDL 0.1.9.
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import Held, Kind, Protocol, Reading, Route, Shape, World
from schemas.protocols.marginfi_lending import (
    ACCOUNT_SIZE,
    AUTHORITY_AT,
    BANK_SIZE,
    BANK_TAG,
    Layout,
    read_lending,
)
from schemas.solana.addresses import key

PROGRAM: Final = key("MFv2hWf31Z9kbCa1snEPYctwafyhdvnV7FZnsebVacA")
ACCOUNT: Final = Kind(
    "marginfi_account",
    PROGRAM,
    bytes.fromhex("43b2826d7e721c2a"),
    size=ACCOUNT_SIZE,
    wallets=(AUTHORITY_AT,),
)
BANK: Final = Kind("marginfi_bank", PROGRAM, BANK_TAG, size=BANK_SIZE)
GROUP: Final = Kind("marginfi_group", PROGRAM, bytes.fromhex("b617adf097ceb643"))
MAIN_GROUP: Final = key("4qp6Fx6tnZkY5Wropq9wUYgtFxXKwE6viZxFHg3rdAG8")
_LAYOUT: Final = Layout(ACCOUNT, BANK, GROUP, rewards=True)


def read(held: Held, world: World) -> Reading:
    """Return a wallet's lending accounts, and emissions it has not claimed; raises Unreadable."""
    return (yield from read_lending(_LAYOUT, held, world))


PROTOCOL: Final = Protocol(
    "marginfi",
    (ACCOUNT, BANK, GROUP),
    (
        Route("lending", Shape.LENDING, "Deposits and borrows, with their health"),
        Route("rewards", Shape.REWARDS, "Emissions that were not claimed"),
    ),
    read,
    unsupported_fields=(
        "health where e-mode may apply",
        "amounts of banks that lend on in Drift, Solend or Jupiter Lend",
        "deposits in banks that pay what they have left: their debts were discharged unpaid",
        "emissions that are paid off the chain",
    ),
    verified_markets=frozenset({MAIN_GROUP}),  # anybody can open a group, with banks of any price
)
