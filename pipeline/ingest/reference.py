"""The reference SOL/USD price of a slot, from what SOL was traded for in it.

A function of the slot's swaps and the price before, nothing else, so a replay of the log gives
the same prices. Each pool of SOL against a dollar coin votes with its own volume-weighted
price; the median of the votes, weighted by SOL volume, is the slot's price. A pool weighs less
than all others together, so that no single one is the price. Where fewer than three pools
traded, one of them could be anything, so the price moves by two per cent at most. What two hands
agree on for nothing (`AGREED` venues) has no vote. Three pools can be of one hand, which trades
with itself more than all others do in a slot: then it moves by ten. A true jump is reached some
slots later.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from typing import Final

from pipeline.domain.value import AGREED
from schemas.events import Event, Swap
from schemas.money import DOLLARS, SOL_DECIMALS, WSOL

LEAST_VOLUME_LAMPORTS: Final = 100_000_000  # of a pool in a slot: below, rounding shows
TRUSTED_POOLS: Final = 3
MAX_STEP: Final = Decimal("0.02")
MAX_TRUSTED_STEP: Final = Decimal("0.1")

_PRECISION: Final = Context(prec=12)


def sol_usd(before: Decimal | None, events: Iterable[Event]) -> Decimal | None:
    """Return the reference price of a slot; `before` where nothing in it sets one."""
    votes = sorted(_votes(events))
    if not votes:
        return before
    price = _weighted_median(votes)
    if before is not None:
        step = before * (MAX_STEP if len(votes) < TRUSTED_POOLS else MAX_TRUSTED_STEP)
        price = max(before - step, min(before + step, price))
    return _PRECISION.plus(price)


def _votes(events: Iterable[Event]) -> list[tuple[Decimal, int]]:
    """Return the price and the SOL volume in lamports of each pool."""
    traded: dict[str, tuple[int, Decimal]] = {}
    for event in events:
        if not isinstance(event, Swap) or event.dex in AGREED:
            continue
        if event.quote_mint == WSOL and event.mint in DOLLARS:
            lamports, usd_raw, decimals = event.quote_amount_raw, event.amount_raw, event.decimals
        elif event.mint == WSOL and event.quote_mint in DOLLARS:
            lamports, usd_raw = event.amount_raw, event.quote_amount_raw
            decimals = event.quote_decimals
        else:
            continue
        volume, usd = traded.get(event.pool, (0, Decimal(0)))
        traded[event.pool] = volume + lamports, usd + Decimal(usd_raw).scaleb(-decimals)
    return [
        (_PRECISION.divide(usd, Decimal(volume).scaleb(-SOL_DECIMALS)), volume)
        for volume, usd in traded.values()
        if volume >= LEAST_VOLUME_LAMPORTS and usd > 0
    ]


def _weighted_median(votes: list[tuple[Decimal, int]]) -> Decimal:
    """Return the price at which half of the volume is reached; `votes` ascend by price."""
    total = sum(weight for _, weight in votes)
    largest = max(weight for _, weight in votes)
    if len(votes) >= TRUSTED_POOLS and 2 * largest >= total:
        most = total - largest - 1
        votes = [(price, min(weight, most)) for price, weight in votes]
        total = sum(weight for _, weight in votes)
    reached = 0
    for price, weight in votes:
        reached += weight
        if 2 * reached >= total:
            return price
    raise ValueError("no votes")
