from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from pipeline.decoding.registry import VENUES
from pipeline.domain.value import AGREED
from pipeline.ingest.reference import sol_usd
from schemas.events import Side, Swap
from schemas.money import USDC, USDT, WSOL

SOL = 10**9
OTHER = "9n4nbM75f5Ui33ZbPYXn59EwSgE8CGsHtAeTH5YFeJ9E"


def swap(
    pool: str, sol: float, price: str, dollar: str = USDC, *, sol_is_quote: bool = True
) -> Swap:
    lamports, usd_raw = int(sol * SOL), int(Decimal(price) * Decimal(sol) * 10**6)
    mint, quote = (dollar, WSOL) if sol_is_quote else (WSOL, dollar)
    amounts = (usd_raw, 6, lamports, 9) if sol_is_quote else (lamports, 9, usd_raw, 6)
    return Swap(
        signature="",
        slot=1,
        tx_index=0,
        event_index=0,
        block_time_ms=0,
        dex="",
        program_id="",
        pool=pool,
        wallet="",
        fee_payer="",
        mint=mint,
        quote_mint=quote,
        side=Side.BUY,
        amount_raw=amounts[0],
        decimals=amounts[1],
        quote_amount_raw=amounts[2],
        quote_decimals=amounts[3],
        wallet_amount_raw=0,
        wallet_quote_amount_raw=0,
        pool_fee_raw=None,
        pool_fee_mint="",
        fee_lamports=0,
        priority_fee_lamports=0,
        tip_lamports=0,
        router="",
        platform="",
        reserve_raw=None,
        quote_reserve_raw=None,
        liquidity=None,
        sqrt_price_x64=None,
    )


def test_carried_forward_where_no_swap_gives_one() -> None:
    assert sol_usd(None, []) is None
    assert sol_usd(Decimal(150), []) == 150
    assert sol_usd(Decimal(150), [swap("a", 5, "1", dollar=OTHER)]) == 150


def test_weighted_by_volume_within_a_pool() -> None:
    trades = [swap("a", 1, "140"), swap("a", 3, "160")]
    assert sol_usd(None, trades) == Decimal(155)


def test_either_side_may_be_the_quote() -> None:
    assert sol_usd(None, [swap("a", 2, "150.5", USDT, sol_is_quote=False)]) == Decimal("150.5")


def test_one_bad_pool_does_not_move_the_price() -> None:
    trades = [swap("a", 10, "150"), swap("b", 10, "150.2"), swap("bad", 1, "9000")]
    assert sol_usd(Decimal(149), trades) == Decimal("150.2")
    assert sol_usd(Decimal(149), [*trades, swap("bad", 8, "9000")]) == Decimal("150.2")


def test_one_bad_pool_does_not_move_it_however_much_it_trades() -> None:
    honest = [swap(pool, 100, "150") for pool in "abcde"]
    for volume in (501, 600, 10**6):
        for price in ("1", "9000"):
            assert sol_usd(Decimal(150), [*honest, swap("bad", volume, price)]) == Decimal(150)
    assert sol_usd(None, [*honest, swap("bad", 10**6, "1")]) == Decimal(150)


def test_few_pools_move_it_by_two_per_cent_at_most() -> None:
    assert sol_usd(Decimal(100), [swap("bad", 50, "9000")]) == Decimal(102)
    assert sol_usd(Decimal(100), [swap("bad", 50, "1"), swap("b", 1, "1")]) == Decimal(98)


def test_a_true_jump_is_followed_when_several_pools_agree() -> None:
    trades = [swap(pool, 1, "130") for pool in "abc"]
    price: Decimal | None = Decimal(100)
    for expected in ("110", "121", "130", "130"):
        price = sol_usd(price, trades)
        assert price == Decimal(expected)


def test_many_pools_of_one_hand_gain_ten_per_cent_of_a_slot() -> None:
    honest = [swap(pool, 100, "150") for pool in "abc"]
    own = [swap(f"own {number}", 10_000, "9000000") for number in range(3)]
    price = sol_usd(Decimal(150), [*honest, *own])
    assert price == Decimal(165)
    assert sol_usd(price, honest) == Decimal(150)


@pytest.mark.parametrize("dex", sorted({*AGREED, "manifest", "openbook-v2", "phoenix"}))
def test_what_two_hands_agree_on_has_no_vote(dex: str) -> None:
    """It costs nothing to trade with oneself there, as much as all others and at any price."""
    honest = [swap(pool, 20, "150") for pool in "abc"]
    own = [replace(swap(f"own {number}", 100, "9000"), dex=dex) for number in range(3)]
    assert sol_usd(Decimal(150), [*honest, *own]) == Decimal(150)
    assert sol_usd(Decimal(150), own) == Decimal(150)


def test_venues_of_agreed_prices_are_there() -> None:
    assert {venue.dex for venue in VENUES} >= AGREED


def test_dust_has_no_vote() -> None:
    assert sol_usd(Decimal(100), [swap("dust", 0.01, "101")]) == Decimal(100)
