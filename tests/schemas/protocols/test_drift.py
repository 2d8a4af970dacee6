"""Drift's sub-accounts, insurance stakes and fuel, on bytes laid out by hand and on real ones."""

from __future__ import annotations

import base64
import json
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import drift
from schemas.protocols.contract import (
    Account,
    Held,
    Kind,
    Perp,
    Points,
    Position,
    Unreadable,
    World,
)
from schemas.protocols.drift_parts import layout
from schemas.protocols.token import TOKEN
from tests.support import anchor
from tests.support.exploring import examples
from tests.support.judging import judged

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "accounts" / "p08-drift"
WALLET, OTHER, ACCOUNT, USDC, SOL, VAULT, ORACLE = (bytes([n]) * 32 for n in range(1, 8))
NOW = 1_790_000_000
WHOLE = 10**10  # of interest
I64 = st.integers(-(2**63), 2**63 - 1)


def account(
    kind: Kind, address: bytes, fields: dict[int, bytes], slot: int = 50, wallet: bytes = WALLET
) -> Account:
    assert kind.size is not None
    data = bytearray(kind.size)
    data[: len(kind.tag)] = kind.tag
    if kind.wallets:
        data[8:40] = wallet
    for at, value in fields.items():
        data[at : at + len(value)] = value
    return Account(address, kind, 1, bytes(data), slot)


def i64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def i128(value: int) -> bytes:
    return value.to_bytes(16, "little", signed=value < 0)


def spot(
    market: int, balance: int, *, owes: bool = False, orders: tuple[int, int] = (0, 0)
) -> bytes:
    count = sum(map(bool, orders))
    return struct.pack("<QqqqHBB4x", balance, *orders, 0, market, owes, count)


def perp(
    market: int,
    base: int,
    quote: int,
    *,
    entry: int | None = None,
    rate: int = 0,
    orders: tuple[int, int] = (0, 0),
    shares: int = 0,
    at_72: int = 0,
    at_80: int = 0,
    flags: int = 0,
) -> bytes:
    entry = quote if entry is None else entry
    head = i64(rate, base, quote, 0, entry, *orders, 0) + struct.pack("<Qqq", shares, at_72, at_80)
    return head + struct.pack("<2xHHBB", 0, market, sum(map(bool, orders)), flags)


def user(
    *positions: bytes, status: int = 0, mode: int = 0, pool: int = 0, wallet: bytes = WALLET
) -> Account:
    fields = {4348: bytes([status]), 4355: bytes([mode, pool])}
    for size, at in ((40, 104), (96, 424)):
        for each in positions:
            if len(each) == size:
                fields[at] = each
                at += size
    return account(layout.USER, ACCOUNT, fields, wallet=wallet)


