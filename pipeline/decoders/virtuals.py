"""Virtuals on Solana: agent tokens that trade against VIRTUAL in a pool of the program.

Amounts are those of the token transfers; a fee to the platform is what a trader's VIRTUAL
account sends beside the pool, or the pool beside the trader. Source: carbon's virtuals
decoder (layouts); no mainnet transaction was at hand.

Not decoded: reserves (the pool's vaults hold them, no event has them).
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

DEX: Final = "virtuals"
PROGRAM: Final = "5U3EU2ubXtK84QcRjWVmYt9RaDyA8gKxdUrPFXmZyaki"

BUY: Final = bytes.fromhex("66063d1201daebea")
SELL: Final = bytes.fromhex("33e685a4017f83ad")
LAUNCH: Final = bytes.fromhex("99f15de116454a3d")
CREATE_METEORA_POOL: Final = bytes.fromhex("f6fe2125e1b029e8")

# Accounts of buy and sell.
USER, VPOOL, TOKEN_VAULT, PLATFORM_VIRTUALS_ACCOUNT, VIRTUALS_VAULT = 0, 1, 5, 7, 8
# Accounts of launch.
LAUNCH_CREATOR, LAUNCH_CREATOR_VIRTUALS, LAUNCH_MINT, LAUNCH_VPOOL = 0, 1, 2, 5
LAUNCH_TOKEN_PROGRAM: Final = 8
# Accounts of create_meteora_pool.
METEORA_VPOOL, METEORA_POOL, METEORA_VIRTUALS_MINT, METEORA_TOKEN_MINT = 0, 8, 11, 12
METEORA_VIRTUALS_VAULT, METEORA_TOKEN_VAULT = 15, 16


def _trade(ix: Instruction) -> Leg:
    moved = ix.transfers()
    vaults = TOKEN_VAULT, VIRTUALS_VAULT
    leg = swap_by_vaults(ix, pool=VPOOL, vaults=vaults, user=USER, transfers=moved)
    leg.paid_raw = sum(move.amount_raw for move in moved if move.source == leg.source)
    platform = ix.account(PLATFORM_VIRTUALS_ACCOUNT)
    leg.fee_raw = sum(move.amount_raw for move in moved if move.destination == platform)
    leg.fee_mint = leg.second_mint
    return leg


def _launch(ix: Instruction) -> Created:
    params = Reader(ix.data, 8)
    symbol, name, uri = params.string(), params.string(), params.string()
    return Created(
        mint=ix.address(LAUNCH_MINT),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(LAUNCH_CREATOR),
        pool=ix.address(LAUNCH_VPOOL),
        quote_mint=ix.mint_of(ix.account(LAUNCH_CREATOR_VIRTUALS)),
        supply_raw=ix.tx.minted_raw(ix.position, ix.account(LAUNCH_MINT)) or None,
        token_program=ix.address(LAUNCH_TOKEN_PROGRAM),
    )


def _create_meteora_pool(ix: Instruction) -> Migrated:
    return migration_by_vaults(
        ix,
        "meteora-damm-v1",
        curve=METEORA_VPOOL,
        pool=METEORA_POOL,
        mints=(METEORA_TOKEN_MINT, METEORA_VIRTUALS_MINT),
        vaults=(METEORA_TOKEN_VAULT, METEORA_VIRTUALS_VAULT),
    )


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={
            BUY: _trade,
            SELL: _trade,
            LAUNCH: _launch,
            CREATE_METEORA_POOL: _create_meteora_pool,
        },
        ignored=named(
            "claim_fees", "initialize", "initialize_meteora_accounts", "update_pool_creator"
        ),
    ),
)
