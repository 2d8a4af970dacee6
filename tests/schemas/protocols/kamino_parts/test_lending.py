"""Loans of Kamino, the interest of their reserves, and collateral tokens in a wallet."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import kamino
from schemas.protocols.contract import Health, Role
from schemas.protocols.kamino_parts import lending
from schemas.protocols.kamino_parts.reserve import RESERVE, compounded
from schemas.protocols.registry import verified_markets
from schemas.solana.addresses import text
from tests.support.exploring import examples
from tests.support.kamino import (
    FARM,
    MINT,
    OTHER,
    SHARE,
    SLOT,
    WALLET,
    account,
    in_market,
    loan,
    obligation_data,
    put,
    read,
    reserve_data,
)


def test_a_loan_has_its_redeemable_deposit_its_debt_and_its_health() -> None:
    [position] = read(WALLET, loan(obligation_data(100, 30), reserve_data(3000, 2000)))
    supply, borrow = position.assets
    assert (supply.role, supply.amount_raw, supply.weight) == (Role.SUPPLY, 150, Fraction(4, 5))
    assert (borrow.role, borrow.amount_raw, borrow.weight) == (Role.BORROW, 30, Fraction(5, 4))
    assert supply.oracle_usd == 2
    assert position.reference_slot == 7
    assert position.health is not None
    assert position.health.health_factor == Fraction(120 * 4, 150)
    assert position.health.ltv == Fraction(150, 600)


def test_rewards_since_a_reserves_refresh_are_named_and_no_line_without_an_amount() -> None:
    """One collateral token of a reserve that pays rewards made the whole wallet unknown."""
    paying = bytearray(reserve_data(3000, 2000))
    put(paying, 440, 5)
    put(paying, 5792, 1)
    accounts = loan(obligation_data(100, 30), bytes(paying))
    [refreshed] = read(WALLET, accounts)
    assert [each.amount_raw for each in refreshed.assets] == [150, 30]
    [later] = read(WALLET, accounts, slot=SLOT + 1)
    assert [(each.role, each.mint, each.amount_raw) for each in later.assets] == [
        (Role.SUPPLY, MINT, 150),
        (Role.BORROW, MINT, 30),
    ]
    assert later.health == Health(None, None, None)
    assert [each.split(":")[0] for each in later.unsupported_fields] == [
        "assets.amount_raw",
        "health",
    ]
    del accounts[FARM]
    [tokens] = read(WALLET, accounts, slot=SLOT + 1, tokens={SHARE: 7})
    assert [(each.role, each.amount_raw) for each in tokens.assets] == [(Role.SUPPLY, 10)]
    assert [each.split(":")[0] for each in tokens.unsupported_fields] == ["assets.amount_raw"]


def test_a_debt_grows_and_is_rounded_up() -> None:
    reserve = reserve_data(4 * 10**12, 4 * 10**12, 2 * 10**12)
    data = obligation_data(0, 10**12)
    amounts = [
        read(WALLET, loan(data, reserve), slot=SLOT + slots)[0].assets[0].amount_raw
        for slots in (0, 1, 2, 63_072_000)
    ]
    with localcontext() as context:
        context.prec = 50
        one = Decimal(10**12) * (1 + Decimal("0.25") / 63_072_000)
        assert amounts[0] == 10**12
        assert amounts[1] == int(one.to_integral_value(ROUND_CEILING))
    # Of the square of a slot's rate the program keeps 18 units, of its third power none.
    year = 63_072_000
    grown = (1 << 60) + (((1 << 60) // 4) // year) * year + 18 * year * (year - 1) // 2
    assert amounts[3] == -(-(10**12) * grown >> 60)


def test_a_point_of_the_curve_is_the_rate_of_what_rounds_to_it() -> None:
    reserve = reserve_data(10**6, 10**6, 500_010)  # 5,000.1 basis points are used
    [position] = read(WALLET, loan(obligation_data(0, 10**15), reserve), slot=SLOT + 1)
    a_slot = (1 << 60) // 4 // 63_072_000
    assert position.assets[0].amount_raw == -(-(10**15) * ((1 << 60) + a_slot) >> 60)


@pytest.mark.parametrize("point", range(11))
def test_each_of_the_eleven_points_of_a_curve_is_the_rate_of_its_utilization(point: int) -> None:
    reserve = reserve_data(10**6, 10**6, point * 100_000)
    [position] = read(WALLET, loan(obligation_data(0, 10**15), reserve), slot=SLOT + 1)
    a_slot = (point << 60) // 20 // 63_072_000  # 5 % a year for each point
    assert position.assets[0].amount_raw == -(-(10**15) * ((1 << 60) + a_slot) >> 60)


def test_a_reserves_tokens_have_as_many_decimals_as_64_bits_hold_their_power_of_ten() -> None:
    data = bytearray(reserve_data(3000, 2000))
    put(data, 272, 19)
    [position] = read(WALLET, loan(obligation_data(100, 30), bytes(data)))
    assert {each.decimals for each in position.assets} == {19}
    for more in (20, 2**64 - 1):  # anybody can open a market with such a reserve: no error
        put(data, 272, more)
        [position] = read(WALLET, loan(obligation_data(100, 30), bytes(data)))
        assert [each.amount_raw for each in position.assets] == [150, 30]
        assert {each.decimals for each in position.assets} == {None}
        assert position.health == Health(None, None, None)
        held = {OTHER: account(OTHER, RESERVE, bytes(data))}
        [tokens] = read(WALLET, held, tokens={SHARE: 7})
        assert [(each.amount_raw, each.decimals) for each in tokens.assets] == [(10, None)]


def test_interest_may_exceed_the_debt() -> None:
    """Of the square of a slot's rate, 2**60 / 63,072,000**2, 289 units are kept, of its cube 0."""
    slots = 3 * 63_072_000
    a_slot = (1 << 60) // 63_072_000
    grown = (1 << 60) + a_slot * slots + 289 * slots * (slots - 1) // 2
    assert compounded(1 << 60, slots) == grown


