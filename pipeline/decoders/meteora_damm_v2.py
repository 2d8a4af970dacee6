"""Meteora DAMM v2 (cp-amm): constant product in a price range; EvtSwap, EvtSwap2 by self-CPI.

Builds before 0.1.5 emit EvtSwap, which does not say on which side the fee was taken: from A
to B it is always B, the other way it depends on the pool and is left open. Source: damm-v2
idl/cp_amm.json. Not decoded: pool creation, positions, rewards.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults, withhold
from schemas.solana.borsh import Reader

DEX: Final = "meteora-damm-v2"
PROGRAM: Final = "cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG"

SWAP_EVENT: Final = bytes.fromhex("1b3c15d58aaabb93")
SWAP2_EVENT: Final = bytes.fromhex("bd4233a826507599")

POOL, TOKEN_A_VAULT, TOKEN_B_VAULT, PAYER = 1, 4, 5, 8

_A_TO_B: Final = 0


def _swap(ix: Instruction) -> Leg:
    leg = swap_by_vaults(ix, pool=POOL, vaults=(TOKEN_A_VAULT, TOKEN_B_VAULT), user=PAYER)
    for body in ix.cpi_events():
        if body[:8] == SWAP2_EVENT:
            _read_swap2(ix, leg, Reader(body, 8))
            break
        if body[:8] == SWAP_EVENT:
            _read_swap(leg, Reader(body, 8))
    return leg


def _read_swap(leg: Leg, event: Reader) -> None:
    event.skip(32)  # pool
    a_to_b = event.u8() == _A_TO_B
    event.skip(1 + 16 + 8)  # has_referral, parameters, output_amount
    leg.sqrt_price_x64 = event.u128()
    if a_to_b:
        # LP's, protocol's, partner's, referrer's
        leg.fee_raw = event.u64() + event.u64() + event.u64() + event.u64()
        leg.fee_mint = leg.output_mint


def _read_swap2(ix: Instruction, leg: Leg, event: Reader) -> None:
    event.skip(32)  # pool
    a_to_b = event.u8() == _A_TO_B
    event.skip(1 + 1 + 17)  # collect_fee_mode, has_referral, parameters
    with_fee_raw, without_fee_raw = event.u64(), event.u64()
    event.skip(8 + 8)  # amount_left, output_amount
    leg.sqrt_price_x64 = event.u128()
    # claimed by positions, protocol's, compounded, referrer's
    leg.fee_raw = event.u64() + event.u64() + event.u64() + event.u64()
    leg.fee_mint = leg.output_mint if with_fee_raw == without_fee_raw else leg.input_mint
    paid_raw, sent_raw, received_raw = event.u64(), event.u64(), event.u64()
    if paid_raw == leg.paid_raw and sent_raw == leg.output_raw:
        withhold(ix, leg, paid_raw - with_fee_raw, sent_raw - received_raw)
    event.skip(8)  # timestamp
    if event.has(16):
        reserve_a, reserve_b = event.u64(), event.u64()
        leg.reserve_in_raw = reserve_a if a_to_b else reserve_b
        leg.reserve_out_raw = reserve_b if a_to_b else reserve_a


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={
            bytes.fromhex("f8c69e91e17587c8"): _swap,  # swap
            bytes.fromhex("414b3f4ceb5b5b88"): _swap,  # swap2
        },
        ignored=named(
            "add_liquidity",
            "claim_partner_fee",
            "claim_position_fee",
            "claim_protocol_fee",
            "claim_protocol_fee2",
            "claim_reward",
            "close_claim_fee_operator",
            "close_config",
            "close_operator_account",
            "close_position",
            "close_token_badge",
            "create_claim_fee_operator",
            "create_config",
            "create_dynamic_config",
            "create_operator_account",
            "create_position",
            "create_token_badge",
            "dummy_ix",
            "fund_reward",
            "initialize_customizable_pool",
            "initialize_pool",
            "initialize_pool_with_dynamic_config",
            "initialize_reward",
            "lock_inner_position",
            "lock_position",
            "permanent_lock_position",
            "refresh_vesting",
            "remove_all_liquidity",
            "remove_liquidity",
            "set_pool_status",
            "split_position",
            "split_position2",
            "update_pool_fees",
            "update_reward_duration",
            "update_reward_funder",
            "withdraw_ineligible_reward",
            "zap_protocol_fee",
        ),
    ),
)
