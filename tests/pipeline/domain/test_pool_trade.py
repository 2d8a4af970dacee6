"""What a swap says of its pool: price after it, and depth."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import isqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.decoding.reading import decode_update
from pipeline.domain.pool_trade import trade_of
from schemas.events import Side, Swap
from schemas.money import MONEY, USDC, WSOL

SOL = 10**9


def swap(amount_raw: int, paid: int, **given: Any) -> Swap:
    """A purchase quoted in SOL by default."""
    values: dict[str, Any] = {
        "signature": "s", "slot": 9, "tx_index": 0, "event_index": 0, "block_time_ms": 1_000,
        "dex": "a-dex", "program_id": "p", "pool": "pool", "wallet": "w", "fee_payer": "w",
        "mint": "m", "quote_mint": WSOL, "side": Side.BUY, "amount_raw": amount_raw, "decimals": 6,
        "quote_amount_raw": paid, "quote_decimals": 9, "wallet_amount_raw": amount_raw,
        "wallet_quote_amount_raw": paid, "pool_fee_raw": None, "pool_fee_mint": "",
        "fee_lamports": 0, "priority_fee_lamports": 0, "tip_lamports": 0, "router": "",
        "platform": "", "reserve_raw": None, "quote_reserve_raw": None, "liquidity": None,
        "sqrt_price_x64": None, "sol_value_lamports": paid, **given,
    }  # fmt: skip
    return Swap(**values)


def test_a_swap_without_value_is_no_trade():
    assert trade_of(swap(5, 7, sol_value_lamports=None)) is None


def test_without_reserves_the_price_is_that_of_the_trade():
    trade = trade_of(swap(5, 7))
    assert (trade.lamports, trade.amount_raw, trade.pool, trade.slot) == (7, 5, "pool", 9)
    assert (trade.depth_lamports, trade.virtual_lamports, trade.spot) == (None, None, None)


@pytest.mark.parametrize(("amount_raw", "paid"), [(0, 7), (5, 0), (0, 0)])
def test_one_side_alone_gives_neither_price_nor_depth(amount_raw, paid):
    trade = trade_of(
        swap(amount_raw, paid, reserve_raw=10, quote_reserve_raw=10, sqrt_price_x64=1 << 64)
    )
    assert (trade.depth_lamports, trade.spot) == (None, None)


def through(quote, token, paid, fee_bps, side):
    """A swap through x * y = k; the fee stays in the vault of what goes in."""
    if side is Side.BUY:
        used = paid * (10_000 - fee_bps) // 10_000
        amount = token - quote * token // (quote + used) - 1
        quote, token = quote + paid, token - amount
    else:
        amount = paid * token // quote
        used = amount * (10_000 - fee_bps) // 10_000
        paid = quote - quote * token // (token + used) - 1
        quote, token = quote - paid, token + amount
    return swap(amount, paid, side=side, reserve_raw=token, quote_reserve_raw=quote)


POOLS = st.tuples(
    st.integers(SOL, 10**6 * SOL),  # quote reserves
    st.integers(10**9, 10**16),
    st.integers(1, 1000),  # of the quote reserves, thousandths
    st.integers(0, 300),
    st.sampled_from(Side),
)


@given(POOLS)
def test_reserves_of_a_constant_product_give_the_price_after(pool):
    quote, token, share, fee_bps, side = pool
    made = through(quote, token, quote * share // 1000, fee_bps, side)
    trade = trade_of(made)
    assert trade.spot
    after = Fraction(made.quote_reserve_raw, made.reserve_raw)
    assert abs(Fraction(*trade.spot) / after - 1) < Fraction(1, 10**6)
    assert trade.depth_lamports == made.quote_reserve_raw


@given(st.integers(0, 80 * SOL), st.integers(SOL // 100, 5 * SOL))
def test_real_reserves_of_a_curve_with_virtual_ones_are_no_price(raised, paid):
    """pump.fun's curve begins with 30 SOL and some 279.9 million tokens that are not there."""
    k = 30 * SOL * 1_073_000_000 * 10**6
    virtual = k // (30 * SOL + raised)
    after = k // (30 * SOL + raised + paid)
    real = after - 279_900_000 * 10**6
    if real <= 0:
        return
    trade = trade_of(swap(virtual - after, paid, reserve_raw=real, quote_reserve_raw=raised + paid))
    assert trade.depth_lamports == raised + paid
    executed = Fraction(paid, virtual - after)
    stated = Fraction(*trade.spot) if trade.spot else executed
    assert abs(stated / executed - 1) < Fraction(1, 2)


CURVES = st.tuples(
    st.integers(0, 80 * SOL),  # gathered
    st.integers(1, 5 * SOL),
    st.sampled_from(Side),
    st.sampled_from([30 * SOL, 9_773_313_612]),  # virtual SOL of usual coins, of a mayhem coin
)


