"""Native stake: accounts of the stake program.

The lamports of an account are its withdrawer's; a staker who is not the withdrawer decides what is
delegated, and owns nothing. What can be withdrawn at once is supplied, what is delegated is locked,
what cools down is pending, each with the rent reserve, which stays as long as anything is staked. A
lockup locks all, unless its custodian is the withdrawer. Together they are the lamports of the
account. A lockup that has ended stays among the locks for a day, so that `soltape watch` sees its
end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from schemas.money import WSOL
from schemas.protocols.clock import clock_of, stake_history_of
from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Lock,
    Position,
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    Stake,
    Unreadable,
    World,
)
from schemas.solana import addresses
from schemas.solana.stake_accounts import (
    MAX_EPOCH,
    SIZE,
    STAKER_AT,
    WITHDRAWER_AT,
    BadStake,
    Delegation,
    StakeAccount,
    read_stake,
)
from schemas.solana.stake_activation import Activation, activation, needs_history
from schemas.solana.sysvars import StakeHistory

_WALLETS: Final = (WITHDRAWER_AT, STAKER_AT)
STAKE: Final = Kind("stake", addresses.STAKE_PROGRAM, size=SIZE, wallets=_WALLETS)
STAKE_GENESIS: Final = Kind(
    "stake_genesis", addresses.STAKE_PROGRAM, size=SIZE + 1, wallets=_WALLETS
)
"""Accounts of the chain's first block have a byte more."""

_SOL: Final = addresses.key(WSOL)
_DECIMALS: Final = 9
_UNINITIALIZED: Final = bytes(4)
_LATEST_MS: Final = (1 << 53) - 1  # a lockup's time is any i64 of seconds; JSON numbers are not
_LATELY_S: Final = 86_400
_UNKNOWN_HISTORY: Final = StakeHistory({})

Status = Literal["inactive", "activating", "active", "deactivating"]


def read(held: Held, world: World) -> Reading:
    """Return a wallet's stake accounts, as of the epoch that the chain's clock says."""
    accounts = [*_accounts(held)]
    if not accounts:
        return []
    found = yield (addresses.CLOCK, addresses.STAKE_HISTORY)
    missing = [each for each in (addresses.CLOCK, addresses.STAKE_HISTORY) if each not in found]
    if clock := found.get(addresses.CLOCK):
        now = clock_of(clock)
        world = World(now.slot, now.time_s, now.epoch)
    history = None
    if stored := found.get(addresses.STAKE_HISTORY):
        history = stake_history_of(stored)
    references = _oldest(found)
    return [
        _position(account, stake, held.wallet, world, history, missing, references)
        for account, stake in accounts
    ]


def _accounts(held: Held) -> Iterator[tuple[Account, StakeAccount]]:
    for kind in (STAKE, STAKE_GENESIS):
        for account in held.of(kind):
            if account.data[:4] == _UNINITIALIZED:  # its authorities are what somebody left there
                continue
            try:
                stake = read_stake(account.data)
            except BadStake as error:
                raise Unreadable(str(error), account.address) from None
            if held.wallet in (stake.withdrawer, stake.staker):
                yield account, stake


def _oldest(found: Mapping[bytes, Account]) -> int | None:
    return min((account.slot for account in found.values()), default=None)


def _position(
    account: Account,
    stake: StakeAccount,
    wallet: bytes,
    world: World,
    history: StakeHistory | None,
    missing: list[bytes],
    reference_slot: int | None,
) -> Position:
    of = stake.delegation
    known = None
    if of is None:
        known = Activation(0, 0, 0)
    elif history is not None or not needs_history(of, world.epoch):
        known = activation(of, world.epoch, history or _UNKNOWN_HISTORY)
    is_locked = stake.lockup.is_in_force(world.time_s, world.epoch, stake.withdrawer)
    is_withdrawer = stake.withdrawer == wallet
    block = Stake(
        validator=of.vote_account if of else None,
        status=_status(of, known, world.epoch),
        effective_lamports=known.effective if known else None,
        activation_epoch=of.activation_epoch if of and of.activation_epoch < MAX_EPOCH else None,
        deactivation_epoch=(
            of.deactivation_epoch if of and of.deactivation_epoch < MAX_EPOCH else None
        ),
        authority="withdrawer" if is_withdrawer else "staker",
        epoch=world.epoch,
        epoch_slot=world.slot,
        locked_until_ms=_lockup_ms(stake.lockup.until_s) if is_locked else None,
        locked_until_epoch=stake.lockup.until_epoch if is_locked else None,
    )
    return Position(
        "native",
        account,
        assets=[*_assets(account, stake, known, world.epoch, is_locked)] if is_withdrawer else [],
        missing=missing if known is None else [],
        reference_slot=reference_slot,
        stake=block,
        locks=[*_locks(account, stake, world, is_locked=is_locked)] if is_withdrawer else [],
    )


def _locks(
    account: Account, stake: StakeAccount, world: World, *, is_locked: bool
) -> Iterator[Lock]:
    lockup = stake.lockup
    if stake.withdrawer == lockup.custodian:
        return
    locked_raw = account.lamports if is_locked else 0
    if lockup.until_epoch > world.epoch:  # when an epoch ends nobody knows
        yield Lock("term", locked_raw)
    elif lockup.until_s > world.time_s - _LATELY_S:
        yield Lock("term", locked_raw, ends_ms=_lockup_ms(lockup.until_s))


def _lockup_ms(until_s: int) -> int:
    return max(0, min(until_s * 1000, _LATEST_MS))


def _status(of: Delegation | None, known: Activation | None, epoch: int) -> Status:
    """Return the status; without the stake history that of a stake that has warmed up."""
    if of is None:
        return "inactive"
    if known is None:
        return "active" if epoch < of.deactivation_epoch else "deactivating"
    if known.deactivating:
        return "deactivating"
    if known.activating:
        return "activating"
    return "active" if known.effective else "inactive"


def _assets(
    account: Account, stake: StakeAccount, known: Activation | None, epoch: int, is_locked: bool
) -> Iterator[Asset]:
    of = stake.delegation
    delegated = of.stake_lamports if of else 0
    is_leaving = of is not None and epoch >= of.deactivation_epoch
    if is_leaving and known is not None:  # else all of it, until it is known how much has left
        delegated = known.effective
    kept = delegated + stake.rent_lamports if delegated else 0  # without a stake, it may be closed
    kept = account.lamports if is_locked else min(kept, account.lamports)
    role = Role.PENDING if is_leaving and not is_locked else Role.LOCKED
    for of_role, lamports in ((role, kept), (Role.SUPPLY, account.lamports - kept)):
        if lamports:
            yield Asset(of_role, _SOL, lamports, _DECIMALS)


PROTOCOL: Final = Protocol(
    "native_stake",
    (STAKE, STAKE_GENESIS),
    (Route("native", Shape.STAKING, "Stake accounts that a wallet may withdraw or delegate"),),
    read,
)
