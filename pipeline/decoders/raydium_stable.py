"""Raydium's stable pools: AMM v4's older sibling; no event, a swap is its two token transfers.

The coin vault comes before the pc vault. Source: account order as carbon's raydium-stable-swap
decoder lists it, checked on chain. No log names the fee.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import (
    Instruction,
    Leg,
    Venue,
    mint_listed_second,
    swap_by_authority,
)

DEX: Final = "raydium-stable"
PROGRAM: Final = "5quBtoiQqxF9Jv6KYKctB59NT3gtJD2Y65kdnB1Uev3h"

AMM, AMM_AUTHORITY = 1, 2


def _swap(ix: Instruction) -> Leg:
    leg = swap_by_authority(ix, pool=AMM, authority=AMM_AUTHORITY)
    leg.second_mint = mint_listed_second(ix, leg)
    return leg


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        tag_size=1,
        handlers={
            bytes([9]): _swap,  # swapBaseIn
            bytes([11]): _swap,  # swapBaseOut
        },
        ignored=frozenset(bytes([tag]) for tag in (0, 3, 4, 10)),  # initialise, deposit, withdraw
    ),
)
