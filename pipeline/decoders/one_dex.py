"""1DEX: constant product; a swap is its token transfers, fees paid out of the input's vault."""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults

DEX: Final = "1dex"
PROGRAM: Final = "DEXYosS6oEGvk8uCDayvwEZz4qEyDJRf9nFgYCaqPMTm"

POOL, INPUT_VAULT, OUTPUT_VAULT, USER = 1, 3, 4, 5  # as seen on chain


def _swap(ix: Instruction) -> Leg:
    leg = swap_by_vaults(ix, pool=POOL, vaults=(INPUT_VAULT, OUTPUT_VAULT), user=USER)
    leg.second_mint = ""  # input and output, not sides
    return leg


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers=dict.fromkeys(named("swap_exact_amount_in", "swap_exact_amount_out"), _swap),
    ),
)
