"""Lifinity v2: prices from an oracle; no event, a swap is its two token transfers.

Source: account order of lifinity-amm-v2 as carbon lists it, checked on chain. The fee stays
in the vaults, its share for the protocol is minted as pool tokens: nothing tells its amount.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults

DEX: Final = "lifinity-v2"
PROGRAM: Final = "2wT8Yq49kHgDzXuPxZSaeLaH1qbmGXtEyPy64bL7aD3c"


def _swap(ix: Instruction) -> Leg:
    """Read a swap: 1 pool, 2 user, 3/4 user accounts, 5/6 vaults of input and output."""
    leg = swap_by_vaults(ix, pool=1, vaults=(5, 6), user=2)
    leg.second_mint = ""  # the instruction names no sides
    return leg


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={bytes.fromhex("f8c69e91e17587c8"): _swap},
        ignored=named("deposit_all_token_types", "withdraw_all_token_types"),
    ),
)
