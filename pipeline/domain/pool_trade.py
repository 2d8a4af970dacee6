"""What one swap shows of its pool: the price after it, and how deep the pool is.

A swap's own price lies between the pool's price before and after it, so after a sandwich it is
not that of the pool now. Where the venue discloses enough, the price after the swap counts instead:
- virtual reserves: their ratio is the price that a curve gives to the next swap.
- reserves, if the swap fits a constant product of them (dx, dy and both reserves: the square of
  the swap's price is the product of the prices before and after). Curves whose virtual reserves
  are not disclosed do not fit, whatever the venue is called, and keep the swap's own price.
- sqrt_price_x64, the root of token 1 per token 0. Which of them is the mint is not stated; the
  reading that is nearer to the swap's price is right unless both are near one raw unit for one.

Depth is the quote side of the reserves, in lamports. Concentrated pools state liquidity L: within
the current range they trade like a constant product with virtual quote reserves L * sqrt(price)
(Uniswap v3 whitepaper, section 6.2). Those need little capital in a narrow range, and capital far
from the price is no depth: theirs is the lesser of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schemas.events import Side, Swap
from schemas.money import MONEY

FEE_AND_ROUNDING: Final = 8  # the check of the constant product allows an eighth
BINS: Final = frozenset({"meteora-dlmm"})
NEAR: Final = 4  # a pool's price is believed up to four times off the swap's
_Q64: Final = 1 << 64
_Q128: Final = 1 << 128
_BITS: Final = 63

Ratio = tuple[int, int]  # lamports for so many raw units of the token


@dataclass(slots=True, frozen=True)
class Trade:
    """A swap of a mint as its price sees it; `lamports` is the value of the quote side."""

    pool: str
    dex: str
    slot: int
    time_ms: int
    lamports: int
    amount_raw: int
    depth_lamports: int | None = None  # quote reserves; None: not known
    virtual_lamports: int | None = None  # virtual quote reserves of a concentrated pool
    spot: Ratio | None = None  # price after the trade; None: not known, the trade's own counts
    in_money: bool = True  # else `lamports` is what its quote is believed to be worth


def trade_of(swap: Swap) -> Trade | None:
    """Return the trade; None while the value of its quote is not known."""
    lamports = swap.sol_value_lamports
    if lamports is None:
        return None
    depth = virtual = spot = None
    paid, amount = swap.quote_amount_raw, swap.amount_raw
    if paid and amount:
        if swap.quote_reserve_raw is not None:
            depth = lamports * swap.quote_reserve_raw // paid
        if swap.sqrt_price_x64:
            found = _concentrated(paid, amount, swap.sqrt_price_x64, swap.liquidity or 0)
            if found is not None:
                (quote, token), virtual_quote = found
                spot = _narrow(lamports * quote, paid * token)
                virtual = lamports * virtual_quote // paid if virtual_quote else None
                if virtual is not None and depth is not None:
                    depth = min(depth, virtual)
        elif swap.virtual_quote_reserve_raw and swap.virtual_reserve_raw:
            spot = _narrow(
                lamports * swap.virtual_quote_reserve_raw, paid * swap.virtual_reserve_raw
            )
        elif swap.dex in BINS:
            pass  # what is in other bins says nothing of the price
        elif swap.quote_reserve_raw and swap.reserve_raw and _constant_product(swap):
            spot = _narrow(lamports * swap.quote_reserve_raw, paid * swap.reserve_raw)
    return Trade(
        swap.pool,
        swap.dex,
        swap.slot,
        swap.block_time_ms,
        lamports,
        amount,
        depth,
        virtual,
        spot,
        swap.quote_mint in MONEY,
    )


def _constant_product(swap: Swap) -> bool:
    quote, token = swap.quote_reserve_raw or 0, swap.reserve_raw or 0
    paid, amount = swap.quote_amount_raw, swap.amount_raw
    if swap.side is Side.BUY:
        quote_before, token_before = quote - paid, token + amount
    else:
        quote_before, token_before = quote + paid, token - amount
    # Less than nothing before fits nothing: one of the two is then not above zero, the other is.
    squared = paid * paid * token * token_before
    product = amount * amount * quote * quote_before
    return abs(squared - product) * FEE_AND_ROUNDING <= product


def _concentrated(
    paid: int, amount: int, sqrt_price_x64: int, liquidity: int
) -> tuple[Ratio, int] | None:
    """Return quote for token raw units after the swap, and the virtual quote reserves."""
    square = sqrt_price_x64 * sqrt_price_x64
    first = paid * _Q128, amount * square  # swap's price to the pool's, the mint being token 0
    second = paid * square, amount * _Q128  # ... being token 1
    # The terms of both have one product, so the nearer to one has the lesser greater term.
    if max(first) <= max(second):
        off, price = first, (square, _Q128)
        virtual = liquidity * sqrt_price_x64 // _Q64
    else:
        off, price = second, (_Q128, square)
        virtual = liquidity * _Q64 // sqrt_price_x64
    if off[0] > NEAR * off[1] or off[1] > NEAR * off[0]:
        return None
    return price, virtual


def _narrow(lamports: int, amount_raw: int) -> Ratio | None:
    """Return the ratio in 64-bit numbers, to what precision they have; None if that is none."""
    excess = max(lamports.bit_length(), amount_raw.bit_length()) - _BITS
    if excess > 0:
        lamports, amount_raw = lamports >> excess, amount_raw >> excess
    return (lamports, amount_raw) if lamports and amount_raw else None