@given(CURVES)
def test_virtual_reserves_give_the_price_of_the_next_trade(curve):
    gathered, paid, side, virtual_lamports = curve
    quote, token = virtual_lamports + gathered, 1_073_000_000 * 10**6 - gathered * 5_000
    if side is Side.BUY:
        amount = paid * token // (quote + paid)
        quote, token = quote + paid, token - amount
    else:
        paid = min(paid, quote // 2)
        amount = -(-paid * token // (quote - paid))
        quote, token = quote - paid, token + amount
    trade = trade_of(
        swap(
            amount, paid, side=side, reserve_raw=token - 279_900_000 * 10**6,
            quote_reserve_raw=quote - virtual_lamports + SOL, virtual_reserve_raw=token,
            virtual_quote_reserve_raw=quote,
        )
    )  # fmt: skip
    assert amount
    assert Fraction(*trade.spot) == pytest.approx(Fraction(quote, token), rel=1e-12)
    assert trade.depth_lamports == quote - virtual_lamports + SOL


@given(
    st.integers(1, 10**12),  # price, quote raw for 10**9 token raw
    st.integers(10**9, 10**24),  # liquidity
    st.sampled_from(["mint is token 0", "mint is token 1"]),
)
def test_the_root_of_the_price_is_read_whichever_side_the_mint_is(price, liquidity, side):
    ratio = Fraction(price, 10**9)
    token_1_per_0 = ratio if side == "mint is token 0" else 1 / ratio
    root = isqrt((token_1_per_0.numerator << 128) // token_1_per_0.denominator)
    amount_raw = 10**13
    paid = int(amount_raw * ratio)
    trade = trade_of(swap(amount_raw, paid, sqrt_price_x64=root, liquidity=liquidity))
    assert abs(Fraction(*trade.spot) / ratio - 1) < Fraction(1, 10**5)
    virtual = liquidity * (float(ratio) ** 0.5)  # L * sqrt(price) in quote, either way
    assert trade.virtual_lamports == pytest.approx(virtual, rel=1e-4, abs=2)


@pytest.mark.parametrize("reserve", [10 * SOL, 10**6 * SOL])
def test_depth_of_a_concentrated_pool_is_capital_that_is_near_the_price(reserve):
    stated = {"sqrt_price_x64": 1 << 64, "liquidity": 100 * SOL}
    trade = trade_of(swap(SOL, SOL, quote_reserve_raw=reserve, reserve_raw=SOL, **stated))
    assert trade.virtual_lamports == 100 * SOL
    assert trade.depth_lamports == min(reserve, 100 * SOL)


def test_reserves_in_bins_are_no_price():
    reserves = {"reserve_raw": 100 * SOL, "quote_reserve_raw": 102 * SOL}
    assert trade_of(swap(SOL, SOL, **reserves)).spot is not None
    trade = trade_of(swap(SOL, SOL, dex="meteora-dlmm", **reserves))
    assert trade.spot is None
    assert trade.depth_lamports == 102 * SOL


def test_a_price_that_is_far_from_the_trade_is_not_believed():
    root = isqrt(100 << 128)
    assert trade_of(swap(10**9, 10**9, sqrt_price_x64=root)).spot is None


@pytest.mark.parametrize(("root", "further"), [(2 << 64, 1), (1 << 63, -1)])
def test_a_price_is_believed_up_to_four_times_off_the_trade(root: int, further: int) -> None:
    assert trade_of(swap(10**9, 10**9, sqrt_price_x64=root)).spot is not None
    assert trade_of(swap(10**9, 10**9, sqrt_price_x64=root + further)).spot is None


@given(st.integers(1, 10**12), st.integers(1, 10**12), st.integers(1 << 48, 1 << 80))
def test_of_both_readings_of_a_root_the_nearer_to_the_trade_counts(
    amount_raw: int, paid: int, root: int
) -> None:
    traded, read = Fraction(paid, amount_raw), Fraction(root**2, 1 << 128)
    nearest = min((read, 1 / read), key=lambda price: max(price / traded, traded / price))
    is_believed = max(nearest / traded, traded / nearest) <= 4
    spot = trade_of(swap(amount_raw, paid, sqrt_price_x64=root)).spot
    assert (spot is not None) is is_believed
    if spot is not None:
        assert abs(Fraction(*spot) / nearest - 1) < Fraction(1, 1 << 20)


@pytest.mark.parametrize("side", Side)
def test_reserves_that_the_trade_alone_explains_are_no_price(side: Side) -> None:
    """More was paid in, or given out, than is there: there were less than none before."""
    for quote, token in ((1, 10**9), (10**9, 1), (SOL, SOL)):
        made = swap(SOL, SOL, side=side, reserve_raw=token, quote_reserve_raw=quote)
        assert trade_of(made).spot is None


def test_other_quotes_are_valued_like_the_quote_side():
    """USDC at 150 dollars a SOL: 300 dollars are 2 SOL, the reserves of 30,000 dollars 200."""
    made = swap(
        10**9, 300 * 10**6, quote_mint=USDC, quote_decimals=6, sol_value_lamports=2 * SOL,
        quote_reserve_raw=30_000 * 10**6, reserve_raw=10**11 - 10**9,
    )  # fmt: skip
    trade = trade_of(made)
    assert trade.depth_lamports == 200 * SOL
    assert Fraction(*trade.spot) == pytest.approx(200 * SOL / (10**11 - 10**9), rel=1e-9)


def test_reserves_of_a_token_are_worth_what_somebody_says():
    reserves = {"quote_reserve_raw": 10**17, "reserve_raw": 10**11}
    assert trade_of(swap(10**9, 10**8, **reserves)).depth_lamports == 10**17
    made = swap(10**9, 10**8, quote_mint="made-up", sol_value_lamports=10**7, **reserves)
    assert trade_of(made).depth_lamports == 10**16
    assert not trade_of(made).in_money


def test_recorded_swaps_of_venues_with_reserves(corpus: Any):
    """Of real swaps of constant products and of concentrated pools every one gives its price."""
    constant = {"pump-swap", "raydium-amm-v4", "raydium-cpmm"}
    concentrated = {"raydium-clmm", "byreal", "pancakeswap"}
    seen: Counter[str] = Counter()
    for answer, info in corpus.values():
        for event in decode_update(info, answer["slot"], 0).events:
            if not isinstance(event, Swap) or event.dex not in constant | concentrated:
                continue
            event.sol_value_lamports = event.quote_amount_raw
            trade = trade_of(event)
            assert trade.spot, event.signature
            executed = Fraction(trade.lamports, trade.amount_raw)
            assert abs(Fraction(*trade.spot) / executed - 1) < Fraction(1, 20)
            if event.quote_mint in MONEY:
                stated = trade.depth_lamports if event.dex in constant else trade.virtual_lamports
                assert stated
            seen[event.dex] += 1
    assert seen.keys() == constant | concentrated


def test_recorded_curves_are_left_where_the_next_trade_finds_them(corpus: Any):
    """The product of virtual reserves is kept by a trade, so they are where it left the curve.

    Not by the trades of pump.fun's own agent, which pays no fee: they move the virtual SOL as well.
    """
    seen: Counter[str] = Counter()
    for answer, info in corpus.values():
        for event in decode_update(info, answer["slot"], 0).events:
            if not isinstance(event, Swap) or event.dex not in {"pump-fun", "raydium-launchlab"}:
                continue
            event.sol_value_lamports = event.quote_amount_raw
            trade = trade_of(event)
            assert trade
            assert trade.spot
            quote, token = event.virtual_quote_reserve_raw, event.virtual_reserve_raw
            assert quote
            assert token
            assert Fraction(*trade.spot) == pytest.approx(Fraction(quote, token), rel=1e-12)
            seen[event.platform if event.dex == "pump-fun" else event.dex] += 1
            if event.dex == "raydium-launchlab":  # the decoder holds it against the event
                continue
            if event.platform == "pump-fun-mayhem" and event.pool_fee_raw == 0:
                continue
            sign = 1 if event.side is Side.BUY else -1
            quote_before = quote - sign * event.quote_amount_raw
            token_before = token + sign * event.amount_raw
            assert abs(quote * token - quote_before * token_before) <= 2 * (quote + token)
    assert seen.keys() == {"pump-fun", "pump-fun-mayhem", "raydium-launchlab"}


@pytest.mark.parametrize("given", ["virtual_reserve_raw", "virtual_quote_reserve_raw"])
def test_virtual_reserves_of_one_side_alone_are_no_price(given: str) -> None:
    trade = trade_of(swap(5, 7, **{given: 9}))
    assert (trade.lamports, trade.spot) == (7, None)


def test_a_pool_that_does_not_state_its_liquidity_has_its_reserves_as_depth() -> None:
    trade = trade_of(swap(SOL, SOL, sqrt_price_x64=1 << 64, quote_reserve_raw=5 * SOL))
    assert trade.spot is not None
    assert (trade.depth_lamports, trade.virtual_lamports) == (5 * SOL, None)


@pytest.mark.parametrize(("quote", "token"), [(1 << 63, 1), (1, 1 << 63)])
def test_a_price_beyond_63_bits_is_none(quote: int, token: int) -> None:
    stated = {"virtual_quote_reserve_raw": quote, "virtual_reserve_raw": token}
    assert trade_of(swap(1, 1, **stated)).spot is None
    stated = {name: max(each >> 1, 1) for name, each in stated.items()}
    assert trade_of(swap(1, 1, **stated)).spot == tuple(stated.values())
