"""The Stake program's instructions: bytes, logs and effects.

Encodings are those of `StakeInstruction` (bincode); errors those of `StakeError`.
"""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import Final

from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.programs import NO_ADDRESS, RENT_SYSVAR, STAKE
from infra.chain.market.runtime.stake import (
    NEVER,
    STAKE_RENT_LAMPORTS,
    Native,
    Stake,
    StakeHistory,
    Vote,
    epoch_of,
)
from schemas.solana.addresses import CLOCK, STAKE_HISTORY, key

STAKE_CONFIG: Final = key("StakeConfig11111111111111111111111111111111")
_INITIALIZE: Final = Struct("<I32s32sqQ32s").pack
_WITHDRAW: Final = Struct("<IQ").pack
_ALREADY_DEACTIVATED: Final = 2
_TOO_SOON: Final = 3
_INSUFFICIENT: Final = 4
_NOT_FOUND: Final = 6


def initialize(tx: Execution, address: bytes, authority: bytes) -> None:
    """Initialize: one wallet may delegate and withdraw, without lockup."""
    data = _INITIALIZE(0, authority, authority, 0, 0, NO_ADDRESS)
    tx.enter(STAKE, (address, RENT_SYSVAR), data, mask("w-"))
    set_native(tx, address, Stake(authority, authority))
    tx.leave(3_400)


def delegate(tx: Execution, address: bytes, vote: bytes, authority: bytes) -> None:
    """DelegateStake: all lamports beyond the rent, from the next epoch on."""
    accounts = (address, vote, CLOCK, STAKE_HISTORY, STAKE_CONFIG, authority)
    tx.enter(STAKE, accounts, b"\2\0\0\0", mask("w-----"))
    stake, natives = _stake(tx, address), tx.ledger.natives
    epoch = epoch_of(tx.slot)
    if stake.moved(epoch, _history(tx).epochs).effective:
        raise InstructionError(_TOO_SOON)
    voter = natives[vote]
    assert isinstance(voter, Vote)
    delegated = replace(
        stake,
        voter=vote,
        lamports=tx.ledger.lamports[address] - STAKE_RENT_LAMPORTS,
        activation_epoch=epoch,
        deactivation_epoch=NEVER,
        credits_observed=voter.all_credits,
    )
    set_native(tx, address, delegated)
    tx.leave(4_900)


def deactivate(tx: Execution, address: bytes, authority: bytes) -> None:
    """Deactivate: the stake cools down from this epoch on."""
    tx.enter(STAKE, (address, CLOCK, authority), b"\5\0\0\0", mask("w--"))
    stake = _stake(tx, address)
    if stake.deactivation_epoch != NEVER:
        raise InstructionError(_ALREADY_DEACTIVATED)
    set_native(tx, address, replace(stake, deactivation_epoch=epoch_of(tx.slot)))
    tx.leave(3_100)


def withdraw(
    tx: Execution, address: bytes, destination: bytes, authority: bytes, lamports: int
) -> None:
    """Withdraw what is not staked; with the last lamport the account is closed."""
    accounts = (address, destination, CLOCK, STAKE_HISTORY, authority)
    tx.enter(STAKE, accounts, _WITHDRAW(4, lamports), mask("ww---"))
    stake = _stake(tx, address)
    held = tx.ledger.lamports[address]
    bound = 0 if stake.voter is None else stake.lamports
    if epoch_of(tx.slot) >= stake.deactivation_epoch:
        bound = stake.moved(epoch_of(tx.slot), _history(tx).epochs).effective
    if lamports != held or bound:
        bound += STAKE_RENT_LAMPORTS
    if held - lamports < bound:
        raise InstructionError(_INSUFFICIENT)
    tx.move_lamports(address, destination, lamports)
    if lamports == held:
        set_native(tx, address, None)
    tx.leave(3_800)


def set_native(tx: Execution, address: bytes, native: Native | None) -> None:
    """Change or remove an account; taken back with the transaction."""
    natives = tx.ledger.natives
    tx.changes.undo.append(natives.undo(address))
    tx.changes.contents.add(address)
    natives.put(address, native)


def _stake(tx: Execution, address: bytes) -> Stake:
    stake = tx.ledger.natives.get(address)
    if not isinstance(stake, Stake):
        raise InstructionError(_NOT_FOUND)
    return stake


def _history(tx: Execution) -> StakeHistory:
    history = tx.ledger.natives[STAKE_HISTORY]
    assert isinstance(history, StakeHistory)
    return history
