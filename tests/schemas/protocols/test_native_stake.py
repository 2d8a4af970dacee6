"""What stake accounts are to a wallet; the reading is driven with a dict."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols.clock import CLOCK, STAKE_HISTORY
from schemas.protocols.contract import Account, Held, Lock, Position, Role, Unreadable, World
from schemas.protocols.native_stake import STAKE, read
from schemas.solana import addresses
from schemas.solana.stake_accounts import MAX_EPOCH, Delegation
from schemas.solana.sysvars import StakeHistory
from tests.schemas.solana.test_stake_activation import Svm, random_case
from tests.support.stake import RESERVE, VOTE, clock_data, history_data, stake_data

WALLET = bytes([1]) * 32
OTHER = bytes([2]) * 32
EPOCH = 100
NOW_S = 1_763_700_000
DAY_AGO_S = NOW_S - 86_400
SOL = 10**9
# 9 % of 1,000 SOL move an epoch; 900 SOL want to.
HISTORY = dict.fromkeys(range(90, EPOCH), (1000 * SOL, 900 * SOL, 900 * SOL))


def references(**left_out: Any) -> dict[bytes, Account]:
    clock = clock_data(5000, EPOCH, NOW_S)
    known = {
        addresses.CLOCK: Account(addresses.CLOCK, CLOCK, 1, clock, 5000),
        addresses.STAKE_HISTORY: Account(
            addresses.STAKE_HISTORY, STAKE_HISTORY, 1, history_data(HISTORY), 4000
        ),
    }
    return {name: known[name] for name in known if name not in left_out.values()}


def read_one(data: bytes, lamports: int, known: dict[bytes, Account] | None = None) -> Position:
    account = Account(b"a" * 32, STAKE, lamports, data, 4500)
    reading = read(Held(WALLET, [account]), World(5000, NOW_S, EPOCH))
    wanted = next(reading)
    assert set(wanted) == {addresses.CLOCK, addresses.STAKE_HISTORY}
    with pytest.raises(StopIteration) as end:
        reading.send(references() if known is None else known)
    [position] = end.value.value
    return position


def lines(position: Position) -> dict[Role, int]:
    return {asset.role: asset.amount_raw for asset in position.assets}


@pytest.mark.parametrize(
    (
        "activated",
        "deactivated",
        "status",
        "effective",
        "expected",
    ),  # the reserve is with the first
    [
        (MAX_EPOCH, MAX_EPOCH, "active", 90, {Role.LOCKED: 90}),
        (50, MAX_EPOCH, "active", 90, {Role.LOCKED: 90}),
        (EPOCH, MAX_EPOCH, "activating", 0, {Role.LOCKED: 90}),
        (EPOCH - 1, MAX_EPOCH, "activating", 9, {Role.LOCKED: 90}),
        (50, EPOCH, "deactivating", 90, {Role.PENDING: 90}),
        (50, EPOCH - 1, "deactivating", 81, {Role.PENDING: 81, Role.SUPPLY: 9}),
        (50, 60, "inactive", 0, {Role.SUPPLY: 90}),
        (EPOCH, EPOCH, "inactive", 0, {Role.SUPPLY: 90}),
    ],
)
def test_a_delegation_in_each_status(
    activated: int, deactivated: int, status: str, effective: int, expected: dict[Role, int]
) -> None:
    data = stake_data(WALLET, stake=90 * SOL, activated=activated, deactivated=deactivated)
    position = read_one(data, 90 * SOL + RESERVE)
    assert position.stake is not None
    assert position.stake.status == status
    assert position.stake.effective_lamports == effective * SOL
    assert position.stake.validator == VOTE
    assert (position.stake.epoch, position.stake.epoch_slot) == (EPOCH, 5000)
    with_reserve = next(iter(expected))
    expected = {role: sol * SOL for role, sol in expected.items()}
    assert lines(position) == {**expected, with_reserve: expected[with_reserve] + RESERVE}
    assert (position.missing, position.reference_slot) == ([], 4000)


def test_what_is_not_delegated_can_be_withdrawn() -> None:
    position = read_one(stake_data(WALLET), 7 * SOL)
    assert lines(position) == {Role.SUPPLY: 7 * SOL}
    assert position.stake is not None
    assert (position.stake.status, position.stake.validator) == ("inactive", None)
    assert position.stake.effective_lamports == 0


def test_a_staker_owns_nothing() -> None:
    data = stake_data(OTHER, staker=WALLET, stake=90 * SOL, activated=50)
    position = read_one(data, 91 * SOL)
    assert position.assets == []
    assert position.stake is not None
    assert position.stake.authority == "staker"
    assert position.stake.effective_lamports == 90 * SOL


@pytest.mark.parametrize(
    ("lockup", "is_locked"),
    [
        ({"locked_until_s": NOW_S + 1}, True),
        ({"locked_until_s": NOW_S}, False),
        ({"locked_until_epoch": EPOCH + 1}, True),
        ({"locked_until_epoch": EPOCH}, False),
    ],
)
def test_a_lockup_locks_all(lockup: dict[str, int], is_locked: bool) -> None:
    position = read_one(stake_data(WALLET, **lockup), 7 * SOL)
    assert lines(position) == {Role.LOCKED if is_locked else Role.SUPPLY: 7 * SOL}
    assert position.stake is not None
    locked_until = (position.stake.locked_until_ms, position.stake.locked_until_epoch)
    until = (lockup.get("locked_until_s", 0) * 1000, lockup.get("locked_until_epoch", 0))
    assert locked_until == (until if is_locked else (None, None))


@pytest.mark.parametrize(
    ("lockup", "expected"),
    [
        ({"locked_until_s": NOW_S + 1}, [Lock("term", 7 * SOL, ends_ms=NOW_S * 1000 + 1000)]),
        ({"locked_until_s": NOW_S}, [Lock("term", 0, ends_ms=NOW_S * 1000)]),
        ({"locked_until_s": DAY_AGO_S + 1}, [Lock("term", 0, ends_ms=DAY_AGO_S * 1000 + 1000)]),
        ({"locked_until_s": DAY_AGO_S}, []),
        ({"locked_until_s": NOW_S + 1, "locked_until_epoch": EPOCH + 1}, [Lock("term", 7 * SOL)]),
        ({}, []),
    ],
)
def test_a_lockup_is_listed_until_a_day_after_its_end(
    lockup: dict[str, int], expected: list[Lock]
) -> None:
    assert read_one(stake_data(WALLET, **lockup), 7 * SOL).locks == expected
    own = stake_data(WALLET, custodian=WALLET, **lockup)
    other_s = stake_data(OTHER, staker=WALLET, **lockup)
    assert (read_one(own, SOL).locks, read_one(other_s, SOL).locks) == ([], [])


@pytest.mark.parametrize(
    "lockup", [{"locked_until_s": NOW_S + 1}, {"locked_until_epoch": EPOCH + 1}]
)
def test_a_lockup_does_not_hold_for_its_custodian(lockup: dict[str, int]) -> None:
    """`Lockup::is_in_force`: not where the custodian signs, who is the withdrawer here."""
    own = stake_data(WALLET, custodian=WALLET, stake=6 * SOL, activated=50, **lockup)
    position = read_one(own, 7 * SOL)
    assert lines(position) == {Role.LOCKED: 6 * SOL + RESERVE, Role.SUPPLY: SOL - RESERVE}
    assert position.stake is not None
    assert (position.stake.locked_until_ms, position.stake.locked_until_epoch) == (None, None)
    of_staker = stake_data(WALLET, staker=OTHER, custodian=OTHER, **lockup)
    assert lines(read_one(of_staker, 7 * SOL)) == {Role.LOCKED: 7 * SOL}


def test_the_stake_program_lets_a_custodian_withdraw_in_spite_of_a_lockup() -> None:
    svm = Svm()
    svm.put(Delegation(VOTE, SOL, 1, 2), 50, StakeHistory({}))
    wallet = bytes(svm.payer.pubkey())
    for custodian, can_withdraw in ((wallet, True), (OTHER, False)):
        dates = {"activated": 1, "deactivated": 2, "locked_until_epoch": 51}
        svm.set_data(stake_data(wallet, stake=SOL, custodian=custodian, **dates), 2 * SOL)
        assert svm.can_withdraw(SOL, custodian=True) is can_withdraw
        assert svm.can_withdraw(SOL) is False


def test_without_the_history_only_what_needs_it_is_unknown() -> None:
    known = references(without=addresses.STAKE_HISTORY)
    data = stake_data(WALLET, stake=90 * SOL, activated=50)
    position = read_one(data, 91 * SOL, known)
    assert position.missing == [addresses.STAKE_HISTORY]
    assert position.stake is not None
    assert position.stake.effective_lamports is None
    assert lines(position) == {Role.LOCKED: 90 * SOL + RESERVE, Role.SUPPLY: SOL - RESERVE}
    since_genesis = read_one(stake_data(WALLET, stake=90 * SOL), 91 * SOL, known)
    assert since_genesis.missing == []
    assert since_genesis.stake is not None
    assert since_genesis.stake.effective_lamports == 90 * SOL


def test_an_account_that_is_none_is_named() -> None:
    account = Account(b"a" * 32, STAKE, 1, bytes([3]) + bytes(199), 4500)
    with pytest.raises(Unreadable, match="state is 3") as failure:
        next(read(Held(WALLET, [account]), World(1, 1, 1)))
    assert failure.value.account == account.address


def test_what_is_not_initialized_is_nobody_s_though_it_names_a_wallet() -> None:
    named = bytes(12) + WALLET + WALLET + bytes(124)
    with pytest.raises(StopIteration) as end:
        next(read(Held(WALLET, [Account(b"a" * 32, STAKE, 1, named, 4500)]), World(1, 1, 1)))
    assert end.value.value == []


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1))
def test_any_lockup_is_a_number_of_json(until_s: int, until_epoch: int) -> None:
    data = bytearray(stake_data(WALLET, stake=90 * SOL))
    data[76:92] = struct.pack("<qQ", until_s, until_epoch)
    block = read_one(bytes(data), 91 * SOL).stake
    assert block is not None
    if (found_ms := block.locked_until_ms) is not None:
        assert 0 <= found_ms < 2**53
        orjson.dumps([found_ms, block.locked_until_epoch])


def test_a_wallet_without_stake_asks_for_nothing() -> None:
    with pytest.raises(StopIteration) as end:
        next(read(Held(WALLET, []), World(1, 1, 1)))
    assert end.value.value == []


def test_what_is_supplied_is_what_the_stake_program_pays() -> None:
    """The program itself, as the chain runs it: this, and not a lamport more, beside what stays."""
    rng, svm = Random(7), Svm()
    paid = 0
    for _ in range(200):
        of, epoch, history = random_case(rng)
        lamports = svm.put(of, epoch, history)
        data = stake_data(
            WALLET,
            stake=of.stake_lamports,
            activated=of.activation_epoch,
            deactivated=of.deactivation_epoch,
        )
        of_history = {at: tuple(stake) for at, stake in history.epochs.items()}
        known = {
            addresses.CLOCK: references()[addresses.CLOCK]._replace(data=clock_data(1, epoch, 0)),
            addresses.STAKE_HISTORY: references()[addresses.STAKE_HISTORY]._replace(
                data=history_data(of_history)
            ),
        }
        position = read_one(data, lamports, known)
        free = lines(position).get(Role.SUPPLY, 0)
        assert svm.can_withdraw(free) is True
        if free < lamports:
            paid += free > 5
            assert svm.can_withdraw(free + 1) is False
    assert paid > 20


@given(
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.integers(80, EPOCH + 2),
    st.one_of(st.just(MAX_EPOCH), st.integers(80, EPOCH + 2)),
    st.booleans(),
)
def test_assets_are_the_lamports_of_the_account(
    stake: int, spare: int, activated: int, deactivated: int, is_locked: bool
) -> None:
    data = stake_data(
        WALLET,
        stake=stake,
        activated=activated,
        deactivated=deactivated,
        locked_until_epoch=EPOCH + 1 if is_locked else 0,
    )
    position = read_one(data, stake + spare)
    assert sum(lines(position).values()) == stake + spare
    assert all(raw > 0 for raw in lines(position).values())
