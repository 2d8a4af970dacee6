"""GooseFX GAMMA: a fork of Raydium CPMM that may price by an oracle; two token transfers.

The swap keeps CPMM's accounts. Its event has a layout of its own and is not read. Source: gamma
programs' source.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoders.raydium_cpmm import INPUT_VAULT, OUTPUT_VAULT, PAYER, POOL_STATE
from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults
from schemas.solana.addresses import key

DEX: Final = "goosefx-gamma"
PROGRAM: Final = "GAMMA7meSFWaBXF25oSUgmGRwaW6sCMFLmBNiMSdbHVT"


def _swap(ix: Instruction) -> Leg:
    leg = swap_by_vaults(ix, pool=POOL_STATE, vaults=(INPUT_VAULT, OUTPUT_VAULT), user=PAYER)
    leg.second_mint = max(leg.input_mint, leg.output_mint, key=key)  # token 1: the greater key
    return leg


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers=dict.fromkeys(
            named("oracle_based_swap_base_input", "swap_base_input", "swap_base_output"), _swap
        ),
        ignored=named(
            "claim_rewards",
            "collect_fund_fee",
            "collect_protocol_fee",
            "create_amm_config",
            "create_rewards",
            "create_swap_referral",
            "deposit",
            "init_user_pool_liquidity",
            "initialize",
            "initialize_partner",
            "initialize_pool_partners",
            "rebalance_kamino",
            "update_amm_config",
            "update_partner",
            "update_partner_fees",
            "update_pool",
            "withdraw",
        ),
    ),
)
