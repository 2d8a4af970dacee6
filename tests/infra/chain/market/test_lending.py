"""The lender of the market: its bytes, its sums, and what liquidation does."""

from __future__ import annotations

from dataclasses import replace
from struct import unpack_from

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.chain.market import Knobs, Market
from infra.chain.market.invariants import Invariants
from infra.chain.market.runtime import marginfi_program as program
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.marginfi import (
    ONE,
    YEAR_S,
    Balance,
    Bank,
    LendingAccount,
    Weights,
    fixed,
    health,
)
from infra.chain.market.runtime.marginfi_program import Holder, Lent

KNOBS = Knobs(seed=5, rate=400, wallets=200, forks=0.1, skipped=0.05, failed=0.2)
WEIGHTS = Weights(ONE * 8 // 10, ONE * 9 // 10, ONE * 12 // 10, ONE * 11 // 10)
G, M, V, S, A, B, W = (bytes((number,)) * 32 for number in range(1, 8))
BANK = Bank(G, M, 6, V, S, WEIGHTS, updated_s=1_000, price=ONE)

shares = st.integers(0, 10**18 * ONE)


def test_accounts_have_the_programs_layout() -> None:
    bank = replace(BANK, asset_value=2 * ONE, debt_value=3 * ONE, assets=5 * ONE, debts=ONE).data()
    assert len(bank) == 1_864
    assert (bank[8:40], bank[40], bank[41:73]) == (M, 6, G)
    assert (bank[80:96], bank[96:112]) == (fixed(2 * ONE), fixed(3 * ONE))
    assert (bank[112:144], bank[146:178]) == (V, S)
    assert (bank[256:272], bank[272:288]) == (fixed(ONE), fixed(5 * ONE))
    assert unpack_from("<q", bank, 288) == (1_000,)
    assert (bank[312:328], bank[344:360]) == (fixed(WEIGHTS.asset), fixed(WEIGHTS.debt))
    account = LendingAccount(G, W).with_balance(Balance(A, 7, 0, 50))
    account = account.with_balance(Balance(B, 0, 9, 60))
    data = account.data()
    assert len(data) == 2_312
    assert (data[8:40], data[40:72]) == (G, W)
    assert (data[72], data[73:105], data[144:160]) == (1, B, fixed(0))  # descending by bank
    assert data[72 + 56 : 72 + 72] == fixed(9)
    assert unpack_from("<Q", data, 72 + 88) == (60,)
    assert data[72 + 208 : 72 + 1_664] == bytes(1_456)
    assert account.with_balance(Balance(A)).balances == (Balance(B, 0, 9, 60),)


@given(assets=shares, debts=shares, past_s=st.integers(0, 10 * YEAR_S), price=shares)
def test_interest_makes_a_bank_owe_no_more_than_it_is_owed(
    assets: int, debts: int, past_s: int, price: int
) -> None:
    bank = replace(BANK, assets=assets, debts=min(debts, assets))
    later = bank.accrued(1_000 + past_s, price)
    earned = later.deposited(assets) - bank.deposited(assets)
    paid = later.owed(bank.debts) - bank.owed(bank.debts)
    assert 0 <= earned <= paid + (bank.debts >> 95) + 2  # a share's value is rounded down
    assert later.updated_s == 1_000 + past_s
    assert later.accrued(1_000 + past_s, price) == later
    assert later.price == price


@given(amount=st.integers(1, 10**15), value=st.integers(ONE, 100 * ONE))
def test_a_bank_gains_by_rounding(amount: int, value: int) -> None:
    bank = replace(BANK, asset_value=value, debt_value=value)
    assert bank.deposited(bank.asset_shares(amount)) <= amount
    assert bank.owed(bank.debt_shares(amount, up=True)) >= amount


@pytest.fixture
def market() -> Market:
    return Market(replace(KNOBS, forks=0))


def ran(market: Market, payer: bytes, *steps: Step, cosigners: tuple[bytes, ...] = ()) -> Execution:
    tx = Execution(
        market.world.ledger,
        Intent(1, payer, steps, bytes(32), cosigners=cosigners),
        market.knobs.start_slot,
        market.knobs.start_time_ms // 1_000,
    )
    tx.run()
    return tx


def worth(market: Market, at: bytes, prices: dict[bytes, int]) -> tuple[int, int]:
    banks = {}
    for lent in market.world.lender.banks:
        bank = market.world.ledger.natives[lent.address]
        assert isinstance(bank, Bank)
        banks[lent.address] = replace(bank, price=prices[lent.address])
    account = market.world.ledger.natives[at]
    assert isinstance(account, LendingAccount)
    return health(account, banks, initial=False)


def deposited(market: Market, at: bytes) -> list[int]:
    account, found = market.world.ledger.natives[at], []
    assert isinstance(account, LendingAccount)
    for lent in market.world.lender.banks:
        bank = market.world.ledger.natives[lent.address]
        assert isinstance(bank, Bank)
        found.append(bank.deposited(account.of(lent.address).assets))
    return found


def borrowed(market: Market) -> tuple[Holder, Lent, Lent, dict[bytes, int]]:
    """Give a wallet 100 SOL of collateral and a debt of 10,000 dollars."""
    lender = market.world.lender
    sol, usdc = lender.banks
    prices = {sol.address: 150 * ONE, usdc.address: ONE}
    wallet = lender.wallets[1].address
    of = Holder(b"a" * 32, wallet)
    tx = ran(
        market,
        wallet,
        lambda tx: program.initialize(tx, of, lender.group),
        lambda tx: program.deposit(tx, of, sol, 100 * 10**9, prices),
        lambda tx: program.borrow(tx, of, usdc, 9_000 * 10**6, prices),
        cosigners=(of.account,),
    )
    assert tx.err_code is None
    return of, sol, usdc, prices


def test_a_debt_beyond_its_collateral_is_refused_and_changes_nothing(market: Market) -> None:
    of, _, usdc, prices = borrowed(market)
    before = dict(market.world.ledger.natives)
    held = market.world.ledger.held(of.authority, usdc.mint)
    tx = ran(market, of.authority, lambda tx: program.borrow(tx, of, usdc, 2_000 * 10**6, prices))
    assert tx.err_code == program.RISK_REJECTED
    assert market.world.ledger.natives == before
    assert market.world.ledger.held(of.authority, usdc.mint) == held


def test_a_healthy_account_is_not_liquidated(market: Market) -> None:
    of, sol, usdc, prices = borrowed(market)
    keeper = market.world.lender.keeping
    tx = ran(
        market,
        keeper.authority,
        lambda tx: program.liquidate(tx, keeper, of.account, sol, usdc, 10**9, prices),
    )
    assert tx.err_code == program.NOT_UNHEALTHY


def test_liquidation_heals_the_debtor_and_pays_keeper_and_insurance(market: Market) -> None:
    of, sol, usdc, prices = borrowed(market)
    prices[sol.address] = 100 * ONE
    keeper = market.world.lender.keeping
    before = worth(market, of.account, prices)
    had = deposited(market, keeper.account)
    assert before[0] < before[1]
    tx = ran(
        market,
        keeper.authority,
        lambda tx: program.liquidate(tx, keeper, of.account, sol, usdc, 40 * 10**9, prices),
    )
    assert tx.err_code is None
    after = worth(market, of.account, prices)
    assert after[0] * before[1] > before[0] * after[1]
    insured = market.world.ledger.balance(usdc.insurance)
    assert abs(insured - 4_000 * 10**6 * 25 // 1_000) <= 2  # half of 5 % of 40 SOL
    has = deposited(market, keeper.account)
    assert has[0] - had[0] == pytest.approx(40 * 10**9, abs=2)
    assert had[1] - has[1] == pytest.approx(3_900 * 10**6, abs=2)
    Invariants(market).check_supply()


def test_all_of_a_debt_and_a_deposit_can_be_closed(market: Market) -> None:
    of, sol, usdc, prices = borrowed(market)
    tx = ran(
        market,
        of.authority,
        lambda tx: program.repay(tx, of, usdc, None, prices),
        lambda tx: program.withdraw(tx, of, sol, None, prices),
    )
    assert tx.err_code is None
    account = market.world.ledger.natives[of.account]
    assert isinstance(account, LendingAccount)
    assert account.balances == ()
