"""Effective stake, to the lamport, against two judges.

The program itself, as the chain runs it, lets everything be withdrawn but what is effective (from
the epoch of the deactivation on). The npm package `solana-rpc-get-stake-activation` copies the
rule, but rounds a share where the program cuts it: with `Math.trunc` in place of `Math.round` it
must be equal; as it is, a part differs, and is counted.
"""

from __future__ import annotations

from random import Random
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.account import Account
from solders.clock import Clock
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import Message
from solders.pubkey import Pubkey
from solders.stake_history import StakeHistory as SvmHistory
from solders.stake_history import StakeHistoryEntry
from solders.transaction import Transaction
from solders.transaction_metadata import SimulatedTransactionInfo

from schemas.solana import addresses
from schemas.solana.stake_accounts import MAX_EPOCH, Delegation
from schemas.solana.stake_activation import Activation, activation, needs_history
from schemas.solana.sysvars import ClusterStake, StakeHistory
from tests.schemas.solana import peer

SOL = 10**9
RESERVE = 2_282_880


def random_case(rng: Random) -> tuple[Delegation, int, StakeHistory]:
    """Return a delegation, an epoch to ask for, and a history of the epochs before it."""
    epoch = rng.randint(20, 60)
    active = rng.choice((rng.randint(1, 10**6), rng.randint(1, 4 * 10**8 * SOL)))
    history = {}
    for at in range(rng.randint(0, 15), epoch):
        changing = (max(1, int(active * rng.choice((0.2, 2, 5)) * rng.random())) for _ in "ad")
        history[at] = ClusterStake(active, *changing)
        active = max(1, int(active * rng.uniform(0.92, 1.08)))
    activated = rng.choice((rng.randint(0, epoch), rng.randint(epoch - 8, epoch)))
    is_deactivated = rng.random() < 0.6
    last = rng.randint(max(activated, epoch - 8), epoch)
    deactivated = rng.choice((rng.randint(activated, epoch), last)) if is_deactivated else MAX_EPOCH
    stake = rng.choice((rng.randint(1, 10**4), rng.randint(1, max(active // 10, 1))))
    return Delegation(bytes(range(32)), stake, activated, deactivated), epoch, StakeHistory(history)


@pytest.mark.node
def test_the_package_agrees(request: pytest.FixtureRequest) -> None:
    rng = Random(15)
    cases = [random_case(rng) for _ in range(3000)]
    asked = [
        {
            "activation": {
                "stake": str(of.stake_lamports),
                "activationEpoch": str(of.activation_epoch),
                "deactivationEpoch": str(of.deactivation_epoch),
            },
            "epoch": epoch,
            "history": [[str(at), *map(str, stake)] for at, stake in history.epochs.items()],
        }
        for of, epoch, history in cases
    ]
    ours = [activation(*case) for case in cases]
    coders = peer.Coders(request)

    cut = coders.ask([{**each, "round": "trunc"} for each in asked])
    assert [Activation(**{k: int(v) for k, v in each.items()}) for each in cut] == ours
    moving = [each for each in ours if each.activating or each.deactivating]
    assert len(moving) > 1000  # it is not all of nothing

    rounded = coders.ask([{**each, "round": "round"} for each in asked])
    apart = [
        abs(int(theirs["effective"]) - mine.effective)
        for theirs, mine in zip(rounded, ours, strict=True)
    ]
    print(f"rounding as the package does: {sum(map(bool, apart))} differ, by {max(apart)} at most")
    assert 0 < max(apart) <= 60  # a lamport an epoch at most, before what follows from it


class Svm:
    """The chain's programs; asks what may be withdrawn of a stake account."""

    def __init__(self) -> None:
        self.vm = LiteSVM()
        self.payer = Keypair()
        self.vm.airdrop(self.payer.pubkey(), 100 * SOL)
        self.address = Pubkey(bytes([7]) * 32)

    def can_withdraw(self, lamports: int, *, custodian: bool = False) -> bool:
        """Return whether the program pays this out, where something else remains.

        The withdrawer signs, as the lockup's custodian too where `custodian` says so.
        """
        signer = AccountMeta(self.payer.pubkey(), True, False)
        withdrawn = Instruction(
            Pubkey(addresses.STAKE_PROGRAM),
            pack("<IQ", 4, lamports),
            [
                AccountMeta(self.address, False, True),
                AccountMeta(self.payer.pubkey(), False, True),
                AccountMeta(Pubkey(addresses.CLOCK), False, False),
                AccountMeta(Pubkey(addresses.STAKE_HISTORY), False, False),
                *[signer] * (1 + custodian),
            ],
        )
        message = Message([withdrawn], self.payer.pubkey())
        transaction = Transaction([self.payer], message, self.vm.latest_blockhash())
        return isinstance(self.vm.simulate_transaction(transaction), SimulatedTransactionInfo)

    def put(self, of: Delegation, epoch: int, history: StakeHistory) -> int:
        """Store a stake account and the sysvars; return its lamports."""
        self.vm.set_clock(Clock(1, 0, epoch, epoch + 1, 0))
        stored = SvmHistory()
        for at, stake in history.epochs.items():
            stored.add(at, StakeHistoryEntry(*stake))
        self.vm.set_stake_history(stored)
        lamports = RESERVE + of.stake_lamports + 5
        self.set_data(stake_data(of, bytes(self.payer.pubkey())), lamports)
        return lamports

    def set_data(self, data: bytes, lamports: int) -> None:
        """Store the stake account."""
        owner = Pubkey(addresses.STAKE_PROGRAM)
        self.vm.set_account(self.address, Account(lamports, data, owner))


def stake_data(of: Delegation, authority: bytes) -> bytes:
    meta = pack("<IQ", 2, RESERVE) + authority * 2 + pack("<qQ", 0, 0) + bytes(32)
    dates = (of.stake_lamports, of.activation_epoch, of.deactivation_epoch)
    delegation = of.vote_account + pack("<QQQd", *dates, 0.25)
    return (meta + delegation + pack("<Q", 0)).ljust(200, b"\0")


def test_the_stake_program_agrees() -> None:
    rng = Random(4)
    svm = Svm()
    partial = 0
    for _ in range(400):
        of, epoch, history = random_case(rng)
        if of.deactivation_epoch == MAX_EPOCH:  # the program shows it from then on only
            of = Delegation(of.vote_account, of.stake_lamports, of.activation_epoch, epoch)
        effective = activation(of, epoch, history).effective
        spare = svm.put(of, epoch, history) - RESERVE - effective
        assert svm.can_withdraw(spare), (of, epoch, history, effective)
        assert not svm.can_withdraw(spare + 1), (of, epoch, history, effective)
        partial += 0 < effective < of.stake_lamports
    assert partial > 100


def test_the_rate_before_the_feature() -> None:
    history = StakeHistory({10: ClusterStake(1000, 500, 0), 11: ClusterStake(1000, 500, 0)})
    of = Delegation(bytes(32), 400, 10, MAX_EPOCH)
    assert activation(of, 11, history, new_rate_epoch=12).effective == 200  # 400/500 of 250
    assert activation(of, 11, history, new_rate_epoch=11).effective == 72  # 400/500 of 90
    assert activation(of, 12, history, new_rate_epoch=12).effective == 200 + 36  # 200/500 of 90


def test_nothing_activates_before_the_epoch_and_all_of_it_in_it() -> None:
    of = Delegation(bytes(32), 400, 10, MAX_EPOCH)
    assert activation(of, 9, StakeHistory({})) == (0, 0, 0)
    assert activation(of, 10, StakeHistory({})) == (0, 400, 0)


def test_stake_since_genesis_is_active_until_deactivated() -> None:
    of = Delegation(bytes(32), 400, MAX_EPOCH, MAX_EPOCH)
    assert activation(of, 3, StakeHistory({})) == (400, 0, 0)
    gone = Delegation(bytes(32), 400, MAX_EPOCH, 2)
    assert activation(gone, 2, StakeHistory({})) == (400, 0, 400)
    assert activation(gone, 3, StakeHistory({2: ClusterStake(1000, 0, 100)})).effective == 40


@given(seed=st.integers(0, 2**32))
def test_parts_never_exceed_the_stake(seed: int) -> None:
    of, epoch, history = random_case(Random(seed))
    for at in range(epoch + 3):
        found = activation(of, at, history)
        assert 0 <= found.effective <= of.stake_lamports
        assert found.effective + found.activating <= of.stake_lamports
        assert found.deactivating in (0, found.effective)
        if not needs_history(of, at):
            assert found == activation(of, at, StakeHistory({}))
