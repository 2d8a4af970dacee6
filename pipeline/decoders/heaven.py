"""Heaven: a launch platform whose tokens trade in its own AMM from birth.

Amounts are those of the token transfers (tokens may be Token-2022 with a transfer fee). The
logged TradeEvent adds the token reserve after the trade and the fee of it; its quote reserve
is a virtual one and its last fields are unnamed, so neither is used. A pool can be created
with a first purchase. Sources: carbon's heaven decoder (layouts), mainnet transactions.

Not decoded: what the fee divides into; fee claims, staking and lending of the protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipeline.decoding.contract import Created, Fact, Instruction, Leg, Venue, named, swap_by_vaults
from pipeline.solana.metadata import token_metadata
from schemas.solana.borsh import Reader

DEX: Final = "heaven"
PROGRAM: Final = "HEAVENoP2qxoeuF8Dj2oT1GHEnu49U5mJYkdeC8BAX2o"

BUY: Final = bytes.fromhex("66063d1201daebea")
SELL: Final = bytes.fromhex("33e685a4017f83ad")
CREATE_POOL: Final = bytes.fromhex("2a2b7e38e70ad035")

TRADE_EVENT: Final = bytes.fromhex("bddb7fd34ee661ee")
POOL_EVENT: Final = bytes.fromhex("bd3883904b3ff994")

# Accounts of buy and sell.
POOL, USER, TOKEN_A_VAULT, TOKEN_B_VAULT = 4, 5, 10, 11
# Accounts of create_pool.
CREATE_USER, CREATE_MINT_A, CREATE_MINT_B, CREATE_VAULT_A, CREATE_VAULT_B = 3, 5, 6, 8, 9
CREATE_POOL_STATE, CREATE_TOKEN_PROGRAM = 10, 12


def _trade(ix: Instruction) -> Leg:
    leg = swap_by_vaults(ix, pool=POOL, vaults=(TOKEN_A_VAULT, TOKEN_B_VAULT), user=USER)
    return _swapped(ix, leg)


def _swapped(ix: Instruction, leg: Leg) -> Leg:
    body = ix.event(TRADE_EVENT)
    if body is not None:
        event = Reader(body, 8)
        token_reserve = event.u64()
        event.skip(8 + 8)  # virtual quote reserve, the creator's fees so far
        leg.fee_raw, leg.fee_mint = event.u64(), leg.second_mint
        if leg.input_mint == leg.second_mint:
            leg.reserve_out_raw = token_reserve
        else:
            leg.reserve_in_raw = token_reserve
    return leg


def _create(ix: Instruction) -> Iterator[Fact]:
    mint = ix.account(CREATE_MINT_A)
    name, symbol, uri = token_metadata(ix.tx, mint) or ("", "", "")
    created = Created(
        mint=ix.address(CREATE_MINT_A),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(CREATE_USER),
        pool=ix.address(CREATE_POOL_STATE),
        quote_mint=ix.address(CREATE_MINT_B),
        supply_raw=ix.tx.minted_raw(ix.position, mint) or None,
        token_program=ix.address(CREATE_TOKEN_PROGRAM),
    )
    body = ix.event(POOL_EVENT)
    if body is not None:
        event = Reader(body, 8)
        event.skip(32 + 32)  # pool, payer
        created.creator = event.pubkey()
    yield created
    vault = ix.account(CREATE_VAULT_A)
    moved = ix.transfers()
    bought = next((move for move in moved if move.source == vault), None)
    if bought is not None:
        leg = swap_by_vaults(
            ix,
            pool=CREATE_POOL_STATE,
            vaults=(CREATE_VAULT_A, CREATE_VAULT_B),
            user=CREATE_USER,
            transfers=moved,
        )
        leg.position = bought.position
        yield _swapped(ix, leg)


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={BUY: _trade, SELL: _trade, CREATE_POOL: _create},
        ignored=named(
            "admin_borrow_sol",
            "admin_claim_msol",
            "admin_claim_staking_rewards",
            "admin_claim_standard_creator_trading_fees",
            "admin_deposit_msol",
            "admin_mint_msol",
            "admin_repay_sol",
            "admin_unstake_msol",
            "admin_update_standard_liquidity_pool_state",
            "admin_withdraw_msol",
            "admin_withdraw_transfer_fee",
            "claim_standard_creator_trading_fee_protocol_fees",
            "claim_standard_creator_trading_fees",
            "claim_standard_protocol_trading_fees",
            "claim_standard_reflection_trading_fees",
            "close_protocol_lookup_table",
            "create_or_update_protocol_fee_admin",
            "create_or_update_protocol_owner",
            "create_or_update_protocol_staking_admin",
            "create_protocol_config",
            "create_protocol_lookup_table",
            "deactivate_protocol_lookup_table",
            "extend_protocol_lookup_table",
            "initialize_protocol_lending",
            "remaining_accounts_stub",
            "set_protocol_slot_fees",
            "update_allow_create_pool",
            "update_creator_trading_fee_receiver",
            "update_protocol_config",
        ),
    ),
)