def spot_market(
    number: int,
    mint: bytes,
    decimals: int,
    price: int,
    weights: tuple[int, int, int, int] = (10_000, 10_000, 10_000, 10_000),
    *,
    slot: int = 40,
    **fund: int,
) -> Account:
    fields = {
        40: ORACLE if number else USDC,
        72: mint,
        168: i64(price, 0, 0, price, price),
        304: VAULT,
        336: i128(fund.get("shares", 0)),
        368: i128(fund.get("base", 0)),
        384: i64(fund.get("unstaking_s", 0)),
        464: i128(WHOLE * 11 // 10) + i128(WHOLE * 12 // 10),
        640: u32(*weights),
        680: u32(decimals),
        684: struct.pack("<HBBB", number, 0, fund.get("source", 12), 1),
        735: bytes([fund.get("pool", 0)]),
    }
    return account(layout.SPOT_MARKET, layout.spot_market_address(number), fields, slot)


def perp_market(
    number: int,
    price: int,
    *,
    status: int = 1,
    contract: int = 0,
    funding: int = 0,
    expiry: int = 0,
    source: int = 12,
    high_leverage: tuple[int, int] = (0, 0),
) -> Account:
    fields = {
        40: ORACLE,
        72: i64(price, 0, 0, price, price),
        608: i128(funding) * 2,
        926: bytes([source]),
        1000: b"SOL-PERP".ljust(32),
        1088: i64(expiry),
        1136: u32(1_000, 500, 10_000, 10_000),
        1160: struct.pack("<HBBBBH", number, status, contract, 0, 0, 0),
        1174: struct.pack("<HH", *high_leverage),
    }
    return account(layout.PERP_MARKET, layout.perp_market_address(number), fields, 30)


DOLLARS = spot_market(0, USDC, 6, 1_000_000)
SOLS = spot_market(1, SOL, 9, 150_000_000, (8_000, 9_000, 12_000, 11_000))
BET = perp_market(0, 160_000_000)


def vault(amount: int, mint: bytes = USDC) -> Account:
    return account(TOKEN, VAULT, {0: mint, 64: i64(amount), 108: b"\1"}, slot=20)


def read(*own: Account, there: tuple[Account, ...] = (DOLLARS, SOLS, BET)) -> list[Position]:
    by_address = {each.address: each for each in there}
    reading = drift.read(Held(WALLET, own), World(9, NOW, 3))
    try:
        wanted = next(reading)
        for _ in range(8):
            wanted = reading.send({at: by_address[at] for at in wanted if at in by_address})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more rounds than markets and vaults need")


def of(route: str, found: list[Position]) -> list[Position]:
    return [each for each in found if each.route == route]


def lines(position: Position) -> list[tuple[str, bytes, int | None]]:
    return [(each.role.value, each.mint, each.amount_raw) for each in position.assets]


def bet_of(found: list[Position]) -> Perp:
    [bet] = [each.perp for each in found if each.perp is not None]
    return bet


def test_deposits_are_rounded_down_and_borrows_up() -> None:
    found = read(user(spot(0, 1_000_000_001), spot(1, 3, owes=True)))
    [position] = of("positions", found)
    assert lines(position) == [("supply", USDC, 1_100_000), ("borrow", SOL, 4)]  # 3.6
    assert position.assets[1].oracle_usd == 150
    assert (position.id, position.reference_slot) == (None, 40)


def test_a_bet_is_a_position_of_its_own_with_what_it_gained() -> None:
    owed = 2 * 10**9  # of funding: 2 dollars a whole base
    found = read(
        user(spot(0, 10**12), perp(0, 2 * 10**9, -300_500_000, entry=-300_000_000)),
        there=(DOLLARS, SOLS, perp_market(0, 160_000_000, funding=owed)),
    )
    deposits, bet = of("positions", found)
    assert lines(deposits) == [("supply", USDC, 1_100_000_000)]
    assert lines(bet) == [("pending", USDC, 15_500_000)]  # 20 by the price, 0.5 fees, 4 funding
    assert bet.market == layout.perp_market_address(0)
    assert bet.id not in (None, deposits.account.address)
    assert bet.reference_slot == 30
    assert bet_of(found) == Perp(
        "SOL-PERP",
        "long",
        Fraction(2),
        Fraction(320),
        Fraction(150),
        Fraction(160),
        None,  # no price above 0: the deposit is three times the bet
        None,
        Fraction(20),
        Fraction(-4),
    )


def test_a_losing_bet_is_owed() -> None:
    [bet] = of("positions", read(user(perp(0, -(10**9), 150_000_000))))
    assert lines(bet) == [("borrow", USDC, 10_000_000)]
    assert bet.perp is not None
    assert bet.perp.side == "short"
    assert bet.perp.size == 1


def test_what_a_closed_bet_left_is_a_line_without_a_bet() -> None:
    [bet] = of("positions", read(user(perp(0, 0, 7_000_000))))
    assert lines(bet) == [("pending", USDC, 7_000_000)]
    assert bet.perp is None


def test_a_market_that_is_settled_pays_its_expiry_price() -> None:
    settled = perp_market(0, 160_000_000, status=7, expiry=140_000_000)
    there = (DOLLARS, SOLS, settled, state(0, 1))
    found = read(user(perp(0, 10**9, -150_000_000)), there=there)
    assert lines(of("positions", found)[0]) == [("borrow", USDC, 10_000_000)]
    assert bet_of(found).mark_price_usd == 140
    assert bet_of(found).liquidation_price_usd is None


def state(numerator: int, denominator: int, slot: int = 25) -> Account:
    """The program's state, with the fee of the first tier of perp markets after five keys."""
    fields = {8 + 5 * 32: u32(numerator, denominator)}
    return account(layout.STATE, layout.STATE_ADDRESS, fields, slot)


@pytest.mark.parametrize(
    ("base", "quote", "numerator", "paid"),
    [
        (10**9, -150_000_000, 100, ("borrow", USDC, 10_140_000)),  # 0.1 % of 140 dollars
        (-(10**9), 150_000_000, 100, ("pending", USDC, 9_860_000)),
        (10**9, -139_900_000, 100, ("borrow", USDC, 40_000)),  # a profit that the fee takes
        (10**9, -139_860_000, 100, None),
        (10**9, -140_000_000, 0, None),
        (7_150, -1_000, 99_999, ("borrow", USDC, 999)),  # 1 gained; of 1,001 a fee of 1,000.98
    ],
)
def test_closing_a_bet_at_the_expiry_price_takes_a_fee(
    base: int, quote: int, numerator: int, paid: tuple[str, bytes, int] | None
) -> None:
    """`settle_expired_position`: of the value, by the first tier, cut off; of both sides."""
    settled = perp_market(0, 160_000_000, status=7, expiry=140_000_000)
    there = (DOLLARS, SOLS, settled, state(numerator, 100_000))
    found = read(user(perp(0, base, quote)), there=there)
    bet = next(each for each in found if each.perp is not None)
    assert lines(bet) == ([] if paid is None else [paid])
    assert (bet.reference_slot, bet.missing, bet.unsupported_fields) == (25, [], [])
    [health] = of("health", found)
    gained = (abs(base) * 140_000_000 // 10**9) * (1 if base > 0 else -1) + quote
    assert health.margin is not None
    assert health.margin.collateral_usd == Fraction(gained, 10**6), "without the fee"


@pytest.mark.node
def test_the_fee_is_where_anchors_coder_writes_it(request: pytest.FixtureRequest) -> None:
    coder, idl = anchor.coder(request), anchor.idl("p08-drift.json")
    tier = "perpFeeStructure.feeTiers.0"
    questions = [
        {
            "encode": "State",
            "idl": idl,
            "seed": seed,
            "size": layout.STATE.size,
            "fields": {f"{tier}.feeNumerator": seed, f"{tier}.feeDenominator": 100_000 + seed},
        }
        for seed in range(50)
    ]
    for seed, answer in enumerate(anchor.asked(coder, questions)):
        data = base64.b64decode(answer["data"])
        found = layout.fee_of(Account(layout.STATE_ADDRESS, layout.STATE, 1, data, 7))
        assert layout.STATE.matches(layout.STATE_ADDRESS, layout.PROGRAM, data)
        assert found == (7, seed, 100_000 + seed)
    judged(worlds=len(questions))


def test_without_the_programs_state_what_closing_pays_is_not_known() -> None:
    settled = perp_market(0, 160_000_000, status=7, expiry=140_000_000)
    for quote, role in ((-150_000_000, "borrow"), (-130_000_000, "pending")):
        [bet, _] = read(user(perp(0, 10**9, quote)), there=(DOLLARS, settled))
        assert lines(bet) == [(role, USDC, None)]
        assert bet.missing == [layout.STATE_ADDRESS]
        assert any("the fee" in each for each in bet.unsupported_fields)
    [closed, _] = read(user(perp(0, 0, 7_000_000)), there=(DOLLARS, settled))
    assert lines(closed) == [("pending", USDC, 7_000_000)], "what is closed pays no fee"
    assert closed.missing == []


def test_a_fee_by_nothing_is_unreadable() -> None:
    settled = perp_market(0, 160_000_000, status=7, expiry=140_000_000)
    with pytest.raises(Unreadable, match="fee_denominator 0"):
        read(user(perp(0, 10**9, 1)), there=(DOLLARS, settled, state(100, 0)))


def test_health_counts_all_positions_and_has_no_assets() -> None:
    found = read(user(spot(0, 10**11), spot(1, 10**9, owes=True), perp(0, 10**9, -160_000_000)))
    [health] = of("health", found)
    assert health.assets == []
    margin = health.margin
    assert margin is not None
    assert margin.collateral_usd == 110
    assert margin.maintenance_usd == Fraction(198) + 8  # 1.2 SOL at 1.1, and a twentieth of the bet
    assert margin.initial_usd == Fraction(216) + 16
    assert margin.free_usd == 0
    assert margin.health_pct == 0
    assert margin.leverage is None  # it owes more than it has


def test_an_account_without_debts_is_in_full_health() -> None:
    [health] = of("health", read(user(spot(1, 10**9))))
    assert health.margin is not None
    assert health.margin.health_pct == 100
    assert health.margin.leverage == 0
    assert health.margin.collateral_usd == Fraction(1_100_000_000 * 150 * 9, 10**10)


@pytest.mark.parametrize(
    ("high_leverage", "initial", "maintenance"),
    [
        ((200, 100), Fraction("3.2"), Fraction("1.6")),  # 2 % and 1 % of 160 dollars
        ((200, 0), 16, 8),
        ((0, 100), 16, 8),
    ],
)
def test_a_market_has_high_leverage_only_with_both_of_its_ratios(
    high_leverage: tuple[int, int], initial: Fraction, maintenance: Fraction
) -> None:
    market = perp_market(0, 160_000_000, high_leverage=high_leverage)
    own = user(spot(0, 10**12), perp(0, 10**9, -160_000_000), mode=1)
    [health] = of("health", read(own, there=(DOLLARS, market)))
    assert health.margin is not None
    assert (health.margin.initial_usd, health.margin.maintenance_usd) == (initial, maintenance)


def test_an_account_that_is_being_liquidated_has_no_health() -> None:
    [health] = of("health", read(user(spot(1, 10**9), status=1)))
    assert health.margin is not None
    assert health.margin.health_pct == 0


def test_the_price_that_liquidates_leaves_what_is_required() -> None:
    found = read(user(spot(0, 2 * 10**10), perp(0, 10**9, -160_000_000)))
    end = bet_of(found).liquidation_price_usd
    assert end is not None
    # 22 dollars back a bet of 160, of which 8 are required: 14 / 0.95 may be lost.
    assert end == Fraction(160_000_000 - 14_736_842, 10**6)


# Numbers of `OracleSource`: of many tokens they are Pyth's, its pull oracle's and Lazer's.
PLAIN, THOUSANDS, MILLIONS = 12, (3, 8, 13), (4, 9, 14)


@pytest.mark.parametrize(
    ("source", "tokens"),
    [*((each, 1_000) for each in THOUSANDS), *((each, 1_000_000) for each in MILLIONS)],
)
def test_a_deposit_moves_with_a_bet_whose_price_is_of_another_number_of_tokens(
    source: int, tokens: int
) -> None:
    """The deposit is worth what the bet is: one of the two has a price of many tokens.

    220 + 11 p + 11 (p - 160) dollars are the twentieth of 11 p: p is 1540 / 21.45.
    """
    bet = perp(0, 11 * 10**9, -1_760_000_000)
    of_bet = (
        user(spot(0, 2 * 10**11), spot(1, 10**10 * tokens), bet),
        spot_market(1, SOL, 9, 160_000_000 // tokens, source=PLAIN),
        perp_market(0, 160_000_000, source=source),
    )
    of_deposit = (
        user(spot(0, 2 * 10**11), spot(1, 10**10 // tokens), bet),
        spot_market(1, SOL, 9, 160_000_000 * tokens, source=source),
        perp_market(0, 160_000_000, source=PLAIN),
    )
    for own, *there in (of_bet, of_deposit):
        found = bet_of(read(own, there=(DOLLARS, *there)))
        assert found.liquidation_price_usd == Fraction("71.794872")


def test_an_isolated_bet_has_a_deposit_and_a_health_of_its_own() -> None:
    found = read(user(spot(0, 10**12), perp(0, 10**9, -160_000_000, at_72=2 * 10**10, flags=1)))
    deposits, bet = of("positions", found)
    assert lines(deposits) == [("supply", USDC, 1_100_000_000)]
    assert lines(bet) == [("supply", USDC, 22_000_000)]
    whole, apart = of("health", found)
    assert whole.margin is not None
    assert apart.margin is not None
    assert whole.margin.maintenance_usd == 0
    assert whole.margin.leverage is None
    assert whole.unsupported_fields
    assert apart.margin.collateral_usd == 22
    assert apart.margin.maintenance_usd == 8
    assert apart.margin.leverage == Fraction(160, 22)
    assert len({each.id for each in (deposits, bet, whole, apart)}) == 3  # two are the account's
    assert bet_of(found).liquidation_price_usd == Fraction(160_000_000 - 14_736_842, 10**6)


def test_bytes_of_retired_shares_are_no_isolated_deposit() -> None:
    early = perp(0, 10**9, -160_000_000, at_72=-590_407_963_917, at_80=13_749_936_477, flags=3)
    found = read(user(spot(0, 2 * 10**10), early))
    assert [lines(each) for each in of("positions", found)] == [[("supply", USDC, 22_000_000)], []]
    [health] = of("health", found)
    assert health.margin is not None
    assert health.margin.health_pct is None
    assert any("layout" in each for each in health.unsupported_fields)
    assert bet_of(found).liquidation_price_usd is None
    # Of a slot that is not in use they are nothing.
    assert of("positions", read(user(perp(0, 0, 0, at_72=-5, at_80=7, flags=3)))) == []


def test_shares_of_an_amm_are_counted_and_worth_nothing() -> None:
    [shares] = of("lp", read(user(perp(0, 0, 0, shares=377_900_000_000, at_80=7))))
    assert shares.points == [Points("lp_shares", 377_900_000_000)]
    assert shares.assets == []
    assert shares.unsupported_fields


def test_a_market_that_is_not_known_is_missing_and_the_margin_with_it() -> None:
    found = read(user(spot(0, 10**9), spot(1, 10**9), perp(0, 5, 5)), there=(DOLLARS, BET))
    deposits, bet = of("positions", found)
    assert lines(deposits) == [("supply", USDC, 1_100_000)]
    assert deposits.missing == [layout.spot_market_address(1)]
    assert bet.missing == []
    [health] = of("health", found)
    assert health.missing == [layout.spot_market_address(1)]
    assert health.margin is not None
    assert health.margin.collateral_usd is None
    assert of("positions", read(user(perp(0, 5, 5)), there=(DOLLARS,)))[0].assets == []


@pytest.mark.parametrize(
    ("own", "there"),
    [
        (user(spot(1, 10**9), pool=3), (DOLLARS, SOLS, BET)),
        (user(spot(1, 10**9)), (DOLLARS, spot_market(1, SOL, 9, 0), BET)),
    ],
)
def test_a_margin_that_the_program_refuses_is_not_known(
    own: Account, there: tuple[Account, ...]
) -> None:
    found = read(own, there=there)
    assert lines(of("positions", found)[0]) == [("supply", SOL, 1_100_000_000)]
    [health] = of("health", found)
    assert health.margin is not None
    assert health.margin.health_pct is None
    assert health.unsupported_fields


def test_open_orders_count_as_if_the_worse_side_was_filled() -> None:
    buys = read(user(spot(0, 10**12), perp(0, 10**9, -160_000_000, orders=(10**9, 0))))
    [health] = of("health", buys)
    assert health.margin is not None
    assert health.margin.maintenance_usd == 16 + Fraction(1, 100)
    spot_buys = read(user(spot(0, 10**12), spot(1, 10**9, orders=(2 * 10**9, 0))))
    [health] = of("health", spot_buys)
    assert health.margin is not None
    assert health.margin.collateral_usd == 1100 + Fraction(31 * 150 * 9, 100)
    assert health.margin.maintenance_usd == 300 + Fraction(1, 100)
    assert health.margin.leverage is None
    # To sell is no risk here: the side on which nothing is filled is the worse one.
    spot_sells = read(user(spot(0, 10**12), spot(1, 10**9, orders=(0, -2 * 10**9))))
    [health] = of("health", spot_sells)
    assert health.margin is not None
    assert health.margin.collateral_usd == 1100 + Fraction(11 * 150 * 9, 100)


def stake(shares: int, leaving: int = 0, worth: int = 0, at_s: int = NOW, base: int = 0) -> Account:
    fields = {40: i128(shares) + i128(leaving) + i128(base), 96: i64(worth, at_s)}
    return account(layout.STAKE, ACCOUNT, fields)


def test_a_stake_is_its_part_of_the_vault() -> None:
    fund = spot_market(0, USDC, 6, 1_000_000, shares=1_000, unstaking_s=100)
    [found] = read(stake(300), there=(fund, vault(7_777)))
    assert found.route == "staking"
    assert lines(found) == [("supply", USDC, 2_333)]
    assert (found.locks, found.reference_slot) == ([], 20)


@pytest.mark.parametrize(("at_s", "is_over"), [(NOW - 99, False), (NOW - 100, True)])
@pytest.mark.parametrize(("worth", "paid"), [(500, 500), (900, 777)])
def test_what_is_leaving_is_worth_no_more_than_when_it_was_asked_for(
    at_s: int, is_over: bool, worth: int, paid: int
) -> None:
    fund = spot_market(0, USDC, 6, 1_000_000, shares=1_000, unstaking_s=100)
    [found] = read(stake(300, 100, worth, at_s), there=(fund, vault(7_777)))
    assert lines(found) == [("supply", USDC, 1_555), ("pending", USDC, paid)]
    [lock] = found.locks
    assert (lock.locked_raw, lock.claimable_raw) == ((0, paid) if is_over else (paid, 0))
    assert (lock.kind, lock.ends_ms) == ("cooldown", (at_s + 100) * 1000)


def test_a_fund_that_took_off_decimals_takes_them_off_the_stake() -> None:
    fund = spot_market(0, USDC, 6, 1_000_000, shares=1_000, base=2)
    [found] = read(stake(30_099), there=(fund, vault(7_777)))
    assert lines(found) == [("supply", USDC, 2_333)]


def test_without_the_vault_the_amount_is_not_known() -> None:
    fund = spot_market(0, USDC, 6, 1_000_000, shares=1_000)
    [found] = read(stake(300, 1, 5), there=(fund,))
    assert lines(found) == [("supply", USDC, None), ("pending", USDC, None)]
    assert found.missing == [VAULT]
    [found] = read(stake(300), there=())
    assert (found.assets, found.missing) == ([], [layout.spot_market_address(0)])


def test_fuel_is_points_and_no_asset() -> None:
    stats = account(layout.USER_STATS, ACCOUNT, {192: u32(1, 0, 0, 0, 7, 0)})
    overflow = account(layout.FUEL_OVERFLOW, OTHER, {40: i128(2**70)})
    empty = account(layout.USER_STATS, VAULT, {})
    first, second = read(stats, overflow, empty)
    assert first.points == [Points("fuel_insurance", 1), Points("fuel_taker", 7)]
    assert second.points == [Points("fuel_insurance", 2**70)]
    assert first.assets == second.assets == []


def test_accounts_of_another_wallet_are_no_positions() -> None:
    assert read(user(spot(0, 10**9), wallet=OTHER)) == []
    assert read(account(layout.STAKE, ACCOUNT, {40: i128(5)}, wallet=OTHER)) == []
    assert read(account(layout.USER_STATS, ACCOUNT, {192: u32(5)}, wallet=OTHER)) == []


def moved(of: Account, address: bytes) -> Account:
    return of._replace(address=address)


@pytest.mark.parametrize(
    ("own", "there"),
    [
        (user(spot(0, 1), spot(0, 2)), (DOLLARS,)),
        (user(spot(0, 1)[:34] + b"\2" + bytes(5)), (DOLLARS,)),
        (user(spot(0, 1)), (moved(SOLS, DOLLARS.address),)),
        (user(spot(0, 1)), (moved(BET, DOLLARS.address),)),
        (user(perp(0, 1, 1)), (DOLLARS, moved(perp_market(1, 5), BET.address))),
        (user(spot(0, 1)), (spot_market(0, USDC, 20, 5),)),
        (user(spot(0, 1))._replace(data=layout.USER.tag), (DOLLARS,)),
        (stake(5, 6), ()),
        (stake(5), (spot_market(0, USDC, 6, 5, shares=4), vault(9))),
        (stake(5, base=1), (spot_market(0, USDC, 6, 5, shares=9), vault(9))),
        (stake(5), (spot_market(0, USDC, 6, 5, shares=9), vault(9, SOL))),
        (stake(5), (spot_market(0, USDC, 6, 5, shares=9), moved(BET, VAULT))),
    ],
)
def test_hostile_accounts_are_unreadable(own: Account, there: tuple[Account, ...]) -> None:
    with pytest.raises(Unreadable) as raised:
        read(own, there=there)
    assert raised.value.account in {own.address, *(each.address for each in there)}


@given(I64, I64, I64, I64, st.integers(0, 2**64 - 1), st.booleans())
@examples(200)
def test_a_margin_is_read_of_any_amounts(
    base: int, quote: int, bids: int, asks: int, balance: int, owes: bool
) -> None:
    own = user(spot(1, balance, owes=owes, orders=(bids, asks)), perp(0, base, quote))
    for each in of("health", read(own)):
        assert each.margin is not None
        assert each.margin.health_pct is not None
        assert 0 <= each.margin.health_pct <= 100
        assert each.margin.free_usd is not None
        assert each.margin.free_usd >= 0


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real accounts is not here")
def test_real_accounts_are_read() -> None:
    """Users have the positions that they were seen to have, and markets are where they say."""
    kept: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(CORPUS.iterdir()):
        kept.setdefault(path.name.partition("-")[0], []).append(json.loads(path.read_text()))

    def datas(kind: str) -> list[bytes]:
        return [base64.b64decode(each["account"]["data"][0]) for each in kept[kind]]

    for data in datas("SpotMarket"):
        number = int.from_bytes(data[684:686], "little")
        address = layout.spot_market_address(number)
        assert address == data[8:40]  # the market's own word for where it is
        market = layout.spot_market_of(Account(address, layout.SPOT_MARKET, 1, data, 1), number)
        assert market.price > 0
    for data in datas("PerpMarket"):
        number = int.from_bytes(data[1160:1162], "little")
        address = layout.perp_market_address(number)
        assert address == data[8:40]
        perps = layout.perp_market_of(Account(address, layout.PERP_MARKET, 1, data, 1), number)
        assert perps.symbol.isascii()
    users = [layout.user_of(Account(ACCOUNT, layout.USER, 1, data, 1)) for data in datas("User")]
    assert len(users) == 103
    assert sum(len(each.spots) for each in users) == 160
    assert sum(perp.is_active for each in users for perp in each.perps) == 69
    assert sum(bool(perp.lp_shares) for each in users for perp in each.perps) == 9
