"""The klend of the market: its bytes, its sums, and what its instructions allow."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from struct import unpack_from

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.chain.market import Knobs, Market
from infra.chain.market.invariants import Invariants
from infra.chain.market.runtime import klend_program as program
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.klend import (
    BITS,
    HOST_RATE_BPS,
    ONE,
    SLOTS_A_YEAR,
    TAKE_RATE_PERCENT,
    Borrow,
    Deposit,
    LendingMarket,
    Obligation,
    Reserve,
    Terms,
    growth,
    yearly_rate,
)
from infra.chain.market.runtime.klend_program import ALL, Holder, Lent

KNOBS = Knobs(seed=5, rate=400, wallets=200, forks=0.1, skipped=0.05, failed=0.2)
M, T, V, F, C, H, A, B, W = (bytes((number,)) * 32 for number in range(1, 10))
RESERVE = Reserve(M, T, 6, "USDC", V, F, C, H, Terms(80, 85, 110), 1_000, price_sf=ONE)

amounts = st.integers(0, 10**15)
growths = st.integers(ONE, 3 * ONE)


def u128(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 16], "little")


def test_a_reserve_has_the_programs_layout() -> None:
    reserve = replace(
        RESERVE, available_raw=7, debt_sf=8 * ONE, fees_sf=ONE, rate_sf=3 << 70, collateral_raw=9
    )
    data = reserve.data()
    assert len(data) == 8_624
    assert unpack_from("<QQ", data, 8) == (1, 1_000)
    assert (data[32:64], data[128:160], data[160:192], data[192:224]) == (M, T, V, F)
    assert unpack_from("<Q", data, 224) == (7,)
    assert (u128(data, 232), u128(data, 248)) == (8 * ONE, ONE)
    assert unpack_from("<Q", data, 272) == (6,)
    assert int.from_bytes(data[296:328], "little") == 3 << 70
    assert u128(data, 344) == ONE
    assert (data[2560:2592], unpack_from("<Q", data, 2592)) == (C, (9,))
    assert data[2600:2632] == H
    assert unpack_from("<H", data, 4858) == (HOST_RATE_BPS,)
    assert (data[4870], data[4872], data[4873]) == (TAKE_RATE_PERCENT, 80, 85)
    points = [unpack_from("<II", data, 4920 + 8 * number) for number in range(11)]
    assert points[0] == (0, 100)
    assert points[-1] == (10_000, 10_000)
    assert points == sorted(points)
    assert unpack_from("<Q", data, 5008) == (110,)


def test_an_obligation_keeps_places_and_sums_at_their_offsets() -> None:
    reserves = {
        A: replace(RESERVE, available_raw=10**9, collateral_raw=10**9),
        B: replace(RESERVE, rate_sf=2 * ONE),
    }
    obligation = Obligation(M, W, 900).with_deposit(Deposit(A, 100 * 10**6))
    obligation = obligation.with_borrow(Borrow(A, ONE, ONE)).with_borrow(
        Borrow(B, ONE, 10 * 10**6 << BITS, 55)
    )
    now = obligation.with_borrow(Borrow(A)).refreshed(reserves, 1_000)
    data = now.data()
    assert len(data) == 3_344
    assert (data[32:64], data[64:96]) == (M, W)
    assert unpack_from("<QB", data, 16) == (1_000, 0)
    assert (data[96:128], unpack_from("<Q", data, 128)) == (A, (100 * 10**6,))
    assert u128(data, 136) == u128(data, 1192) == 100 * ONE
    assert data[1208:1408] == bytes(200)  # of the debt that is gone
    assert data[1408:1440] == B
    assert int.from_bytes(data[1440:1472], "little") == 2 * ONE
    assert unpack_from("<Q", data, 1488) == (55,)
    assert u128(data, 1496) == 20 * 10**6 << BITS
    assert u128(data, 2224) == 20 * ONE
    assert abs(Fraction(u128(data, 2208), ONE) - 22) < Fraction(1, 10**15)
    assert abs(Fraction(u128(data, 2240), ONE) - 80) < Fraction(1, 10**15)
    assert abs(Fraction(u128(data, 2256), ONE) - 85) < Fraction(1, 10**15)
    assert data[2287] == 1
    assert now.with_borrow(Borrow(B)).data()[2287] == 0
    assert len(LendingMarket(W).data()) == 4_664


def test_the_rate_follows_its_curve() -> None:
    assert yearly_rate(0) == ONE // 100
    assert abs(yearly_rate(ONE // 4) - ONE * 45 // 1_000) <= 1
    assert yearly_rate(ONE // 2) == ONE * 8 // 100
    assert yearly_rate(ONE) == ONE


@given(rate=st.integers(0, 10 * ONE), slots=st.integers(0, 10_000_000))
def test_growth_is_the_binomial_series_cut_off(rate: int, slots: int) -> None:
    a_slot = Fraction(rate, SLOTS_A_YEAR * ONE)
    wanted = 1 + a_slot * slots + a_slot**2 * slots * (slots - 1) / 2
    wanted += a_slot**3 * slots * (slots - 1) * (slots - 2) / 6
    if slots == 4:
        wanted += a_slot**4
    lost = Fraction(4 * (slots + 1) ** 3, ONE)
    assert wanted - lost <= Fraction(growth(rate, slots), ONE) <= wanted


@given(debt=amounts, available=amounts, slots=st.integers(0, 100_000_000))
def test_interest_is_what_depositors_and_the_protocol_get(
    debt: int, available: int, slots: int
) -> None:
    reserve = replace(RESERVE, debt_sf=debt << BITS, available_raw=available)
    later = reserve.accrued(1_000 + slots)
    paid = later.debt_sf - reserve.debt_sf
    earned = later.liquidity_sf - reserve.liquidity_sf
    taken = later.fees_sf - reserve.fees_sf
    assert paid == earned + taken
    assert earned >= 0
    assert taken * 100 >= paid * TAKE_RATE_PERCENT - 100 * 2
    assert later.accrued(1_000 + slots) == later
    assert later.rate_sf >= reserve.rate_sf


@given(amount=st.integers(1, 10**15), held=st.integers(1, 10**15), worth=growths)
def test_a_reserve_gains_by_rounding(amount: int, held: int, worth: int) -> None:
    reserve = replace(RESERVE, available_raw=held * worth >> BITS, collateral_raw=held)
    bought = reserve.collateral_of(amount)
    cost = reserve.price_of_collateral(bought)
    assert reserve.redeemable_sf(bought) >> BITS <= cost <= amount
    after = replace(reserve, available_raw=held * worth + cost, collateral_raw=held + bought)
    assert after.redeemable_sf(held) >= reserve.redeemable_sf(held)


@pytest.fixture
def market() -> Market:
    return Market(replace(KNOBS, forks=0))


def ran(market: Market, payer: bytes, *steps: Step, slot: int = 0) -> Execution:
    tx = Execution(
        market.world.ledger,
        Intent(1, payer, steps, bytes(32)),
        market.knobs.start_slot + slot,
        market.knobs.start_time_ms // 1_000,
    )
    tx.run()
    return tx


def fresh(market: Market, of: Holder, sol_usd: int) -> list[Step]:
    prices = (sol_usd * ONE, ONE)
    steps: list[Step] = [
        partial(program.refresh_reserve, lent=lent, price_sf=price_sf)
        for lent, price_sf in zip(market.world.klend.lents, prices, strict=True)
    ]
    return [*steps, partial(program.refresh_obligation, of=of)]


def obligation(market: Market, of: Holder) -> Obligation:
    found = market.world.ledger.natives[of.account]
    assert isinstance(found, Obligation)
    return found


def borrowed(market: Market) -> tuple[Holder, Lent, Lent]:
    """Give a wallet 100 SOL of collateral and a debt of 11,000 dollars, at 150 dollars a SOL."""
    lender = market.world.klend
    sol, usdc = lender.lents
    of = lender.holder(lender.wallets[1])
    tx = ran(
        market,
        of.authority,
        partial(program.initialize, of=of, market=lender.market),
        *fresh(market, of, 150),
        partial(program.deposit, of=of, lent=sol, amount_raw=100 * 10**9),
        *fresh(market, of, 150),
        partial(program.borrow, of=of, lent=usdc, amount_raw=11_000 * 10**6),
    )
    assert tx.err_code is None
    return of, sol, usdc


def test_a_debt_beyond_what_deposits_allow_is_refused_and_changes_nothing(market: Market) -> None:
    of, _, usdc = borrowed(market)
    before = dict(market.world.ledger.natives)
    held = market.world.ledger.held(of.authority, usdc.mint)
    borrow = partial(program.borrow, of=of, lent=usdc, amount_raw=300 * 10**6)
    tx = ran(market, of.authority, *fresh(market, of, 150), borrow)
    assert tx.err_code == program.BORROW_TOO_LARGE
    assert market.world.ledger.natives == before
    assert market.world.ledger.held(of.authority, usdc.mint) == held


def test_collateral_that_secures_a_debt_is_not_withdrawn(market: Market) -> None:
    of, sol, _ = borrowed(market)
    withdraw = partial(program.withdraw, of=of, lent=sol, collateral_raw=10 * 10**9)
    tx = ran(market, of.authority, *fresh(market, of, 150), withdraw)
    assert tx.err_code == program.WITHDRAW_TOO_LARGE


def test_an_operation_wants_both_refreshed_in_its_slot(market: Market) -> None:
    of, sol, _ = borrowed(market)
    deposit = partial(program.deposit, of=of, lent=sol, amount_raw=10**9)
    assert ran(market, of.authority, deposit).err_code == program.OBLIGATION_STALE
    assert ran(market, of.authority, deposit, slot=1).err_code == program.RESERVE_STALE
    refreshes = fresh(market, of, 150)
    tx = ran(market, of.authority, *refreshes[:-1], deposit, slot=1)
    assert tx.err_code == program.OBLIGATION_STALE
    tx = ran(market, of.authority, *refreshes[-1:], deposit, slot=1)
    assert tx.err_code == program.RESERVE_STALE
    assert ran(market, of.authority, *refreshes, deposit, slot=1).err_code is None


def liquidation(market: Market, of: Holder, usdc: Lent, sol: Lent) -> Step:
    keeper = market.world.klend.keeper.address
    return partial(
        program.liquidate,
        keeper=keeper,
        debtor=of.account,
        debt=usdc,
        asset=sol,
        amount_raw=10**12,
    )


def test_a_healthy_obligation_is_not_liquidated(market: Market) -> None:
    of, sol, usdc = borrowed(market)
    keeper = market.world.klend.keeper.address
    tx = ran(market, keeper, *fresh(market, of, 147), liquidation(market, of, usdc, sol))
    assert tx.err_code == program.OBLIGATION_HEALTHY


def test_liquidation_repays_a_fifth_and_pays_keeper_and_fees_from_collateral(
    market: Market,
) -> None:
    of, sol, usdc = borrowed(market)
    ledger, keeper = market.world.ledger, market.world.klend.keeper.address
    dollars, lamports = ledger.held(keeper, usdc.mint), ledger.held(keeper, sol.mint)
    tx = ran(market, keeper, *fresh(market, of, 144), liquidation(market, of, usdc, sol))
    assert tx.err_code is None
    after = obligation(market, of)
    assert ceil_raw(after.borrow_of(usdc.address)) == 8_800 * 10**6
    assert dollars - ledger.held(keeper, usdc.mint) == 2_200 * 10**6
    taken = 100 * 10**9 - after.deposit_of(sol.address).collateral_raw
    assert taken == pytest.approx(2_200 * 1.02 / 144 * 10**9, rel=1e-9)  # the least bonus
    bonus = taken - taken / 1.02
    fee = ledger.balance(sol.fee_vault)
    assert fee == pytest.approx(bonus * 0.4, abs=2)
    assert ledger.held(keeper, sol.mint) - lamports == taken - fee
    tx = ran(market, keeper, *fresh(market, of, 144))
    assert tx.err_code is None
    healed = obligation(market, of)
    assert healed.weighed_sf < healed.limit_sf
    Invariants(market).check_supply()


def ceil_raw(borrow: Borrow) -> int:
    return -(-borrow.amount_sf >> BITS)


def test_all_of_a_debt_and_a_deposit_can_be_closed_with_interest(market: Market) -> None:
    of, sol, usdc = borrowed(market)
    ledger = market.world.ledger
    held = ledger.held(of.authority, usdc.mint), ledger.held(of.authority, sol.mint)
    tx = ran(
        market,
        of.authority,
        *fresh(market, of, 150),
        partial(program.repay, of=of, lent=usdc, amount_raw=ALL),
        *fresh(market, of, 150),
        partial(program.withdraw, of=of, lent=sol, collateral_raw=ALL),
        slot=1_000_000,
    )
    assert tx.err_code is None
    assert obligation(market, of).reserves == ()
    assert held[0] - ledger.held(of.authority, usdc.mint) > 11_000 * 10**6
    assert ledger.held(of.authority, sol.mint) - held[1] == 100 * 10**9  # nobody borrowed SOL


@given(amount=st.integers(1, 10**12), later=st.integers(0, 10_000_000))
def test_what_is_deposited_comes_back_but_for_a_unit(amount: int, later: int) -> None:
    market = Market(replace(KNOBS, forks=0, wallets=20))
    of, _, usdc = borrowed(market)
    wallet = market.world.klend.keeper
    keeper, ledger = market.world.klend.holder(wallet), market.world.ledger
    before = ledger.held(wallet.address, usdc.mint)
    collateral = obligation(market, keeper).deposit_of(usdc.address).collateral_raw
    ran(
        market,
        wallet.address,
        *fresh(market, keeper, 150),
        partial(program.deposit, of=keeper, lent=usdc, amount_raw=amount),
        slot=later,
    )
    bought = obligation(market, keeper).deposit_of(usdc.address).collateral_raw - collateral
    if not bought:
        assert ledger.held(wallet.address, usdc.mint) == before
        return
    tx = ran(
        market,
        wallet.address,
        *fresh(market, keeper, 150),
        partial(program.withdraw, of=keeper, lent=usdc, collateral_raw=bought),
        slot=later,
    )
    assert tx.err_code is None
    assert before - 1 <= ledger.held(wallet.address, usdc.mint) <= before
    assert of.account != keeper.account
