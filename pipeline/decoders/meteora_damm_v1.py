"""Meteora DAMM v1 (dynamic pools): tokens lie in Meteora's lending vaults; Swap in the log.

A swap deposits into the vault of one side and withdraws from the other's, so its transfers
are made one call deeper, by the vault program; vaults are shared by many pools. The protocol's
share of the fee goes from the trader straight to the protocol, beside the vault. Source:
idls/dynamic_amm.json of dynamic-bonding-curve. Not decoded: pool creation, liquidity, locks.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults
from schemas.solana.borsh import Reader

DEX: Final = "meteora-damm-v1"
PROGRAM: Final = "Eo7WjKq67rjJQSZxS6z3YkapzY3eMj6Xy8X5EQVn5UaB"

SWAP_EVENT: Final = bytes.fromhex("516ce3becdd00ac4")

POOL, A_TOKEN_VAULT, B_TOKEN_VAULT, PROTOCOL_TOKEN_FEE, USER = 0, 5, 6, 11, 12
REMAINING: Final = 15  # a host's fee account, accounts of a staked token's pool


def _swap(ix: Instruction) -> Leg:
    leg = swap_by_vaults(
        ix,
        pool=POOL,
        vaults=(A_TOKEN_VAULT, B_TOKEN_VAULT),
        user=USER,
        transfers=ix.transfers(nested=True),
        fee_accounts=(PROTOCOL_TOKEN_FEE, *range(REMAINING, len(ix.accounts))),
    )
    body = ix.event(SWAP_EVENT)
    if body is not None:
        event = Reader(body, 8)
        event.skip(8 + 8)  # amounts
        leg.fee_raw = event.u64() + event.u64() + event.u64()  # LP's, protocol's, host's
        leg.fee_mint = leg.input_mint
    return leg


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={bytes.fromhex("f8c69e91e17587c8"): _swap},
        ignored=named(
            "add_balance_liquidity",
            "add_imbalance_liquidity",
            "bootstrap_liquidity",
            "claim_fee",
            "close_config",
            "create_config",
            "create_lock_escrow",
            "create_mint_metadata",
            "enable_or_disable_pool",
            "get_pool_info",
            "initialize_customizable_permissionless_constant_product_pool",
            "initialize_permissioned_pool",
            "initialize_permissionless_constant_product_pool_with_config",
            "initialize_permissionless_constant_product_pool_with_config2",
            "initialize_permissionless_pool",
            "initialize_permissionless_pool_with_fee_tier",
            "lock",
            "move_locked_lp",
            "override_curve_param",
            "partner_claim_fee",
            "remove_balance_liquidity",
            "remove_liquidity_single_side",
            "set_pool_fees",
            "set_whitelisted_vault",
            "update_activation_point",
            "withdraw_protocol_fees",
        ),
    ),
)
