"""Whose the swaps of a filled order are: a listed keeper's program names the order's owner.

Nothing else does. Balances could: a payer or an unlisted program passes what it bought on. But
anyone can send tokens to a wallet, through a pool of their own and at any price, and must not put
trades into its books by that. There the trade stays with who signed, and what comes out of it is
received.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from pipeline.decoding.contract import Filled
from pipeline.solana.transaction import Transaction
from schemas.events import Event, Side, Swap


def fill(tx: Transaction, position: int, filled: Filled, events: Iterable[Event]) -> None:
    """Give a filled order's swaps to its owner, and make them add up to what that received."""
    end = tx.subtree_end(position)
    swaps = [
        event
        for event in events
        if isinstance(event, Swap)
        and filled.begin <= event.event_index < end
        and event.wallet in (filled.keeper, filled.owner)
    ]
    _give(swaps, filled.owner, filled.keeper)
    if filled.received_raw is not None:
        _reduce(swaps, filled.output_mint, filled.received_raw)


def _give(swaps: Sequence[Swap], owner: str, keeper: str) -> None:
    for swap in swaps:
        swap.wallet, swap.keeper = owner, keeper


def _reduce(swaps: Sequence[Swap], mint: str, received_raw: int) -> None:
    """Let swaps give their owner no more of a mint than that received, the last ones first."""
    kept_raw = _net(swaps).get(mint, 0) - received_raw
    for swap in reversed(swaps):
        if kept_raw > 0:
            kept_raw -= _take(swap, mint, kept_raw)


def _take(swap: Swap, mint: str, most_raw: int) -> int:
    """Take off a swap's output of a mint what its wallet did not receive; return how much."""
    if swap.side is Side.BUY and swap.mint == mint:
        taken_raw = min(most_raw, swap.wallet_amount_raw)
        swap.wallet_amount_raw -= taken_raw
    elif swap.side is Side.SELL and swap.quote_mint == mint:
        taken_raw = min(most_raw, swap.wallet_quote_amount_raw)
        swap.wallet_quote_amount_raw -= taken_raw
    else:
        return 0
    return taken_raw


def _net(swaps: Iterable[Swap]) -> dict[str, int]:
    """Sum what a wallet's swaps gave it by mint, less what they took."""
    net: defaultdict[str, int] = defaultdict(int)
    for swap in swaps:
        sign = 1 if swap.side is Side.BUY else -1
        net[swap.mint] += sign * swap.wallet_amount_raw
        net[swap.quote_mint] -= sign * swap.wallet_quote_amount_raw
    return net
