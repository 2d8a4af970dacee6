"""Accounts of the stake program: whose they are, and what they are delegated to.

Source: solana-stake-interface `StakeStateV2` (bincode; accounts have 200 bytes or more): a tag,
rent reserve, staker, withdrawer and lockup, then, where it is delegated, the delegation. The rate
at 180 is not used by the program any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schemas.solana.borsh import i64, raw_pubkey, u32, u64

MAX_EPOCH: Final = 2**64 - 1  # as an activation: since genesis; as a deactivation: none
SIZE: Final = 200
STAKER_AT: Final = 12
WITHDRAWER_AT: Final = 44
_INITIALIZED: Final = 1
_STAKE: Final = 2


class BadStake(ValueError):
    """Bytes are no stake account with an owner; the text names what is wrong."""


@dataclass(frozen=True, slots=True)
class Lockup:
    """Until when nothing may be withdrawn, unless the custodian signs."""

    until_s: int  # since the Unix epoch
    until_epoch: int
    custodian: bytes

    def is_in_force(self, time_s: int, epoch: int, signer: bytes) -> bool:
        """Return whether it holds at a time and epoch of the chain for who signs a withdrawal."""
        return signer != self.custodian and (self.until_s > time_s or self.until_epoch > epoch)


@dataclass(frozen=True, slots=True)
class Delegation:
    """What is delegated, and from when to when."""

    vote_account: bytes
    stake_lamports: int
    activation_epoch: int
    deactivation_epoch: int  # MAX_EPOCH: it is not deactivated


@dataclass(frozen=True, slots=True)
class StakeAccount:
    """An initialized stake account."""

    rent_lamports: int  # reserved; never delegated
    staker: bytes
    withdrawer: bytes
    lockup: Lockup
    delegation: Delegation | None
    credits_observed: int = 0
    flags: int = 0


def read_stake(data: bytes) -> StakeAccount:
    """Return a stake account; raises BadStake."""
    if len(data) < SIZE:
        raise BadStake(f"{len(data)} bytes, a stake account has {SIZE}")
    tag = u32(data, 0)
    if tag not in (_INITIALIZED, _STAKE):
        raise BadStake(f"state is {tag}, {_INITIALIZED} is initialized and {_STAKE} delegated")
    is_delegated = tag == _STAKE
    return StakeAccount(
        rent_lamports=u64(data, 4),
        staker=raw_pubkey(data, STAKER_AT),
        withdrawer=raw_pubkey(data, WITHDRAWER_AT),
        lockup=Lockup(i64(data, 76), u64(data, 84), raw_pubkey(data, 92)),
        delegation=_delegation(data) if is_delegated else None,
        credits_observed=u64(data, 188) if is_delegated else 0,
        flags=data[196] if is_delegated else 0,
    )


def _delegation(data: bytes) -> Delegation:
    return Delegation(raw_pubkey(data, 124), u64(data, 156), u64(data, 164), u64(data, 172))
