"""DefiTuna's Fusion AMM, descended from Orca Whirlpool: no event read, two token transfers.

Accounts 3 user, 4 pool, 7/8 user accounts, 9/10 vaults of A and B. Source: fusionamm-sdk IDL,
checked on chain. Not decoded: liquidity, limit orders.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, swap_by_vaults

DEX: Final = "fusion-amm"
PROGRAM: Final = "fUSioN9YKKSa3CUC2YUc4tPkHJ5Y6XW1yz8y6F7qWz9"


def _swap(ix: Instruction) -> Leg:
    return swap_by_vaults(ix, pool=4, vaults=(9, 10), user=3)


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        vaults_are_reserves=True,
        handlers={bytes.fromhex("f8c69e91e17587c8"): _swap},
    ),
)
