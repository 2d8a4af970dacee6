"""The last prices of tokens that other tokens are quoted in.

A token enters the book when a settled swap is quoted in it. The book keeps the `CAPACITY` most
recently used ones, in the order of their last use. After each slot, a token of the book for
which the slot's swaps quoted in money, but for those of `AGREED` venues, moved
`LEAST_VOLUME_LAMPORTS` or more is worth the sum of their lamports over the sum of their quantities,
all pools together; else its price stays. The sums are kept as they are: the amount behind a price
bounds the amount that it may value.

A function of the settled slots: the entries after a slot are all that the next one needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pipeline.domain.value import AGREED, Price
from schemas.events import Swap
from schemas.money import MONEY

CAPACITY: Final = 32
LEAST_VOLUME_LAMPORTS: Final = 100_000_000

Entry = tuple[str, int, int]  # mint, lamports, amount_raw; 0, 0 while it has no price
_BITS: Final = 64  # of either part of a price on the wire


class QuoteBook:
    """Which tokens serve as quotes, and what they were last worth."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.prices: dict[str, Price] = {}  # lamports, amount_raw
        # Least recently used first. No LRUCache: the order is state, and that iterates in another.
        self._used: dict[str, None] = {}
        for mint, lamports, amount_raw in entries:
            self._used[mint] = None
            if lamports and amount_raw:
                self.prices[mint] = lamports, amount_raw

    def entries(self) -> list[Entry]:
        """Return what the constructor takes: all tokens, least recently used first."""
        return [(mint, *self.prices.get(mint, (0, 0))) for mint in self._used]

    def apply(self, swaps: Iterable[Swap]) -> None:
        """Take the valued swaps of the next settled slot, in its order."""
        sold = []
        for swap in swaps:
            if swap.quote_mint not in MONEY:
                self._use(swap.quote_mint)
            elif swap.dex not in AGREED:
                sold.append(swap)
        self._reprice(sold)

    def _use(self, mint: str) -> None:
        self._used.pop(mint, None)
        self._used[mint] = None
        if len(self._used) > CAPACITY:
            oldest = next(iter(self._used))
            del self._used[oldest]
            self.prices.pop(oldest, None)

    def _reprice(self, sold: Iterable[Swap]) -> None:
        traded: dict[str, Price] = {}
        for swap in sold:
            lamports = swap.sol_value_lamports
            if lamports is not None and swap.mint in self._used:
                total, quantity = traded.get(swap.mint, (0, 0))
                traded[swap.mint] = total + lamports, quantity + swap.amount_raw
        for mint, (lamports, amount_raw) in traded.items():
            if lamports >= LEAST_VOLUME_LAMPORTS and amount_raw:
                self.prices[mint] = _fitted(lamports, amount_raw)


def _fitted(lamports: int, amount_raw: int) -> Price:
    """Return a ratio within the bits of the wire."""
    excess = max(lamports.bit_length(), amount_raw.bit_length()) - _BITS
    if excess > 0:
        lamports, amount_raw = max(lamports >> excess, 1), max(amount_raw >> excess, 1)
    return lamports, amount_raw
