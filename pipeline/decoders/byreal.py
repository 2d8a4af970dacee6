"""Byreal's pools: a fork of Raydium CLMM with the same swaps and SwapEvent.

Pools with a dynamic fee take `swap_v3_dyn`: the accounts of `swap_v2`, price feeds after them.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoders import raydium_clmm
from pipeline.decoding.contract import Venue, named

DEX: Final = "byreal"
PROGRAM: Final = "REALQqNEomY6cQGZJUGwywTBD2UmDT32rZcNnfxQ5N2"

VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        vaults_are_reserves=True,
        handlers={
            **raydium_clmm.SWAPS,
            bytes.fromhex("e52ed584692828e4"): raydium_clmm.swap,  # swap_v3_dyn
        },
        ignored=raydium_clmm.IGNORED | named("create_pool_decay_fee"),
    ),
)
