"""Orca Whirlpool: concentrated liquidity, Token-2022 aware; Traded in the log since 2025-05.

Older swaps have no event: the transfers have the amounts, nothing has fee and price.
Source: orca-so/whirlpools programs/whirlpool. Not decoded: pool creation, liquidity, rewards.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import (
    Instruction,
    Leg,
    Malformed,
    Venue,
    named,
    swap_by_vaults,
    withhold,
)
from schemas.solana.borsh import Reader

DEX: Final = "orca-whirlpool"
PROGRAM: Final = "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc"

SWAP: Final = bytes.fromhex("f8c69e91e17587c8")
TRADED: Final = bytes.fromhex("e1ca49af932ba096")

# Accounts of swap.
TOKEN_AUTHORITY, WHIRLPOOL, TOKEN_VAULT_A, TOKEN_VAULT_B = 1, 2, 4, 6
# Accounts of swap_v2.
V2_TOKEN_AUTHORITY, V2_WHIRLPOOL, V2_TOKEN_VAULT_A, V2_TOKEN_VAULT_B = 3, 4, 8, 10
# Accounts of two_hop_swap.
HOPS_TOKEN_AUTHORITY, HOPS_WHIRLPOOL_ONE, HOPS_WHIRLPOOL_TWO = 1, 2, 3
HOPS_VAULTS_ONE, HOPS_VAULTS_TWO = (5, 7), (9, 11)  # of A and B
# Accounts of two_hop_swap_v2.
HOPS_V2_WHIRLPOOL_ONE, HOPS_V2_WHIRLPOOL_TWO, HOPS_V2_TOKEN_AUTHORITY = 0, 1, 14
HOPS_V2_VAULTS_ONE, HOPS_V2_VAULTS_TWO = (9, 10), (11, 12)  # input, intermediate; then output

_A_TO_B_ONE: Final = 25  # in the data of both two-hop swaps: tag, two u64, amount_is_input
_A_TO_B_TWO: Final = 26


def swap(ix: Instruction) -> Leg:
    """Read a swap."""
    vaults = TOKEN_VAULT_A, TOKEN_VAULT_B
    leg = swap_by_vaults(ix, pool=WHIRLPOOL, vaults=vaults, user=TOKEN_AUTHORITY)
    _add_event(ix, leg, ix.log_events())
    return leg


def _swap_v2(ix: Instruction) -> Leg:
    vaults = V2_TOKEN_VAULT_A, V2_TOKEN_VAULT_B
    leg = swap_by_vaults(ix, pool=V2_WHIRLPOOL, vaults=vaults, user=V2_TOKEN_AUTHORITY)
    _add_event(ix, leg, ix.log_events())
    return leg


def _two_hop_swap(ix: Instruction) -> list[Leg]:
    """Read two swaps, both by way of the trader's account between them."""
    transfers = ix.transfers()
    if len(transfers) < 4:
        raise Malformed(f"{len(transfers)} transfers in two hops")
    user, (first, second) = HOPS_TOKEN_AUTHORITY, (transfers[:2], transfers[2:4])
    one = swap_by_vaults(ix, HOPS_WHIRLPOOL_ONE, HOPS_VAULTS_ONE, user=user, transfers=first)
    two = swap_by_vaults(ix, HOPS_WHIRLPOOL_TWO, HOPS_VAULTS_TWO, user=user, transfers=second)
    two.position = transfers[2].position
    events = ix.log_events()
    _add_event(ix, one, events)
    _add_event(ix, two, events)
    return [one, two]


