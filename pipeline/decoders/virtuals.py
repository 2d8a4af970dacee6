"""Virtuals on Solana: agent tokens that trade against VIRTUAL in a pool of the program.

Amounts are those of the token transfers; a fee to the platform is what a trader's VIRTUAL
account sends beside the pool, or the pool beside the trader. Source: carbon's virtuals
decoder (layouts); no mainnet transaction was at hand.

Not decoded: reserves (the pool's vaults hold them, no event tells them).
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
from pipeline.solana.layout import Reader

DEX: Final = "virtuals"
PROGRAM: Final = "5U3EU2ubXtK84QcRjWVmYt9RaDyA8gKxdUrPFXmZyaki"

BUY: Final = bytes.fromhex("66063d1201daebea")
SELL: Final = bytes.fromhex("33e685a4017f83ad")
LAUNCH: Final = bytes.fromhex("99f15de116454a3d")
CREATE_METEORA_POOL: Final = bytes.fromhex("f6fe2125e1b029e8")


def _trade(ix: Instruction) -> Leg:
    """0 user, 1 pool, 5 token vault, 7 platform's VIRTUAL account, 8 VIRTUAL vault."""
    moved = ix.transfers()
    leg = swap_by_vaults(ix, pool=1, vaults=(5, 8), user=0, transfers=moved)
    leg.paid_raw = sum(move.amount_raw for move in moved if move.source == leg.source)
    platform = ix.account(7)
    leg.fee_raw = sum(move.amount_raw for move in moved if move.destination == platform)
    leg.fee_mint = leg.second_mint
    return leg


def _launch(ix: Instruction) -> Created:
    """0 creator, 1 its VIRTUAL account, 2 mint, 5 pool, 8 token program."""
    params = Reader(ix.data, 8)
    symbol, name, uri = params.string(), params.string(), params.string()
    return Created(
        mint=ix.address(2),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(0),
        pool=ix.address(5),
        quote_mint=ix.mint_of(ix.account(1)),
        supply_raw=ix.tx.minted_raw(ix.position, ix.account(2)) or None,
        token_program=ix.address(8),
    )


def _create_meteora_pool(ix: Instruction) -> Migrated:
    """0 curve, 8 pool, 11/12 VIRTUAL and token mints, 15/16 their Meteora token vaults."""
    return migration_by_vaults(
        ix, "meteora-damm-v1", curve=0, pool=8, mints=(12, 11), vaults=(16, 15)
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
