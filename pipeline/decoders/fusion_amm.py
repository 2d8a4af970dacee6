"""DefiTuna's Fusion AMM, descended from Orca Whirlpool: no event read, two token transfers.

Source: fusionamm-sdk IDL, checked on chain. Not decoded: liquidity, limit orders.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, swap_by_vaults

DEX: Final = "fusion-amm"
PROGRAM: Final = "fUSioN9YKKSa3CUC2YUc4tPkHJ5Y6XW1yz8y6F7qWz9"

TOKEN_AUTHORITY, FUSION_POOL, TOKEN_VAULT_A, TOKEN_VAULT_B = 3, 4, 9, 10


def _swap(ix: Instruction) -> Leg:
    vaults = TOKEN_VAULT_A, TOKEN_VAULT_B
    return swap_by_vaults(ix, pool=FUSION_POOL, vaults=vaults, user=TOKEN_AUTHORITY)


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        vaults_are_reserves=True,
        handlers={bytes.fromhex("f8c69e91e17587c8"): _swap},
    ),
)
