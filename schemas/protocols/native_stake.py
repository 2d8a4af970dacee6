"""Native stake: accounts of the stake program."""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import Kind, Protocol
from schemas.solana import addresses

WITHDRAWER_AT: Final = 44
STAKER_AT: Final = 12

STAKE: Final = Kind("stake", addresses.STAKE_PROGRAM, size=200, wallets=(WITHDRAWER_AT, STAKER_AT))

PROTOCOL: Final = Protocol("native_stake", (STAKE,))
