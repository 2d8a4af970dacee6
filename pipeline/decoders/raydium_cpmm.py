"""Raydium CPMM: constant product, Token-2022 aware; SwapEvent in the log.

The event grew from 89 bytes (no mints) to 153, 161 (trade fee) and 170 (creator fee); it is
read to where it ends. Its vault amounts are net of fees that wait in the vaults, so reserves
are not the vaults' balances; the protocol's share of this swap's fee is still in them.
Source: raydium-cp-swap states/events.rs. Not decoded: pool creation, liquidity; a creator fee
taken from the output is not part of the fee, which is stated in the input token.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults, withhold
from schemas.solana.addresses import key
from schemas.solana.borsh import Reader

DEX: Final = "raydium-cpmm"
PROGRAM: Final = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
DEVNET_PROGRAM: Final = "DRaycpLY18LhpbydsBWbVJtxpNv9oXPgjRSfpF2bWpYb"

SWAP_EVENT: Final = bytes.fromhex("40c6cde8260871e2")

PAYER, POOL_STATE, INPUT_VAULT, OUTPUT_VAULT = 0, 3, 6, 7


def _swap(ix: Instruction) -> Leg:
    leg = swap_by_vaults(ix, pool=POOL_STATE, vaults=(INPUT_VAULT, OUTPUT_VAULT), user=PAYER)
    leg.second_mint = max(leg.input_mint, leg.output_mint, key=key)  # token 1: the greater key
    body = ix.event(SWAP_EVENT)
    if body is None:
        return leg
    event = Reader(body, 8)
    event.skip(32)  # pool
    before_in, before_out = event.u64(), event.u64()
    event.skip(8 + 8)  # amounts
    withhold(ix, leg, event.u64(), event.u64())
    event.skip(1)  # base_input
    leg.reserve_in_raw = before_in + leg.input_raw
    leg.reserve_out_raw = before_out - leg.output_raw
    if event.has(64 + 8):
        event.skip(64)  # mints
        leg.fee_raw, leg.fee_mint = event.u64(), leg.input_mint
    if leg.fee_raw is not None and event.has(8 + 1):
        creator_fee_raw = event.u64()  # leaves the reserves at once, though not the vault
        if event.flag():
            leg.fee_raw += creator_fee_raw
            leg.reserve_in_raw -= creator_fee_raw
        else:
            leg.reserve_out_raw -= creator_fee_raw
    return leg


_SWAPS: Final = {
    bytes.fromhex("8fbe5adac41e33de"): _swap,  # swap_base_input
    bytes.fromhex("37d96256a34ab4ad"): _swap,  # swap_base_output
}
_IGNORED: Final = named(
    "close_permission_pda",
    "collect_creator_fee",
    "collect_fund_fee",
    "collect_protocol_fee",
    "create_amm_config",
    "create_permission_pda",
    "deposit",
    "initialize",
    "initialize_with_permission",
    "update_amm_config",
    "update_pool_status",
    "withdraw",
)

VENUES: Final = (
    Venue(dex=DEX, programs=(PROGRAM, DEVNET_PROGRAM), handlers=_SWAPS, ignored=_IGNORED),
)
