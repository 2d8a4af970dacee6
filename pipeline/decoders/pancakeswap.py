"""PancakeSwap on Solana: a fork of Raydium CLMM with the same swaps and SwapEvent."""

from __future__ import annotations

from typing import Final

from pipeline.decoders import raydium_clmm
from pipeline.decoding.contract import Venue, named

DEX: Final = "pancakeswap"
PROGRAM: Final = "HpNfyc2Saw7RKkQd8nEL4khUcuPhQ7WwY1B2qjx8jxFq"

VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        vaults_are_reserves=True,
        handlers=raydium_clmm.SWAPS,
        ignored=raydium_clmm.IGNORED
        | named("create_permissionless_farm_switch", "toggle_permissionless_farm_switch"),
    ),
)
