"""Boop: bonding curves that hold SOL as lamports of a vault account.

TokenBought and TokenSold are logged; lamports move by System transfers both ways, so the
amounts are taken from those: what reached or left the curve's SOL vault, the fee beside it.
Source: carbon's boop decoder (layouts), mainnet transactions (fees).

Not decoded: the price corrections an operator trades on Raydium after graduation (those are
Raydium's swaps), and staking.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import (
    Created,
    Instruction,
    Leg,
    Malformed,
    Migrated,
    Venue,
    migration_by_vaults,
    named,
)
from pipeline.solana.address import TOKEN_PROGRAM, WSOL, text
from pipeline.solana.layout import Reader

DEX: Final = "boop"
PROGRAM: Final = "boop8hVGQGqehUK2iVEMEnMrL5RbjywRzHKBmBE7ry4"

BUY_TOKEN: Final = bytes.fromhex("8a7f0e5b26577369")
SELL_TOKEN: Final = bytes.fromhex("6d3d28bbe6b087ae")
CREATE_TOKEN: Final = bytes.fromhex("5434cce4188cea4b")
CREATE_TOKEN_FALLBACK: Final = bytes.fromhex("fdb87ec7ebe8aca2")
DEPLOY_BONDING_CURVE: Final = bytes.fromhex("b459c74ca8ecd98a")
DEPLOY_BONDING_CURVE_FALLBACK: Final = bytes.fromhex("35e6ac544dae163d")
CREATE_RAYDIUM_POOL: Final = bytes.fromhex("412d774dccb25402")
CREATE_RAYDIUM_RANDOM_POOL: Final = bytes.fromhex("4e2cad1d84b404ac")
CREATE_METEORA_POOL: Final = bytes.fromhex("f6fe2125e1b029e8")


def _buy(ix: Instruction) -> Leg:
    """0 mint, 1 curve, 2 fee vault, 3 token vault, 4 SOL vault, 5 recipient's account, 6 buyer."""
    vault, fee_vault, token_vault = ix.account(4), ix.account(2), ix.account(3)
    sent = ix.tx.lamport_transfers(ix.position)
    sol_raw = sum(move.amount_raw for move in sent if move.destination == vault)
    fee_raw = sum(move.amount_raw for move in sent if move.destination == fee_vault)
    token_raw = sum(move.amount_raw for move in ix.transfers() if move.source == token_vault)
    if not sol_raw and not token_raw:
        raise Malformed("nothing moved into or out of the vaults")
    return Leg(
        pool=ix.address(1),
        input_mint=WSOL,
        output_mint=ix.address(0),
        input_raw=sol_raw,
        output_raw=token_raw,
        paid_raw=sol_raw + fee_raw,
        destination=ix.account(5),
        user=ix.account(6),
        vault_in=vault,
        vault_out=token_vault,
        second_mint=WSOL,
        fee_raw=fee_raw,
        fee_mint=WSOL,
    )


def _sell(ix: Instruction) -> Leg:
    """0 mint, 1 curve, 2 fee vault, 3 token vault, 4 SOL vault, 5 seller's account, 6 seller."""
    vault, fee_vault, token_vault = ix.account(4), ix.account(2), ix.account(3)
    sent = [move for move in ix.tx.lamport_transfers(ix.position) if move.source == vault]
    sol_raw = sum(move.amount_raw for move in sent)
    fee_raw = sum(move.amount_raw for move in sent if move.destination == fee_vault)
    token_raw = sum(move.amount_raw for move in ix.transfers() if move.destination == token_vault)
    if not sol_raw and not token_raw:
        raise Malformed("nothing moved into or out of the vaults")
    return Leg(
        pool=ix.address(1),
        input_mint=ix.address(0),
        output_mint=WSOL,
        input_raw=token_raw,
        output_raw=sol_raw,
        received_raw=sol_raw - fee_raw,
        source=ix.account(5),
        user=ix.account(6),
        vault_in=token_vault,
        vault_out=vault,
        second_mint=WSOL,
        fee_raw=fee_raw,
        fee_mint=WSOL,
    )


def _create(ix: Instruction) -> Created:
    """2 mint, 3 payer. The curve is deployed by the next instruction: 0 mint, 2 curve."""
    params = Reader(ix.data, 16)  # a salt comes first
    name, symbol, uri = params.string(), params.string(), params.string()
    created = Created(
        mint=ix.address(2),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(3),
        pool="",
        quote_mint=WSOL,
        supply_raw=ix.tx.minted_raw(ix.position, ix.account(2)) or None,
        token_program=text(TOKEN_PROGRAM),
    )
    tx, program, mint = ix.tx, ix.tx.programs[ix.position], ix.account(2)
    for position in range(ix.position + 1, len(tx.programs)):
        if tx.programs[position] != program:
            continue
        deploy = Instruction(tx, position)
        tag = deploy.data[:8]
        if tag in (DEPLOY_BONDING_CURVE, DEPLOY_BONDING_CURVE_FALLBACK):
            if deploy.account(0) == mint:
                created.pool = deploy.address(2)
                created.creator = Reader(deploy.data, 8).pubkey()
                created.supply_raw = created.supply_raw or tx.minted_raw(position, mint) or None
            break
    return created


def _create_raydium_pool(ix: Instruction) -> Migrated:
    """3 pool, 4/5 mints, 8 curve, 12/13 vaults."""
    return _migrated(ix, "raydium-cpmm", curve=8, pool=3, mints=(4, 5), vaults=(12, 13))


def _create_meteora_pool(ix: Instruction) -> Migrated:
    """5 pool, 9/10 mints, 11/12 vaults, 13 curve."""
    return _migrated(ix, "meteora-damm-v2", curve=13, pool=5, mints=(9, 10), vaults=(11, 12))


def _migrated(
    ix: Instruction,
    dex: str,
    *,
    curve: int,
    pool: int,
    mints: tuple[int, int],
    vaults: tuple[int, int],
) -> Migrated:
    if ix.address(mints[0]) == WSOL:
        mints, vaults = mints[::-1], vaults[::-1]
    return migration_by_vaults(ix, dex, curve=curve, pool=pool, mints=mints, vaults=vaults)


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={
            BUY_TOKEN: _buy,
            SELL_TOKEN: _sell,
            CREATE_TOKEN: _create,
            CREATE_TOKEN_FALLBACK: _create,
            CREATE_RAYDIUM_POOL: _create_raydium_pool,
            CREATE_RAYDIUM_RANDOM_POOL: _create_raydium_pool,
            CREATE_METEORA_POOL: _create_meteora_pool,
        },
        ignored=named(
            "add_operators",
            "cancel_authority_transfer",
            "close_bonding_curve_vault",
            "collect_meteora_trading_fees",
            "collect_trading_fees",
            "complete_authority_transfer",
            "deploy_bonding_curve",
            "deploy_bonding_curve_fallback",
            "deposit_into_raydium",
            "graduate",
            "initialize",
            "initiate_authority_transfer",
            "lock_raydium_liquidity",
            "remove_operators",
            "split_trading_fees",
            "swap_sol_for_tokens_on_raydium",
            "swap_tokens_for_sol_on_raydium",
            "toggle_paused",
            "update_config",
        ),
    ),
)