def _two_hop_swap_v2(ix: Instruction) -> list[Leg]:
    """Read two swaps, the first pool paying straight into the second."""
    transfers = ix.transfers()
    if len(transfers) < 3:
        raise Malformed(f"{len(transfers)} transfers in two hops")
    user, (first, second) = HOPS_V2_TOKEN_AUTHORITY, (transfers[:2], transfers[1:3])
    one = swap_by_vaults(ix, HOPS_V2_WHIRLPOOL_ONE, HOPS_V2_VAULTS_ONE, user=user, transfers=first)
    two = swap_by_vaults(ix, HOPS_V2_WHIRLPOOL_TWO, HOPS_V2_VAULTS_TWO, user=user, transfers=second)
    one.destination = two.source = None  # the accounts between are vaults
    one.received_raw, two.paid_raw = None, None
    one.second_mint = one.output_mint if ix.data[_A_TO_B_ONE] else one.input_mint
    two.second_mint = two.output_mint if ix.data[_A_TO_B_TWO] else two.input_mint
    two.position = transfers[1].position
    events = ix.log_events()
    _add_event(ix, one, events)
    _add_event(ix, two, events)
    return [one, two]


def _add_event(ix: Instruction, leg: Leg, events: list[bytes]) -> None:
    """Add what the event of the leg's pool has."""
    for body in events:
        if body[:8] == TRADED:
            event = Reader(body, 8)
            if event.pubkey() == leg.pool:
                event.skip(1 + 16)  # a_to_b, price before
                leg.sqrt_price_x64 = event.u128()
                event.skip(8 + 8)  # amounts
                withhold(ix, leg, event.u64(), event.u64())
                leg.fee_raw = event.u64() + event.u64()  # LP's, protocol's
                leg.fee_mint = leg.input_mint
                return


IGNORED: Final = named(
    "close_bundled_position",
    "close_position",
    "close_position_with_token_extensions",
    "collect_fees",
    "collect_fees_v2",
    "collect_protocol_fees",
    "collect_protocol_fees_v2",
    "collect_reward",
    "collect_reward_v2",
    "decrease_liquidity",
    "decrease_liquidity_v2",
    "delete_position_bundle",
    "delete_token_badge",
    "increase_liquidity",
    "increase_liquidity_by_token_amounts_v2",
    "increase_liquidity_v2",
    "initialize_adaptive_fee_tier",
    "initialize_config",
    "initialize_config_extension",
    "initialize_dynamic_tick_array",
    "initialize_fee_tier",
    "initialize_pool",
    "initialize_pool_v2",
    "initialize_pool_with_adaptive_fee",
    "initialize_position_bundle",
    "initialize_position_bundle_with_metadata",
    "initialize_reward",
    "initialize_reward_v2",
    "initialize_tick_array",
    "initialize_token_badge",
    "lock_position",
    "migrate_repurpose_reward_authority_space",
    "open_bundled_position",
    "open_position",
    "open_position_with_metadata",
    "open_position_with_token_extensions",
    "reposition_liquidity_v2",
    "reset_position_range",
    "set_adaptive_fee_constants",
    "set_collect_protocol_fees_authority",
    "set_config_extension_authority",
    "set_config_feature_flag",
    "set_default_base_fee_rate",
    "set_default_fee_rate",
    "set_default_protocol_fee_rate",
    "set_delegated_fee_authority",
    "set_fee_authority",
    "set_fee_rate",
    "set_fee_rate_by_delegated_fee_authority",
    "set_initialize_pool_authority",
    "set_preset_adaptive_fee_constants",
    "set_protocol_fee_rate",
    "set_reward_authority",
    "set_reward_authority_by_super_authority",
    "set_reward_emissions",
    "set_reward_emissions_super_authority",
    "set_reward_emissions_v2",
    "set_token_badge_attribute",
    "set_token_badge_authority",
    "transfer_locked_position",
    "update_fees_and_rewards",
)

VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        vaults_are_reserves=True,
        handlers={
            SWAP: swap,
            bytes.fromhex("2b04ed0b1ac91e62"): _swap_v2,
            bytes.fromhex("c360ed6c44a2dbe6"): _two_hop_swap,
            bytes.fromhex("ba8fd11dfe02c275"): _two_hop_swap_v2,
        },
        ignored=IGNORED,
    ),
)
