"""Meteora DLMM: liquidity in price bins, Token-2022 aware; Swap and Swap2Evt by self-CPI.

Newer builds emit Swap2Evt, some beside Swap: the amounts are the reserves' own, so a swap
counts once. Swap's fee is in the input token and holds the protocol's and the host's share;
Swap2Evt has each share and the side it was taken on. Source: dlmm-sdk
idls/dlmm.json. Not decoded: pool creation, liquidity, rewards, limit orders.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults
from schemas.solana.borsh import Reader

DEX: Final = "meteora-dlmm"
PROGRAM: Final = "LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo"

SWAP_EVENT: Final = bytes.fromhex("516ce3becdd00ac4")
SWAP2_EVENT: Final = bytes.fromhex("2e7452d7941b544d")

LB_PAIR, RESERVE_X, RESERVE_Y, HOST_FEE_IN, USER = 0, 2, 3, 9, 10


def _swap(ix: Instruction) -> Leg:
    leg = swap_by_vaults(
        ix, pool=LB_PAIR, vaults=(RESERVE_X, RESERVE_Y), user=USER, fee_accounts=(HOST_FEE_IN,)
    )
    for body in ix.cpi_events():
        tag = body[:8]
        if tag == SWAP_EVENT:
            event = Reader(body, 8)
            # pool, from, bins, amounts, swap_for_y
            event.skip(32 + 32 + 4 + 4 + 8 + 8 + 1)
            leg.fee_raw, leg.fee_mint = event.u64(), leg.input_mint
            break
        if tag == SWAP2_EVENT:
            event = Reader(body, 8)
            # pool, from, bins, swap_for_y, fee rate, amounts in, left and out
            event.skip(32 + 32 + 4 + 4 + 1 + 16 + 8 + 8 + 8)
            # market making, protocol, limit orders, host
            leg.fee_raw = event.u64() + event.u64() + event.u64() + event.u64()
            leg.fee_mint = leg.input_mint if event.flag() else leg.output_mint
    return leg


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        vaults_are_reserves=True,
        handlers={
            bytes.fromhex("f8c69e91e17587c8"): _swap,  # swap
            bytes.fromhex("414b3f4ceb5b5b88"): _swap,  # swap2
            bytes.fromhex("fa49652126cf4bb8"): _swap,  # swap_exact_out
            bytes.fromhex("2bd7f784893cf351"): _swap,  # swap_exact_out2
            bytes.fromhex("38ade6d0ade49ccd"): _swap,  # swap_with_price_impact
            bytes.fromhex("4a62c0d6b1334b33"): _swap,  # swap_with_price_impact2
        },
        ignored=named(
            "add_liquidity",
            "add_liquidity2",
            "add_liquidity_by_strategy",
            "add_liquidity_by_strategy2",
            "add_liquidity_by_strategy_one_side",
            "add_liquidity_by_weight",
            "add_liquidity_by_weight2",
            "add_liquidity_one_side",
            "add_liquidity_one_side_precise",
            "add_liquidity_one_side_precise2",
            "cancel_limit_order",
            "claim_fee",
            "claim_fee2",
            "claim_reward",
            "claim_reward2",
            "close_claim_fee_operator_account",
            "close_claim_protocol_fee_operator",
            "close_limit_order_if_empty",
            "close_operator_account",
            "close_position",
            "close_position2",
            "close_position_if_empty",
            "close_preset_parameter",
            "close_preset_parameter2",
            "close_token_badge",
            "create_claim_protocol_fee_operator",
            "create_operator_account",
            "decrease_position_length",
            "for_idl_type_generation_do_not_call",
            "fund_reward",
            "go_to_a_bin",
            "increase_oracle_length",
            "increase_position_length",
            "increase_position_length2",
            "initialize_bin_array",
            "initialize_bin_array_bitmap_extension",
            "initialize_customizable_permissionless_lb_pair",
            "initialize_customizable_permissionless_lb_pair2",
            "initialize_lb_pair",
            "initialize_lb_pair2",
            "initialize_permission_lb_pair",
            "initialize_position",
            "initialize_position2",
            "initialize_position_by_operator",
            "initialize_position_pda",
            "initialize_preset_parameter",
            "initialize_preset_parameter2",
            "initialize_reward",
            "initialize_token_badge",
            "migrate_bin_array",
            "migrate_position",
            "place_limit_order",
            "rebalance_liquidity",
            "remove_all_liquidity",
            "remove_liquidity",
            "remove_liquidity2",
            "remove_liquidity_by_range",
            "remove_liquidity_by_range2",
            "set_activation_point",
            "set_pair_status",
            "set_pair_status_permissionless",
            "set_permissionless_operation_bits",
            "set_pre_activation_duration",
            "set_pre_activation_swap_address",
            "toggle_pair_status",
            "update_base_fee_parameters",
            "update_dynamic_fee_parameters",
            "update_fee_parameters",
            "update_fees_and_reward2",
            "update_fees_and_rewards",
            "update_position_operator",
            "update_reward_duration",
            "update_reward_funder",
            "withdraw_ineligible_reward",
            "withdraw_protocol_fee",
        ),
    ),
)
