"""Sugar: bonding curves whose SOL moves by System transfers, to and from the curve's account.

Amounts are those of the transfers: what reached or left the curve, the fee beside it. Source:
the program's published interface (account lists) and solana-dex-parser-go (checked there on
mainnet); no trade was at hand here. `create` has an older form with a Metaplex metadata
account and a newer Token-2022 one of twelve accounts.

Not decoded: the events by self-CPI (layout unknown), so no reserves.
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

DEX: Final = "sugar"
PROGRAM: Final = "deus4Bvftd5QKcEkE5muQaWGWDoma8GrySvPFrBPjhS"

BUY_EXACT_IN: Final = bytes.fromhex("faea0d7bd59c13ec")
BUY_EXACT_OUT: Final = bytes.fromhex("18d3742869039938")
BUY_MAX_OUT: Final = bytes.fromhex("60b1cb75b741c4b1")
SELL_EXACT_IN: Final = bytes.fromhex("9527de9bd37c981a")
SELL_EXACT_OUT: Final = bytes.fromhex("5fc8472208090ba6")
CREATE: Final = bytes.fromhex("181ec828051c0777")
MIGRATE_TO_RAYDIUM: Final = bytes.fromhex("60e65b8c8b28eb8e")

_CREATE_2022_ACCOUNTS: Final = 12


# Accounts of the purchases and sales.
CURVE: Final = LamportCurve(
    mint=1,
    pool=2,  # bonding_curve
    other_sol=(2,),
    sol_vault=3,  # bonding_curve_sol_vault
    token_vault=4,  # bonding_curve_token_account
    trader_account=5,
    trader=6,
    fees_to=(8,),
)
# Accounts of create, older and newer.
CREATE_CURVE, CREATE_MINT, CREATE_PAYER = 2, 3, 6
CREATE_2022_CURVE, CREATE_2022_MINT, CREATE_2022_PAYER, CREATE_2022_TOKEN_PROGRAM = 1, 2, 5, 6
# Accounts of migrate_to_raydium.
MIGRATE_MINT, MIGRATE_SOL_MINT, MIGRATE_CURVE, MIGRATE_POOL, MIGRATE_MINT_0 = 1, 2, 3, 15, 16
MIGRATE_VAULT_0, MIGRATE_VAULT_1 = 22, 23


def _buy(ix: Instruction) -> Leg:
    return _swap(ix, is_buy=True)


def _sell(ix: Instruction) -> Leg:
    return _swap(ix, is_buy=False)


def _swap(ix: Instruction, *, is_buy: bool) -> Leg:
    amounts = lamport_curves.moved(ix, CURVE, is_buy=is_buy)
    if not amounts.sol_raw or not amounts.token_raw:
        raise Malformed("nothing moved into or nothing out of the curve")
    return lamport_curves.leg(ix, CURVE, amounts, is_buy=is_buy)


def _create(ix: Instruction) -> Created:
    params = Reader(ix.data, 8)
    name, symbol, uri = params.string(), params.string(), params.string()
    newer = len(ix.accounts) == _CREATE_2022_ACCOUNTS
    curve, mint, payer = CREATE_CURVE, CREATE_MINT, CREATE_PAYER
    token_program = text(TOKEN_PROGRAM)
    if newer:
        curve, mint, payer = CREATE_2022_CURVE, CREATE_2022_MINT, CREATE_2022_PAYER
        token_program = ix.address(CREATE_2022_TOKEN_PROGRAM)
    return Created(
        mint=ix.address(mint),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(payer),
        pool=ix.address(curve),
        quote_mint=WSOL,
        supply_raw=ix.tx.minted_raw(ix.position, ix.account(mint)) or None,
        token_program=token_program,
    )


def _migrate_to_raydium(ix: Instruction) -> Migrated:
    vaults = MIGRATE_VAULT_0, MIGRATE_VAULT_1
    if ix.account(MIGRATE_MINT_0) != ix.account(MIGRATE_MINT):
        vaults = vaults[::-1]
    return migration_by_vaults(
        ix,
        "raydium-cpmm",
        curve=MIGRATE_CURVE,
        pool=MIGRATE_POOL,
        mints=(MIGRATE_MINT, MIGRATE_SOL_MINT),
        vaults=vaults,
    )


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={
            BUY_EXACT_IN: _buy,
            BUY_EXACT_OUT: _buy,
            BUY_MAX_OUT: _buy,
            SELL_EXACT_IN: _sell,
            SELL_EXACT_OUT: _sell,
            CREATE: _create,
            MIGRATE_TO_RAYDIUM: _migrate_to_raydium,
        },
        ignored=named(
            "become_authority",
            "collect_cp_fees",
            "initialize",
            "set_curve_params",
            "set_fee_bps",
            "set_fee_receiver",
            "set_migration_lot_size",
            "set_migration_refund",
            "set_migrator",
            "set_pending_authority",
            "set_wrapper_mint",
            "sync_wrapper",
            "wrap_sol_for_curve",
        ),
    ),
)
