"""What holds after four epochs of a busy market with forks: one run, and each program asked.

Lenders, liquidity, stakes and coins each need hundreds of slots before all that can happen to them
has; a market of its own for each took a minute more.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import NamedTuple

import pytest

from infra.chain.market import Knobs, Market
from infra.chain.market.invariants import Invariants
from infra.chain.market.runtime import klend, marginfi
from infra.chain.market.runtime.programs import (
    KLEND,
    MARGINFI,
    ORCA_WHIRLPOOL,
    RAYDIUM_CLMM,
    STAKE,
)
from infra.chain.market.runtime.stake import (
    EPOCH_SLOTS,
    STAKE_RENT_LAMPORTS,
    Stake,
    StakeHistory,
    Vote,
    epoch_of,
)
from infra.chain.market.venues.ranges import RangedPool, RangedPosition
from infra.chain.source import AccountWrite, ChainTransaction, SlotCompleted, SlotTransactions
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.addresses import STAKE_HISTORY, STAKE_PROGRAM

pytestmark = pytest.mark.slow  # runs a market

KNOBS = Knobs(seed=5, rate=250, wallets=100, forks=0.1, skipped=0.05, failed=0.2)
SLOTS = 4 * EPOCH_SLOTS
POOL_SIZES = 653, 1_544  # of a Whirlpool and of a pool of Raydium
STAKE_NAMES = {0: "initialize", 2: "delegate", 4: "withdraw", 5: "deactivate"}


class Run(NamedTuple):
    """The market at its end, and what was seen on the way."""

    market: Market
    written: Counter[bytes]  # writes of transactions, by the program that owns the account
    sizes: Counter[int]  # accounts of both ranged venues that were written, by size
    staked: Counter[tuple[str, bool]]  # instructions of the stake program, and whether they failed
    closed_stakes: int


@lru_cache(maxsize=1)
def ran() -> Run:
    run = Run(Market(KNOBS), Counter(), Counter(), Counter(), 0)
    stakes: dict[bytes, AccountWrite] = {}
    closed = 0
    for event in run.market.generate(SLOTS):
        match event:
            case SlotTransactions(_, transactions):
                for transaction in transactions:
                    run.written.update(write.owner for write in transaction.writes)
                    see_ranged(run.sizes, transaction.writes)
                    # Pools are written once a slot, at its end.
                    assert not any(len(each.data) in POOL_SIZES for each in transaction.writes)
                    if STAKE.address in transaction.accounts:
                        run.staked.update(stake_instructions(transaction))
                        for write in transaction.writes:
                            closed += write.address in stakes and not write.lamports
                            if write.owner == STAKE_PROGRAM:
                                assert len(write.data) == 200
                                stakes[write.address] = write
            case SlotCompleted():
                see_ranged(run.sizes, event.writes)
                addresses = [each.address for each in event.writes]
                assert len(addresses) == len(set(addresses))
    return run._replace(closed_stakes=closed)


def see_ranged(sizes: Counter[int], writes: tuple[AccountWrite, ...]) -> None:
    for each in writes:
        if each.owner in (ORCA_WHIRLPOOL.address, RAYDIUM_CLMM.address):
            sizes[len(each.data)] += 1


def stake_instructions(transaction: ChainTransaction) -> list[tuple[str, bool]]:
    message = SubscribeUpdateTransactionInfo.FromString(transaction.info).transaction.message
    return [
        (STAKE_NAMES[int.from_bytes(each.data[:4], "little")], transaction.failed)
        for each in message.instructions
        if message.account_keys[each.program_id_index] == STAKE.address
    ]


def test_supplies_are_those_of_the_mints() -> None:
    Invariants(ran().market).check_supply()


def test_shares_of_all_lenders_are_their_banks_and_vaults_can_pay() -> None:
    world = ran().market.world
    ledger, lender = world.ledger, world.lender
    assert ran().written[MARGINFI.address] > 200
    accounts = [
        each for each in ledger.natives.values() if isinstance(each, marginfi.LendingAccount)
    ]
    assert len(accounts) == len(lender.wallets) + 2
    assert any(each.debts for account in accounts for each in account.balances)
    for lent in lender.banks:
        bank = ledger.natives[lent.address]
        assert isinstance(bank, marginfi.Bank)
        assert bank.assets == sum(account.of(lent.address).assets for account in accounts)
        assert bank.debts == sum(account.of(lent.address).debts for account in accounts)
        spare = ledger.balance(lent.vault) + bank.owed(bank.debts) - bank.deposited(bank.assets)
        assert -1_000 < spare < 10_000


def test_collateral_and_debts_of_all_are_their_reserves_and_vaults_hold_what_is_there() -> None:
    world = ran().market.world
    ledger, lender = world.ledger, world.klend
    assert ran().written[KLEND.address] > 200
    obligations = [each for each in ledger.natives.values() if isinstance(each, klend.Obligation)]
    assert len(obligations) > len(lender.wallets) // 2
    for lent in lender.lents:
        reserve = lender.reserve(lent)
        assert reserve.available_raw == ledger.balance(lent.vault)
        held = sum(each.deposit_of(lent.address).collateral_raw for each in obligations)
        assert reserve.collateral_raw == lent.collateral_mint.supply_raw == held
        assert ledger.balance(lent.collateral_vault) == held
        debts = [each.borrow_of(lent.address) for each in obligations]
        owed_sf = sum(each.counted(reserve.rate_sf).amount_sf for each in debts if each.amount_sf)
        assert any(each.amount_sf for each in debts)
        assert abs(reserve.debt_sf - owed_sf) < klend.ONE // 100
        assert reserve.rate_sf > klend.ONE
        assert reserve.fees_sf > 0
    assert any(ledger.balance(lent.fee_vault) for lent in lender.lents)  # some were liquidated


def test_providers_use_all_instructions_and_liquidity_in_range_is_the_pools() -> None:
    assert min(ran().sizes[size] for size in (216, 653, 9_988, 281, 1_544, 10_240)) > 10
    world = ran().market.world
    for pool in world.directory.pools.values():
        if isinstance(pool, RangedPool):
            in_range = sum(
                each.liquidity
                for each in world.ledger.natives.values()
                if isinstance(each, RangedPosition)
                and each.pool == pool.address
                and each.lower <= pool.tick < each.upper
            )
            assert in_range == pool.liquidity


def test_wallets_create_delegate_deactivate_withdraw_and_close() -> None:
    run = ran()
    assert {name for name, failed in run.staked if not failed} == set(STAKE_NAMES.values())
    assert run.staked["deactivate", True] > 0
    assert run.closed_stakes > 3
    ledger = run.market.world.ledger
    history = ledger.natives[STAKE_HISTORY]
    assert isinstance(history, StakeHistory)
    epoch = epoch_of(KNOBS.start_slot + SLOTS)
    for address, native in ledger.natives.items():
        if isinstance(native, Stake):
            effective = native.moved(epoch, history.epochs).effective
            assert ledger.lamports[address] >= effective + STAKE_RENT_LAMPORTS


def test_validators_have_the_stake_that_is_effective() -> None:
    market = ran().market
    slot = KNOBS.start_slot + SLOTS
    found = {each.address: each for each in market.vote_accounts(slot)}
    natives = market.world.ledger.natives
    history = natives[STAKE_HISTORY]
    assert isinstance(history, StakeHistory)
    votes = {at: each for at, each in natives.items() if isinstance(each, Vote)}
    expected = Counter(dict.fromkeys(votes, 0))
    for native in natives.values():
        if isinstance(native, Stake) and native.voter is not None:
            expected[native.voter] += native.moved(epoch_of(slot), history.epochs).effective
    assert {at: each.activated_stake_lamports for at, each in found.items()} == expected
    assert expected.total() > 0
    for at, each in found.items():
        assert each.epoch_credits == votes[at].credits[-5:] != ()


def test_most_who_sell_all_of_a_coin_close_the_empty_account() -> None:
    world = ran().market.world
    held = [each for each in world.ledger.tokens.values() if each.mint.address in world.launched]
    empty = [each for each in held if not each.amount_raw]
    assert len(held) > 1_000
    assert len(empty) < len(held) / 10
    assert empty, "some leave it open"
