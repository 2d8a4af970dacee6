"""Boop: bonding curves that hold SOL as lamports of a vault account.

TokenBought and TokenSold are logged; lamports move by System transfers both ways, so the
amounts are taken from those: what reached or left the curve's SOL vault, the fee beside it.
Source: carbon's boop decoder (layouts), mainnet transactions (fees).

Not decoded: the price corrections an operator trades on Raydium after graduation (those are
Raydium's swaps), and staking.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding import lamport_curves
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
from pipeline.decoding.lamport_curves import LamportCurve
from schemas.money import WSOL
from schemas.solana.addresses import TOKEN_PROGRAM, text
from schemas.solana.borsh import Reader

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


# Accounts of buy_token and sell_token.
CURVE: Final = LamportCurve(
    mint=0,
    pool=1,  # bonding_curve
    fees_to=(2,),  # trading_fees_vault
    token_vault=3,  # bonding_curve_vault
    sol_vault=4,  # bonding_curve_sol_vault
    trader_account=5,
    trader=6,
)
# Accounts of create_token, and of deploy_bonding_curve after it.
CREATE_MINT, CREATE_PAYER = 2, 3
DEPLOY_MINT, DEPLOY_CURVE = 0, 2
# Accounts of create_raydium_pool and create_raydium_random_pool.
RAYDIUM_POOL, RAYDIUM_MINT_0, RAYDIUM_MINT_1, RAYDIUM_CURVE = 3, 4, 5, 8
RAYDIUM_VAULT_0, RAYDIUM_VAULT_1 = 12, 13
# Accounts of create_meteora_pool.
METEORA_POOL, METEORA_MINT_A, METEORA_MINT_B, METEORA_CURVE = 5, 9, 10, 13
METEORA_VAULT_A, METEORA_VAULT_B = 11, 12


def _buy(ix: Instruction) -> Leg:
    return _swap(ix, is_buy=True)


def _sell(ix: Instruction) -> Leg:
    return _swap(ix, is_buy=False)


def _swap(ix: Instruction, *, is_buy: bool) -> Leg:
    amounts = lamport_curves.moved(ix, CURVE, is_buy=is_buy)
    if not amounts.sol_raw and not amounts.token_raw:
        raise Malformed("nothing moved into or out of the vaults")
    return lamport_curves.leg(ix, CURVE, amounts, is_buy=is_buy)


def _create(ix: Instruction) -> Created:
    """Read a creation; the next instruction of the program deploys the curve."""
    params = Reader(ix.data, 16)  # a salt comes first
    name, symbol, uri = params.string(), params.string(), params.string()
    mint = ix.account(CREATE_MINT)
    created = Created(
        mint=ix.address(CREATE_MINT),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(CREATE_PAYER),
        pool="",
        quote_mint=WSOL,
        supply_raw=ix.tx.minted_raw(ix.position, mint) or None,
        token_program=text(TOKEN_PROGRAM),
    )
    tx, program = ix.tx, ix.tx.programs[ix.position]
    for position in range(ix.position + 1, len(tx.programs)):
        if tx.programs[position] != program:
            continue
        deploy = Instruction(tx, position)
        tag = deploy.data[:8]
        if tag in (DEPLOY_BONDING_CURVE, DEPLOY_BONDING_CURVE_FALLBACK):
            if deploy.account(DEPLOY_MINT) == mint:
                created.pool = deploy.address(DEPLOY_CURVE)
                created.creator = Reader(deploy.data, 8).pubkey()
                created.supply_raw = created.supply_raw or tx.minted_raw(position, mint) or None
            break
    return created


def _create_raydium_pool(ix: Instruction) -> Migrated:
    return _migrated(
        ix,
        "raydium-cpmm",
        curve=RAYDIUM_CURVE,
        pool=RAYDIUM_POOL,
        mints=(RAYDIUM_MINT_0, RAYDIUM_MINT_1),
        vaults=(RAYDIUM_VAULT_0, RAYDIUM_VAULT_1),
    )


def _create_meteora_pool(ix: Instruction) -> Migrated:
    return _migrated(
        ix,
        "meteora-damm-v2",
        curve=METEORA_CURVE,
        pool=METEORA_POOL,
        mints=(METEORA_MINT_A, METEORA_MINT_B),
        vaults=(METEORA_VAULT_A, METEORA_VAULT_B),
    )


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
