"""Raydium LaunchLab: bonding curves of many launch platforms, each with a platform config.

TradeEvent and PoolCreateEvent come as a self-CPI, in older builds in the log. Amounts are
those of the token transfers: the protocol's fee stays in the quote vault, platform, creator
and share fees leave it beside the trader's part. Source: raydium-docs,
launchpad_creator_fee_upgrade/raydium_launchpad.json, and mainnet transactions.

A curve is of one of three kinds (constant product, fixed price, linear) and its trades do not
say which. The virtual reserves make the price of a constant product alone: they are stated where
their product stayed the same, up to the rounding of one unit of either side.

Not decoded: fee claims and vesting (they are no trades).
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import (
    Created,
    Instruction,
    Leg,
    Migrated,
    Venue,
    migration_by_vaults,
    named,
    swap_by_vaults,
)
from schemas.solana.borsh import Reader

DEX: Final = "raydium-launchlab"
PROGRAM: Final = "LanMV9sAd7wArD4vJFi2qDdfnVhFxYSUg6eADduJ3uj"

BUY_EXACT_IN: Final = bytes.fromhex("faea0d7bd59c13ec")
BUY_EXACT_OUT: Final = bytes.fromhex("18d3742869039938")
SELL_EXACT_IN: Final = bytes.fromhex("9527de9bd37c981a")
SELL_EXACT_OUT: Final = bytes.fromhex("5fc8472208090ba6")
INITIALIZE: Final = bytes.fromhex("afaf6d1f0d989bed")
INITIALIZE_V2: Final = bytes.fromhex("4399af27da102620")
INITIALIZE_WITH_TOKEN_2022: Final = bytes.fromhex("25be7ede2c9aab11")
MIGRATE_TO_AMM: Final = bytes.fromhex("cf52c091fecf91df")
MIGRATE_TO_CPSWAP: Final = bytes.fromhex("885cc8671cda908c")

TRADE_EVENT: Final = bytes.fromhex("bddb7fd34ee661ee")

# Accounts of the trades.
PAYER, PLATFORM_CONFIG, POOL_STATE, BASE_VAULT, QUOTE_VAULT = 0, 3, 4, 7, 8
# Accounts of initialize, initialize_v2 and initialize_with_token_2022.
CREATE_CREATOR, CREATE_PLATFORM_CONFIG, CREATE_POOL_STATE = 1, 3, 5
CREATE_BASE_MINT, CREATE_QUOTE_MINT = 6, 7
CREATE_BASE_TOKEN_PROGRAM, CREATE_BASE_TOKEN_2022_PROGRAM = 11, 10
# Accounts of migrate_to_amm: none names the platform.
AMM_BASE_MINT, AMM_QUOTE_MINT, AMM_POOL, AMM_BASE_VAULT, AMM_QUOTE_VAULT = 1, 2, 13, 17, 18
AMM_POOL_STATE: Final = 23
# Accounts of migrate_to_cpswap.
CPSWAP_BASE_MINT, CPSWAP_QUOTE_MINT, CPSWAP_PLATFORM_CONFIG, CPSWAP_POOL = 1, 2, 3, 5
CPSWAP_BASE_VAULT, CPSWAP_QUOTE_VAULT, CPSWAP_POOL_STATE = 8, 9, 18


def _trade(ix: Instruction) -> Leg:
    moved = ix.transfers()
    vaults = BASE_VAULT, QUOTE_VAULT
    leg = swap_by_vaults(ix, pool=POOL_STATE, vaults=vaults, user=PAYER, transfers=moved)
    leg.paid_raw = sum(move.amount_raw for move in moved if move.source == leg.source)
    leg.config = ix.address(PLATFORM_CONFIG)
    body = ix.event(TRADE_EVENT)
    if body is None:
        return leg
    event = Reader(body, 8)
    event.skip(32)  # pool
    base_for_sale = event.u64()
    virtual_base, virtual_quote = event.u64(), event.u64()
    sold_before, raised_before = event.u64(), event.u64()
    base_sold, quote_raised = event.u64(), event.u64()
    event.skip(8 + 8)  # amount_in, amount_out
    leg.fee_raw = event.u64() + event.u64()  # protocol, platform
    if event.has(16):
        leg.fee_raw += event.u64()  # creator, in newer builds
    leg.fee_raw += event.u64()  # share
    leg.fee_mint = leg.second_mint
    base_left = base_for_sale - base_sold
    leg.for_sale_raw = base_for_sale
    buys = leg.input_mint == leg.second_mint
    if buys:
        leg.reserve_in_raw, leg.reserve_out_raw = quote_raised, base_left
    else:
        leg.reserve_in_raw, leg.reserve_out_raw = base_left, quote_raised
    base, quote = virtual_base - base_sold, virtual_quote + quote_raised
    before = (virtual_base - sold_before) * (virtual_quote + raised_before)
    if abs(base * quote - before) <= base + quote:
        leg.virtual_in_raw, leg.virtual_out_raw = (quote, base) if buys else (base, quote)
    return leg


def _initialize(ix: Instruction) -> Created:
    return _created(ix, token_program=CREATE_BASE_TOKEN_PROGRAM)


def _initialize_with_token_2022(ix: Instruction) -> Created:
    return _created(ix, token_program=CREATE_BASE_TOKEN_2022_PROGRAM)


def _created(ix: Instruction, *, token_program: int) -> Created:
    params = Reader(ix.data, 8)
    decimals = params.u8()
    name, symbol, uri = params.string(), params.string(), params.string()
    params.skip(1)  # the kind of curve: its supply comes first in all three
    return Created(
        mint=ix.address(CREATE_BASE_MINT),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(CREATE_CREATOR),
        pool=ix.address(CREATE_POOL_STATE),
        quote_mint=ix.address(CREATE_QUOTE_MINT),
        decimals=decimals,
        supply_raw=params.u64(),
        token_program=ix.address(token_program),
        config=ix.address(CREATE_PLATFORM_CONFIG),
    )


def _migrate_to_amm(ix: Instruction) -> Migrated:
    return migration_by_vaults(
        ix,
        "raydium-amm-v4",
        curve=AMM_POOL_STATE,
        pool=AMM_POOL,
        mints=(AMM_BASE_MINT, AMM_QUOTE_MINT),
        vaults=(AMM_BASE_VAULT, AMM_QUOTE_VAULT),
    )


def _migrate_to_cpswap(ix: Instruction) -> Migrated:
    return migration_by_vaults(
        ix,
        "raydium-cpmm",
        curve=CPSWAP_POOL_STATE,
        pool=CPSWAP_POOL,
        mints=(CPSWAP_BASE_MINT, CPSWAP_QUOTE_MINT),
        vaults=(CPSWAP_BASE_VAULT, CPSWAP_QUOTE_VAULT),
        config=CPSWAP_PLATFORM_CONFIG,
    )


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={
            BUY_EXACT_IN: _trade,
            BUY_EXACT_OUT: _trade,
            SELL_EXACT_IN: _trade,
            SELL_EXACT_OUT: _trade,
            INITIALIZE: _initialize,
            INITIALIZE_V2: _initialize,
            INITIALIZE_WITH_TOKEN_2022: _initialize_with_token_2022,
            MIGRATE_TO_AMM: _migrate_to_amm,
            MIGRATE_TO_CPSWAP: _migrate_to_cpswap,
        },
        ignored=named(
            "claim_creator_fee",
            "claim_platform_fee",
            "claim_platform_fee_from_vault",
            "claim_vested_token",
            "collect_fee",
            "collect_migrate_fee",
            "create_config",
            "create_platform_config",
            "create_vesting_account",
            "remove_platform_curve_param",
            "update_config",
            "update_platform_config",
            "update_platform_curve_param",
        ),
    ),
)
