"""BonkSwap: constant product; no event read, a swap is its two token transfers.

Source: account order as carbon's bonkswap decoder lists it.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults

DEX: Final = "bonkswap"
PROGRAM: Final = "BSwp6bEBihVLdqJRKGgzjcGLHkcTuzmSo1TQkHepzH8p"

POOL, POOL_X_ACCOUNT, POOL_Y_ACCOUNT, SWAPPER = 1, 4, 5, 8


def _swap(ix: Instruction) -> Leg:
    return swap_by_vaults(ix, pool=POOL, vaults=(POOL_X_ACCOUNT, POOL_Y_ACCOUNT), user=SWAPPER)


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={bytes.fromhex("f8c69e91e17587c8"): _swap},
        ignored=named(
            "add_supply",
            "add_tokens",
            "close_pool",
            "create_dual_farm",
            "create_farm",
            "create_pool",
            "create_provider",
            "create_state",
            "create_triple_farm",
            "reset_farm",
            "update_fees",
            "update_reward_tokens",
            "withdraw_buyback",
            "withdraw_lp_fee",
            "withdraw_mercanti_fee",
            "withdraw_project_fee",
            "withdraw_rewards",
            "withdraw_shares",
        ),
    ),
)
