"""The chain's own clock and stake history: sysvars, accounts at fixed addresses."""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import Kind, Protocol
from schemas.solana import addresses

CLOCK: Final = Kind("clock", addresses.SYSVAR_PROGRAM, size=40, addresses=(addresses.CLOCK,))
STAKE_HISTORY: Final = Kind(
    "stake_history", addresses.SYSVAR_PROGRAM, addresses=(addresses.STAKE_HISTORY,)
)

PROTOCOL: Final = Protocol("clock", (CLOCK, STAKE_HISTORY))