def test_what_a_loan_lacks_is_named_and_leaves_its_health_unknown() -> None:
    accounts = loan(obligation_data(100, 30, group=2), reserve_data(3000, 2000))
    [position] = read(WALLET, accounts)
    assert position.missing == [bytes(32)], "its market, whose elevation group decides"
    assert position.health is not None
    assert position.health.health_factor is None
    assert [each.amount_raw for each in position.assets] == [150, 30]
    [without] = read(WALLET, {FARM: accounts[FARM]})
    assert without.missing == [bytes(32), OTHER]
    assert without.assets == []
    assert read(OTHER, accounts) == [], "another wallet's"


def test_collateral_tokens_in_the_wallet_are_a_deposit() -> None:
    accounts = {OTHER: account(OTHER, RESERVE, reserve_data(3000, 2000))}
    [position] = read(WALLET, accounts, tokens={SHARE: 7})
    assert [(each.mint, each.amount_raw) for each in position.assets] == [(MINT, 10)]
    assert position.stands_for == {SHARE: 7}
    assert read(WALLET, accounts, tokens={MINT: 7}) == []


def test_a_queued_withdrawal_is_pending() -> None:
    data = bytearray(lending.TICKET.size or 0)
    data[:8] = lending.TICKET.tag
    data[16:48], data[48:80] = WALLET, OTHER
    put(data, 112, 7)
    accounts = loan(obligation_data(0, 0), reserve_data(3000, 2000))
    accounts[MINT] = account(MINT, lending.TICKET, data)
    [position] = read(WALLET, accounts)
    assert [(each.role, each.amount_raw) for each in position.assets] == [(Role.PENDING, 10)]


def test_what_is_in_a_lending_market_names_it() -> None:
    """The owner of a market sets its prices and its interest."""
    reserve = in_market(reserve_data(3000, 2000), b"M" * 32)
    data = in_market(obligation_data(100, 30), b"M" * 32)
    [position] = read(WALLET, loan(data, reserve))
    assert position.open_markets == [b"M" * 32]
    held = {OTHER: account(OTHER, RESERVE, reserve)}
    [tokens] = read(WALLET, held, tokens={SHARE: 7})
    assert tokens.open_markets == [b"M" * 32]
    waits = bytearray(lending.TICKET.size or 0)
    waits[:8] = lending.TICKET.tag
    waits[16:48], waits[48:80] = WALLET, OTHER
    put(waits, 112, 7)
    [ticket] = read(WALLET, {**held, MINT: account(MINT, lending.TICKET, waits)})
    assert ticket.open_markets == [b"M" * 32]


def test_kaminos_markets_are_verified_and_no_other() -> None:
    markets = {text(each) for each in kamino.PROTOCOL.verified_markets}
    assert "7u3HeHxYDLhnCoErrtycNokbQYbWGzLs6JSDqGAv5PfF" in markets
    assert len(markets) == 20
    assert verified_markets("") >= kamino.PROTOCOL.verified_markets


@given(st.integers(0, 10**18), st.integers(0, 2 * 10**8))
@examples(200)
def test_compound_interest_is_below_that_of_the_exponential(rate_bps: int, slots: int) -> None:
    rate_sf = (rate_bps % 100_000 << 60) // 10_000
    grown = compounded(rate_sf, slots)
    assert grown >= 1 << 60
    assert compounded(rate_sf, slots + 1) >= grown
    with localcontext() as context:
        context.prec = 60
        exact = (Decimal(rate_sf) / 2**60 / 63_072_000 * slots).exp()
    assert grown <= int(exact * 2**60) + 1
