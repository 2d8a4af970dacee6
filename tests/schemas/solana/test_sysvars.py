"""Sysvars as the chain's own code writes them, and what is made of damaged ones."""

from __future__ import annotations

from random import Random

import pytest
from solders.clock import Clock as SvmClock
from solders.litesvm import LiteSVM
from solders.pubkey import Pubkey
from solders.stake_history import StakeHistory as SvmHistory
from solders.stake_history import StakeHistoryEntry

from schemas.solana.addresses import CLOCK, STAKE_HISTORY
from schemas.solana.sysvars import BadSysvar, Clock, read_clock, read_stake_history

U64 = 2**64 - 1


def stored(vm: LiteSVM, address: bytes) -> bytes:
    account = vm.get_account(Pubkey(address))
    assert account is not None
    return bytes(account.data)


def test_both_read_what_the_chain_writes() -> None:
    rng = Random(3)
    vm = LiteSVM()
    for _ in range(50):
        clock = Clock(
            rng.randint(0, U64),
            rng.randint(-(2**63), 2**63 - 1),
            rng.randint(0, U64),
            rng.randint(0, U64),
            rng.randint(-(2**63), 2**63 - 1),
        )
        vm.set_clock(SvmClock(*clock))
        assert read_clock(stored(vm, CLOCK)) == clock
        epochs = {
            epoch: tuple(rng.randint(0, U64) for _ in range(3))
            for epoch in rng.sample(range(1000), rng.randint(0, 512))
        }
        history = SvmHistory()
        for epoch, stake in epochs.items():
            history.add(epoch, StakeHistoryEntry(*stake))
        vm.set_stake_history(history)
        assert read_stake_history(stored(vm, STAKE_HISTORY)).epochs == epochs


def test_short_ones_are_named() -> None:
    with pytest.raises(BadSysvar, match="39 bytes, a clock has 40"):
        read_clock(bytes(39))
    with pytest.raises(BadSysvar, match="7 bytes"):
        read_stake_history(bytes(7))
    with pytest.raises(BadSysvar, match="39 bytes, its count of entries says 40"):
        read_stake_history(b"\1" + bytes(38))
