"""Stake, vote and sysvar accounts: what they hold, their bytes, and how much of a stake counts.

Layouts: StakeStateV2 (200 bytes, bincode), VoteStateVersions::Current (3,762), Clock (40) and
StakeHistory. The rule of warming up and cooling down is that of the Stake program's
`Delegation::stake_activating_and_deactivating`, 9 % of the cluster's stake an epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple, Protocol

from infra.chain.market.runtime.programs import NO_ADDRESS
from schemas.solana.addresses import STAKE_PROGRAM, SYSVAR_PROGRAM, VOTE_PROGRAM

EPOCH_SLOTS: Final = 100
NEVER: Final = 2**64 - 1
STAKE_BYTES: Final = 200
STAKE_RENT_LAMPORTS: Final = 2_282_880
HISTORY_EPOCHS: Final = 512
_VOTE_BYTES: Final = 3_762
_WARMUP_RATE: Final = 0.09  # of the cluster's effective stake, an epoch
_CREDITS_KEPT: Final = 64  # epochs
_META: Final = Struct("<IQ32s32sqQ32s").pack
_DELEGATION: Final = Struct("<32sQQQdQB3x").pack
_CLOCK: Final = Struct("<QqQQq").pack
_FOUR: Final = Struct("<4Q").pack
_U64: Final = Struct("<Q").pack


def epoch_of(slot: int) -> int:
    """Return the epoch a slot is in."""
    return slot // EPOCH_SLOTS


class Native(Protocol):
    """An account of a program that comes with the runtime, or a sysvar."""

    @property
    def owner(self) -> bytes:
        """Return the program it belongs to."""
        ...

    def data(self) -> bytes:
        """Return its data."""
        ...


class Moved(NamedTuple):
    """Lamports of a stake, or of all, at some epoch."""

    effective: int = 0
    activating: int = 0
    deactivating: int = 0


History = Mapping[int, Moved]  # of the cluster, by epoch


@dataclass(frozen=True, slots=True)
class Stake:
    """A stake account; initialized only, where it has no validator."""

    staker: bytes
    withdrawer: bytes
    voter: bytes | None = None  # the validator's vote account
    lamports: int = 0  # delegated
    activation_epoch: int = NEVER
    deactivation_epoch: int = NEVER
    credits_observed: int = 0

    @property
    def owner(self) -> bytes:
        """Return the Stake program."""
        return STAKE_PROGRAM

    def data(self) -> bytes:
        """Return the account's 200 bytes."""
        state = 1 if self.voter is None else 2
        head = _META(state, STAKE_RENT_LAMPORTS, self.staker, self.withdrawer, 0, 0, NO_ADDRESS)
        if self.voter is None:
            return head.ljust(STAKE_BYTES, b"\0")
        return head + _DELEGATION(
            self.voter,
            self.lamports,
            self.activation_epoch,
            self.deactivation_epoch,
            0.25,  # what accounts say; the rate that holds is another
            self.credits_observed,
            0,
        )

    def moved(self, epoch: int, history: History) -> Moved:
        """Return how much of the stake is effective and moving at an epoch."""
        if self.voter is None:
            return Moved()
        effective, activating = self._warmed_up(epoch, history)
        end = self.deactivation_epoch
        if epoch < end:
            return Moved(effective, activating, 0)
        if epoch == end:
            return Moved(effective, 0, effective)
        before = history.get(end)
        if before is None:
            return Moved()  # so long ago that the history has forgotten it
        while before is not None and before.deactivating and effective > 0:
            share = effective / before.deactivating
            effective -= max(int(share * (before.effective * _WARMUP_RATE)), 1)
            end += 1
            before = history.get(end) if end < epoch else None
        return Moved(max(effective, 0), 0, max(effective, 0))

    def _warmed_up(self, epoch: int, history: History) -> tuple[int, int]:
        """Return effective and activating lamports, as if it was never deactivated."""
        at = self.activation_epoch
        if at == self.deactivation_epoch or epoch < at:
            return 0, 0
        if epoch == at:
            return 0, self.lamports
        before = history.get(at)
        if before is None:
            return self.lamports, 0
        effective = 0
        while before is not None and before.activating:
            share = (self.lamports - effective) / before.activating
            effective += max(int(share * (before.effective * _WARMUP_RATE)), 1)
            at += 1
            if effective >= self.lamports:
                return self.lamports, 0
            if at >= epoch or at >= self.deactivation_epoch:
                break
            before = history.get(at)
        return effective, self.lamports - effective


@dataclass(frozen=True, slots=True)
class Vote:
    """A validator's vote account, without the votes themselves."""

    node: bytes
    commission: int  # percent
    credits: tuple[tuple[int, int, int], ...] = ()  # epoch, credits, those before it; ascending

    @property
    def owner(self) -> bytes:
        """Return the Vote program."""
        return VOTE_PROGRAM

    @property
    def all_credits(self) -> int:
        """Return the credits earned so far."""
        return self.credits[-1][1] if self.credits else 0

    def earned(self, epoch: int, credits_: int) -> Vote:
        """Return the account after an epoch with so many credits."""
        so_far = self.all_credits
        entry = (epoch, so_far + credits_, so_far)
        return Vote(self.node, self.commission, (*self.credits, entry)[-_CREDITS_KEPT:])

    def data(self) -> bytes:
        """Return the account's 3,762 bytes."""
        epoch = self.credits[-1][0] if self.credits else 0
        data = (
            b"\2\0\0\0"
            + self.node
            + self.node  # may withdraw
            + bytes((self.commission,))
            + bytes(8)  # no votes
            + b"\0"  # no root
            + _U64(1)
            + _U64(epoch)
            + self.node  # may vote
            + bytes(32 * 48)  # prior voters
            + _U64(31)
            + b"\1"
            + _U64(len(self.credits))
            + b"".join(Struct("<3Q").pack(*entry) for entry in self.credits)
            + bytes(16)  # last timestamp
        )
        return data.ljust(_VOTE_BYTES, b"\0")


@dataclass(frozen=True, slots=True)
class Clock:
    """The Clock sysvar."""

    slot: int
    epoch_start_s: int
    time_s: int

    @property
    def owner(self) -> bytes:
        """Return the owner of sysvars."""
        return SYSVAR_PROGRAM

    def data(self) -> bytes:
        """Return the account's 40 bytes."""
        epoch = epoch_of(self.slot)
        return _CLOCK(self.slot, self.epoch_start_s, epoch, epoch + 1, self.time_s)


@dataclass(frozen=True, slots=True)
class StakeHistory:
    """The StakeHistory sysvar: of the last epochs, newest first."""

    epochs: Mapping[int, Moved]

    @property
    def owner(self) -> bytes:
        """Return the owner of sysvars."""
        return SYSVAR_PROGRAM

    def after(self, epoch: int, moved: Moved) -> StakeHistory:
        """Return the history with one more epoch, the oldest beyond 512 forgotten."""
        kept = list(self.epochs.items())[: HISTORY_EPOCHS - 1]
        return StakeHistory(dict([(epoch, moved), *kept]))

    def data(self) -> bytes:
        """Return the account's bytes: a count, and as many entries."""
        entries = b"".join(_FOUR(epoch, *moved) for epoch, moved in self.epochs.items())
        return (_U64(len(self.epochs)) + entries).ljust(8 + 32 * HISTORY_EPOCHS, b"\0")
