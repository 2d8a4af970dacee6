"""1DEX: constant product; a swap is its token transfers, fees paid out of the input's vault.

Accounts 1 pool, 2 pool authority, 3/4 vaults of input and output, 5 user, 6/7 user accounts,
8/9 fee accounts, as seen on chain.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults

DEX: Final = "1dex"
PROGRAM: Final = "DEXYosS6oEGvk8uCDayvwEZz4qEyDJRf9nFgYCaqPMTm"


def _swap(ix: Instruction) -> Leg:
    leg = swap_by_vaults(ix, pool=1, vaults=(3, 4), user=5)
    leg.second_mint = ""  # input and output, not sides
    return leg


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers=dict.fromkeys(named("swap_exact_amount_in", "swap_exact_amount_out"), _swap),
    ),
)
