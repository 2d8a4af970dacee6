"""The chain's own clock and stake history: sysvars, accounts at fixed addresses."""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import Account, Kind, Protocol, Unreadable
from schemas.solana import addresses
from schemas.solana.sysvars import BadSysvar, Clock, StakeHistory, read_clock, read_stake_history

CLOCK: Final = Kind("clock", addresses.SYSVAR_PROGRAM, size=40, addresses=(addresses.CLOCK,))
STAKE_HISTORY: Final = Kind(
    "stake_history", addresses.SYSVAR_PROGRAM, addresses=(addresses.STAKE_HISTORY,)
)

PROTOCOL: Final = Protocol("clock", (CLOCK, STAKE_HISTORY))


def clock_of(account: Account) -> Clock:
    """Return what the clock says; raises Unreadable."""
    try:
        return read_clock(account.data)
    except BadSysvar as error:
        raise Unreadable(str(error), account.address) from None


def stake_history_of(account: Account) -> StakeHistory:
    """Return the stake history; raises Unreadable."""
    try:
        return read_stake_history(account.data)
    except BadSysvar as error:
        raise Unreadable(str(error), account.address) from None
