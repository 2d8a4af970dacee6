"""How far a token's bonding curve is: what it has sold, or gathered, of what it migrates with.

Per venue:
- pump-fun: sells 793,100,000 tokens of 6 decimals; swaps state how many of them are left, its
  real token reserves. (Program source and mainnet transactions: the vault holds 206,900,000
  tokens more, for the pool.)
- raydium-launchlab: every swap states what the curve sells in all and what is left of that.
- meteora-dbc: every EvtSwap2 states the quote gathered and how much of it makes the curve
  complete (program source: `quote_reserve >= migration_quote_threshold`). Builds before 0.1.6
  emit EvtSwap alone, which states neither.

Not known of:
- moonit: the market capitalisation at which a curve ends, and its kind, are in its account.
- boop, virtuals: so is the target (`graduation_target`, `graduation_x`).
- orca-wavebreak: so is the target, where the launch takes it from the mint's config; what wraps
  its events is published nowhere, so neither a launch's own target nor the quote gathered is read.
- sugar: its events have no published layout, and its target is in an account.
Of heaven and vertigo there is nothing to know: their pools are where a token stays.
"""

from __future__ import annotations

from typing import Final

from schemas.events import Swap

PUMP_FUN: Final = "pump-fun"
PUMP_FUN_FOR_SALE_RAW: Final = 793_100_000_000_000


def state(swap: Swap) -> tuple[int, int] | None:
    """Return what the curve has yet to sell or gather, and the whole of that; None: not known."""
    whole = PUMP_FUN_FOR_SALE_RAW if swap.dex == PUMP_FUN else swap.for_sale_raw
    if whole and swap.reserve_raw is not None:
        return swap.reserve_raw, whole
    if swap.migration_quote_raw and swap.quote_reserve_raw is not None:
        whole = swap.migration_quote_raw
        return max(whole - swap.quote_reserve_raw, 0), whole
    return None
