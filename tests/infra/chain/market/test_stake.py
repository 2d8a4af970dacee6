"""Stake accounts live through epochs, and what the bank writes of them is what a reader needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from struct import unpack_from

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.chain.market import Knobs, Market
from infra.chain.market.runtime.stake import (
    EPOCH_SLOTS,
    NEVER,
    STAKE_RENT_LAMPORTS,
    Clock,
    Moved,
    Stake,
    StakeHistory,
    Vote,
    epoch_of,
)
from infra.chain.source import SlotCompleted
from schemas.solana.addresses import (
    CLOCK,
    STAKE_HISTORY,
    STAKE_PROGRAM,
    SYSVAR_PROGRAM,
    VOTE_PROGRAM,
)

A, B, V = b"\1" * 32, b"\2" * 32, b"\3" * 32
KNOBS = Knobs(seed=5, rate=250, wallets=60, forks=0, skipped=0.05, failed=0.2)


def test_a_stake_account_has_the_programs_layout():
    stake = Stake(A, B, V, 7_000, 100, 105, 42)
    data = stake.data()
    assert len(data) == 200
    assert unpack_from("<IQ", data) == (2, STAKE_RENT_LAMPORTS)
    assert (data[12:44], data[44:76], data[124:156]) == (A, B, V)
    assert unpack_from("<QQQdQ", data, 156) == (7_000, 100, 105, 0.25, 42)
    initialized = Stake(A, B).data()
    assert unpack_from("<I", initialized) == (1,)
    assert initialized[124:] == bytes(76)


def test_sysvars_have_their_layouts():
    assert unpack_from("<QqQQq", Clock(1_234, 5, 9).data()) == (1_234, 5, 12, 13, 9)
    assert len(Clock(1, 2, 3).data()) == 40
    history = StakeHistory({}).after(7, Moved(1, 2, 3)).after(8, Moved(4, 5, 6))
    assert unpack_from("<9Q", history.data()) == (2, 8, 4, 5, 6, 7, 1, 2, 3)
    for epoch in range(9, 700):
        history = history.after(epoch, Moved())
    assert list(history.epochs) == list(range(699, 699 - 512, -1))
    vote = Vote(A, 5).earned(3, 10).earned(4, 10)
    assert len(vote.data()) == 3_762
    assert vote.data()[4:36] == A
    assert vote.credits == ((3, 10, 0), (4, 20, 10))


@given(
    delegated=st.integers(1, 10**18),
    activation=st.integers(0, 30),
    length=st.none() | st.integers(0, 30),
    epochs=st.lists(
        st.tuples(*[st.integers(0, 10**18)] * 3).map(lambda values: Moved(*values)), max_size=60
    ),
    at=st.integers(0, 60),
)
def test_no_more_than_the_stake_is_effective_or_moves(delegated, activation, length, epochs, at):
    end = NEVER if length is None else activation + length
    stake = Stake(A, A, V, delegated, activation, end)
    effective, activating, deactivating = stake.moved(at, dict(enumerate(epochs)))
    assert 0 <= effective <= delegated
    assert 0 <= activating <= delegated - effective
    assert deactivating == (effective if at >= end else 0)


def test_a_stake_warms_up_and_cools_down_by_nine_percent_of_the_cluster():
    stake = Stake(A, A, V, 1_000, 10, 20)
    history = {epoch: Moved(2_000, 1_000, 0) for epoch in range(20)}
    history |= {epoch: Moved(2_000, 0, 1_000) for epoch in range(20, 40)}
    assert [stake.moved(epoch, history) for epoch in (9, 10, 11, 12)] == [
        Moved(0, 0, 0),
        Moved(0, 1_000, 0),
        Moved(180, 820, 0),
        Moved(180 + 147, 820 - 147, 0),
    ]
    full = Stake(A, A, V, 1_000, 0, 20)
    quiet = {**history, 0: Moved(10**9, 1_000, 0)}
    assert [full.moved(epoch, quiet).effective for epoch in (1, 19, 20, 21, 22)] == [
        1_000,
        1_000,
        1_000,
        820,
        820 - 147,
    ]


def blocks(market: Market, slots: int) -> Iterator[SlotCompleted]:
    for event in market.generate(slots):
        if isinstance(event, SlotCompleted):
            yield event


@pytest.mark.slow
def test_every_block_writes_the_clock_and_every_epoch_the_history_and_rewards():
    market = Market(replace(KNOBS, rate=20))
    lamports = {each.address: each.lamports for each in market.genesis_accounts()}
    epochs = []
    for event in blocks(market, 3 * EPOCH_SLOTS + 20):
        header, writes = event.header, {write.address: write for write in event.writes}
        clock = writes[CLOCK]
        assert clock.owner == SYSVAR_PROGRAM
        slot, _, epoch, leader_epoch, time_s = unpack_from("<QqQQq", clock.data)
        assert (slot, time_s, leader_epoch) == (header.slot, header.block_time, epoch + 1)
        begins = epoch_of(header.parent_slot) < epoch
        assert (STAKE_HISTORY in writes) == bool(event.rewards) == begins
        if not begins:
            continue
        epochs.append(epoch)
        count, newest, effective = unpack_from("<QQQ", writes[STAKE_HISTORY].data)
        assert count >= 8
        assert newest == epoch - 1
        assert effective > 10**12
        for reward in event.rewards:
            write = writes[reward.address]
            assert reward.lamports > 0
            owner = STAKE_PROGRAM if reward.kind == "Staking" else VOTE_PROGRAM
            assert write.owner == owner
            before = lamports.get(reward.address)
            if len(epochs) == 1:  # nothing but the reward has happened
                assert write.lamports == reward.post_lamports == before + reward.lamports
    assert epochs == list(range(epochs[0], epochs[0] + 4))
