"""What swaps are valued with, from slot to slot: SOL/USD and the book of quotes.

A settled slot's swaps are valued with the slot's own SOL/USD and the book as the slot before
left it; a swap that is not settled yet, with what the last settled slot left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from pipeline.domain.quote_book import Entry, QuoteBook
from pipeline.domain.value import SolUsd, value_swaps
from pipeline.ingest.ledger import Settled
from pipeline.ingest.reference import sol_usd
from schemas.events import Event, Swap

TRANSACTIONS_BEFORE_YIELD: Final = 500


def decimal_text(price: Decimal | None) -> str:
    """Return a price as the log carries it."""
    return "" if price is None else f"{price:f}"


@dataclass(slots=True, frozen=True)
class Reference:
    """Prices after a settled slot."""

    sol_usd: str = ""  # a decimal; empty while unknown
    quotes: tuple[Entry, ...] = ()  # the book of quotes


class Valuation:
    """Values swaps with what the last settled slot left."""

    def __init__(self, price: Decimal | None, quotes: Sequence[Entry]) -> None:
        self.sol_usd = price
        self._ratio = SolUsd.of(price)
        self._book = QuoteBook(quotes)

    @property
    def reference(self) -> Reference:
        """What the log keeps of it."""
        return Reference(decimal_text(self.sol_usd), tuple(self._book.entries()))

    def value(self, events: Sequence[Event]) -> None:
        """Value the swaps of one transaction that is not settled yet."""
        if events:
            swaps = [event for event in events if isinstance(event, Swap)]
            value_swaps(swaps, self._ratio, self._book.prices)

    async def settle(self, settled: Settled) -> None:
        """Value the swaps of the next slot, and take over its prices."""
        price = sol_usd(self.sol_usd, settled.events())
        ratio = SolUsd.of(price)
        for count, transaction in enumerate(settled.transactions, start=1):
            if transaction.events:
                swaps = [event for event in transaction.events if isinstance(event, Swap)]
                value_swaps(swaps, ratio, self._book.prices)
            if count % TRANSACTIONS_BEFORE_YIELD == 0:
                await asyncio.sleep(0)
        self.sol_usd, self._ratio = price, ratio
        self._book.apply(event for event in settled.events() if isinstance(event, Swap))
