"""Jupiter Lock's program as far as a wallet locks tokens for itself: bytes and effects.

Layout and rules are those of `locker` (`VestingEscrow`): claiming pays what has vested and was not
claimed, cancelling pays out all that is left, closing gives back the rent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import Program, anchor_tag, pda
from infra.chain.market.runtime.stake_program import set_native
from schemas.protocols.jupiter_lock import ESCROW, PROGRAM
from schemas.solana.addresses import text

LOCK: Final = Program(text(PROGRAM))
ESCROW_BYTES: Final = 296
ESCROW_RENT_LAMPORTS: Final = (128 + ESCROW_BYTES) * 6_960
NOT_FOUND: Final = 3_012  # Anchor's AccountNotInitialized
NOT_CLAIMABLE: Final = 6_000
_HEAD: Final = Struct("<8s32s32s32s32s4B4x").pack
_REST: Final = Struct("<8Q88x").pack


@dataclass(frozen=True, slots=True)
class Schedule:
    """When how much of an escrow vests: at the cliff, then by the period."""

    cliff_s: int
    frequency_s: int
    cliff_raw: int
    period_raw: int
    periods: int

    @property
    def total_raw(self) -> int:
        """Return all that vests."""
        return self.cliff_raw + self.periods * self.period_raw

    def vested_raw(self, now_s: int) -> int:
        """Return what has vested, claimed or not."""
        if now_s < self.cliff_s:
            return 0
        passed = min((now_s - self.cliff_s) // self.frequency_s, self.periods)
        return self.cliff_raw + passed * self.period_raw


@dataclass(frozen=True, slots=True)
class Escrow:
    """Tokens that a wallet has locked for itself."""

    holder: bytes
    mint: Mint
    base: bytes
    schedule: Schedule
    claimed_raw: int = 0
    cancelled_s: int = 0

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return LOCK.address

    @property
    def left_raw(self) -> int:
        """Return what it holds."""
        return 0 if self.cancelled_s else self.schedule.total_raw - self.claimed_raw

    def data(self) -> bytes:
        """Return the account's data."""
        of = self.schedule
        head = _HEAD(ESCROW.tag, self.holder, self.mint.address, self.holder, self.base, 0, 0, 3, 0)
        times = of.cliff_s, of.frequency_s
        amounts = of.cliff_raw, of.period_raw, of.periods, self.claimed_raw
        return head + _REST(*times, *amounts, of.cliff_s, self.cancelled_s)


def address_of(base: bytes) -> bytes:
    """Return the address of an escrow, by the key that signed for it."""
    return pda(LOCK, b"escrow", base)


def create(tx: Execution, of: Escrow) -> None:
    """Make an escrow and pay in all that vests."""
    at = address_of(of.base)
    source = tx.ledger.associated(of.holder, of.mint)
    accounts = (of.base, at, tx.ledger.associated(at, of.mint), of.holder, source)
    tx.enter(LOCK, accounts, anchor_tag("create_vesting_escrow_v2"), mask("-www-"))
    spl.create_account(tx, of.holder, at, ESCROW_RENT_LAMPORTS, ESCROW_BYTES, LOCK, has_bytes=True)
    vault = spl.create_associated(tx, of.holder, at, of.mint)
    spl.transfer(tx, source, vault, of.holder, of.schedule.total_raw)
    set_native(tx, at, of)
    tx.leave(20_000)


def claim(tx: Execution, at: bytes, most_raw: int) -> None:
    """Pay the holder up to an amount of what has vested."""
    escrow = _enter(tx, at, "claim_v2")
    free_raw = escrow.schedule.vested_raw(tx.time_s) - escrow.claimed_raw
    paid_raw = min(most_raw, free_raw)
    if escrow.cancelled_s or not paid_raw:
        raise InstructionError(NOT_CLAIMABLE)
    spl.transfer(tx, *_way_out(tx.ledger, at, escrow), at, paid_raw)
    set_native(tx, at, replace(escrow, claimed_raw=escrow.claimed_raw + paid_raw))
    tx.leave(12_000)


def cancel(tx: Execution, at: bytes) -> None:
    """Pay out all that is left: the holder is creator and recipient."""
    escrow = _enter(tx, at, "cancel_vesting_escrow_v2")
    if escrow.cancelled_s:
        raise InstructionError(NOT_CLAIMABLE)
    vault, destination = _way_out(tx.ledger, at, escrow)
    spl.transfer(tx, vault, destination, at, escrow.left_raw)
    spl.close_account(tx, vault, escrow.holder, at)
    set_native(tx, at, replace(escrow, cancelled_s=tx.time_s))
    tx.leave(15_000)


def close(tx: Execution, at: bytes) -> None:
    """Give back the rent of an escrow with nothing in it."""
    escrow = _enter(tx, at, "close_vesting_escrow")
    if escrow.left_raw:
        raise InstructionError(NOT_CLAIMABLE)
    if not escrow.cancelled_s:
        spl.close_account(tx, _way_out(tx.ledger, at, escrow)[0], escrow.holder, at)
    tx.move_lamports(at, escrow.holder, tx.ledger.lamports[at])
    set_native(tx, at, None)
    tx.leave(8_000)


def _enter(tx: Execution, at: bytes, name: str) -> Escrow:
    escrow = tx.ledger.natives.get(at)
    assert isinstance(escrow, Escrow)
    vault, destination = _way_out(tx.ledger, at, escrow)
    tx.enter(LOCK, (at, vault, escrow.holder, destination), anchor_tag(name), mask("wwww"))
    return escrow


def _way_out(ledger: Ledger, at: bytes, escrow: Escrow) -> tuple[bytes, bytes]:
    return ledger.associated(at, escrow.mint), ledger.associated(escrow.holder, escrow.mint)
