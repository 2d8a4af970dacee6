"""A stake pool's account: what its token is a share of. Its validators' stakes are left out.

Layout: `spl_stake_pool::state::StakePool`, 611 bytes, borsh without options that are set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct
from typing import Final

from schemas.solana.addresses import TOKEN_PROGRAM, key

STAKE_POOL_PROGRAM: Final = key("SPoo1Ku8WFXoNDMHPsrGSTSG1Y47rzgn41SLUNakuHy")
STAKE_POOL_RENT_LAMPORTS: Final = 5_143_440
_BYTES: Final = 611
_HEAD: Final = Struct("<B32s32s32sB32s32s32s32s32sQQQ").pack
_STAKE_POOL: Final = 1
_STAKE_TO_REWARD: Final = 2_000  # lamports of stake that earn one an epoch


@dataclass(frozen=True, slots=True)
class StakePool:
    """A pool of stake whose token is worth more with every epoch."""

    manager: bytes
    mint: bytes
    lamports: int  # of all its stake
    supply_raw: int  # of its token
    epoch: int = 0  # in which both were counted last

    @property
    def owner(self) -> bytes:
        """Return the program of stake pools."""
        return STAKE_POOL_PROGRAM

    def data(self) -> bytes:
        """Return the account's data."""
        someone = self.manager  # lists, reserve and accounts for fees are left out
        return _HEAD(
            _STAKE_POOL,
            *(someone, someone, someone),
            255,
            *(someone, someone, self.mint, someone, TOKEN_PROGRAM),
            *(self.lamports, self.supply_raw, self.epoch),
        ).ljust(_BYTES, b"\0")

    def after(self, epoch: int) -> StakePool:
        """Return the pool with the rewards of an epoch."""
        earned = self.lamports // _STAKE_TO_REWARD
        return replace(self, lamports=self.lamports + earned, epoch=epoch + 1)
