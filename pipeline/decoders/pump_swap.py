"""PumpSwap, pump.fun's AMM: constant product, fees in the quote token.

Amounts are those of the token transfers: a buyer pays protocol, creator or cashback and
buyback fees beside the vault, a seller's are paid out of it. BuyEvent and SellEvent (self-CPI,
and again in the log) add the fees and the reserves before the swap; their amount fields mean
different things in `buy` and `buy_exact_quote_in`, so no amount is taken from them. Sources:
pump-public-docs (idl/pump_amm.json) and mainnet transactions.

A pool can be reversed, with SOL as its base. `create_pool` is no creation of a token: one
that leaves pump.fun's curve comes with pump.fun's own migration.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults
from schemas.solana.borsh import Reader

DEX: Final = "pump-swap"
PROGRAM: Final = "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA"

BUY: Final = bytes.fromhex("66063d1201daebea")
BUY_EXACT_QUOTE_IN: Final = bytes.fromhex("c62e1552b4d9e870")
SELL: Final = bytes.fromhex("33e685a4017f83ad")
BUY_EVENT: Final = bytes.fromhex("67f4521f2cf57777")
SELL_EVENT: Final = bytes.fromhex("3e2f370aa503dc2a")

POOL, USER, POOL_BASE_TOKEN_ACCOUNT, POOL_QUOTE_TOKEN_ACCOUNT = 0, 1, 7, 8


def _swap(ix: Instruction) -> Leg:
    moved = ix.transfers()
    vaults = POOL_BASE_TOKEN_ACCOUNT, POOL_QUOTE_TOKEN_ACCOUNT
    leg = swap_by_vaults(ix, pool=POOL, vaults=vaults, user=USER, transfers=moved)
    # Whatever else the user's account sent in this instruction were fees.
    leg.paid_raw = sum(move.amount_raw for move in moved if move.source == leg.source)
    is_buy = leg.vault_in == ix.account(POOL_QUOTE_TOKEN_ACCOUNT)
    body = ix.event(BUY_EVENT if is_buy else SELL_EVENT)
    if body is None:
        return leg
    event = Reader(body, 8)
    event.skip(5 * 8)  # timestamp, base amount, limit, user's reserves
    base_before, quote_before = event.u64(), event.u64()
    event.skip(8 + 8)  # quote amount, lp_fee_basis_points
    fee = event.u64()
    event.skip(8)  # protocol_fee_basis_points
    fee += event.u64()
    event.skip(8 + 8 + 6 * 32)  # amounts with and without fees, six addresses
    if event.has(48):
        event.skip(32 + 8)  # coin_creator, coin_creator_fee_basis_points
        fee += event.u64()
        fee += _cashback(event, is_buy=is_buy)
    leg.fee_raw, leg.fee_mint = fee, leg.second_mint
    if is_buy:
        leg.reserve_in_raw = quote_before + leg.input_raw
        leg.reserve_out_raw = base_before - leg.output_raw
    else:
        leg.reserve_in_raw = base_before + leg.input_raw
        leg.reserve_out_raw = quote_before - leg.output_raw
    return leg


def _cashback(event: Reader, *, is_buy: bool) -> int:
    """Read on to the cashback; the buyback fee after it is a share of the protocol's fee."""
    if is_buy:
        if not event.has(33 + 8 + 4):
            return 0
        event.skip(1 + 8 + 8 + 8 + 8)  # track_volume, volume totals, last_update_timestamp
        event.skip(8)  # min_base_amount_out
        event.string()  # ix_name
    if not event.has(16):
        return 0
    event.skip(8)  # cashback_fee_basis_points
    return event.u64()


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={BUY: _swap, BUY_EXACT_QUOTE_IN: _swap, SELL: _swap},
        ignored=named(
            "admin_set_coin_creator",
            "admin_update_token_incentives",
            "claim_cashback",
            "claim_token_incentives",
            "close_user_volume_accumulator",
            "collect_coin_creator_fee",
            "create_config",
            "create_pool",
            "deposit",
            "disable",
            "extend_account",
            "init_user_volume_accumulator",
            "migrate_pool_coin_creator",
            "set_coin_creator",
            "set_reserved_fee_recipients",
            "sync_user_volume_accumulator",
            "toggle_cashback_enabled",
            "toggle_mayhem_mode",
            "transfer_creator_fees_to_pump",
            "transfer_creator_fees_to_pump_v2",
            "update_admin",
            "update_buyback_config",
            "update_fee_config",
            "withdraw",
        ),
    ),
)
