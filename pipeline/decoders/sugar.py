"""Sugar: bonding curves whose SOL moves by System transfers, to and from the curve's account.

Amounts are those of the transfers: what reached or left the curve, the fee beside it. Source:
the program's published interface (account lists) and solana-dex-parser-go (checked there on
mainnet); no trade was at hand here. `create` has an older form with a Metaplex metadata
account and a newer Token-2022 one of twelve accounts.

Not decoded: the events by self-CPI (layout unknown), so no reserves.
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


def _buy(ix: Instruction) -> Leg:
    """1 mint, 2 curve, 3/4 its SOL and token accounts, 5 receiver's, 6 payer, 8 fee receiver."""
    curve, fees_to = (ix.account(2), ix.account(3)), ix.account(8)
    token_vault = ix.account(4)
    sent = ix.tx.lamport_transfers(ix.position)
    sol_raw = sum(move.amount_raw for move in sent if move.destination in curve)
    fee_raw = sum(move.amount_raw for move in sent if move.destination == fees_to)
    token_raw = sum(move.amount_raw for move in ix.transfers() if move.source == token_vault)
    if not sol_raw or not token_raw:
        raise Malformed("nothing moved into or nothing out of the curve")
    return Leg(
        pool=ix.address(2),
        input_mint=WSOL,
        output_mint=ix.address(1),
        input_raw=sol_raw,
        output_raw=token_raw,
        paid_raw=sol_raw + fee_raw,
        destination=ix.account(5),
        user=ix.account(6),
        vault_in=curve[1],
        vault_out=token_vault,
        second_mint=WSOL,
        fee_raw=fee_raw,
        fee_mint=WSOL,
    )


def _sell(ix: Instruction) -> Leg:
    """Read a sale: accounts as of a buy, 5 and 6 the seller's, 7 who receives the SOL."""
    curve, fees_to = (ix.account(2), ix.account(3)), ix.account(8)
    token_vault = ix.account(4)
    sent = [move for move in ix.tx.lamport_transfers(ix.position) if move.source in curve]
    sol_raw = sum(move.amount_raw for move in sent)
    fee_raw = sum(move.amount_raw for move in sent if move.destination == fees_to)
    token_raw = sum(move.amount_raw for move in ix.transfers() if move.destination == token_vault)
    if not sol_raw or not token_raw:
        raise Malformed("nothing moved into or nothing out of the curve")
    return Leg(
        pool=ix.address(2),
        input_mint=ix.address(1),
        output_mint=WSOL,
        input_raw=token_raw,
        output_raw=sol_raw,
        received_raw=sol_raw - fee_raw,
        source=ix.account(5),
        user=ix.account(6),
        vault_in=token_vault,
        vault_out=curve[1],
        second_mint=WSOL,
        fee_raw=fee_raw,
        fee_mint=WSOL,
    )


def _create(ix: Instruction) -> Created:
    """Newer: 1 curve, 2 mint, 5 payer, 6 token program. Older: 2 curve, 3 mint, 6 payer."""
    params = Reader(ix.data, 8)
    name, symbol, uri = params.string(), params.string(), params.string()
    newer = len(ix.accounts) == _CREATE_2022_ACCOUNTS
    curve, mint, payer = (1, 2, 5) if newer else (2, 3, 6)
    return Created(
        mint=ix.address(mint),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(payer),
        pool=ix.address(curve),
        quote_mint=WSOL,
        supply_raw=ix.tx.minted_raw(ix.position, ix.account(mint)) or None,
        token_program=ix.address(6) if newer else text(TOKEN_PROGRAM),
    )


def _migrate_to_raydium(ix: Instruction) -> Migrated:
    """1 mint, 2 mint that wraps SOL, 3 curve, 15 CPMM pool, 16/17 its mints, 22/23 vaults."""
    vaults = (22, 23) if ix.account(16) == ix.account(1) else (23, 22)
    return migration_by_vaults(ix, "raydium-cpmm", curve=3, pool=15, mints=(1, 2), vaults=vaults)


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
