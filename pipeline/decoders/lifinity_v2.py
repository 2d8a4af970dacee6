"""Lifinity v2: prices from an oracle; no event, a swap is its two token transfers.

Source: account order of lifinity-amm-v2 as carbon lists it, checked on chain. The fee stays
in the vaults, its share for the protocol is minted as pool tokens: nothing states its amount.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults

DEX: Final = "lifinity-v2"
PROGRAM: Final = "2wT8Yq49kHgDzXuPxZSaeLaH1qbmGXtEyPy64bL7aD3c"

AMM, USER_TRANSFER_AUTHORITY, SWAP_SOURCE, SWAP_DESTINATION = 1, 2, 5, 6


def _swap(ix: Instruction) -> Leg:
    vaults = SWAP_SOURCE, SWAP_DESTINATION
    leg = swap_by_vaults(ix, pool=AMM, vaults=vaults, user=USER_TRANSFER_AUTHORITY)
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
