"""Byreal's pools: a fork of Raydium CLMM with the same swaps and SwapEvent."""

from __future__ import annotations

from typing import Final

from pipeline.decoders import raydium_clmm
from pipeline.decoding.contract import Venue

DEX: Final = "byreal"
PROGRAM: Final = "REALQqNEomY6cQGZJUGwywTBD2UmDT32rZcNnfxQ5N2"

VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers=raydium_clmm.SWAPS,
        ignored=raydium_clmm.IGNORED,
    ),
)
