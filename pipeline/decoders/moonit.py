"""Moonit, formerly Moonshot: bonding curves that hold SOL as lamports of their own account.

TradeEvent is logged. `collateral_amount` is what the curve gained or lost; the dex and helio
fees come on top of a buy and off a sale. Where the log is cut, a buy is told by the lamports
its buyer sent; the lamports of a sale have no transfer. Sources: carbon's moonshot decoder
(layouts), mainnet transactions (fees).

Not decoded: the pool that migrated funds go to. MigrationEvent does not name it; the
migration authority makes it later, on Raydium or Meteora as the curve's account says.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Created, Instruction, Leg, Malformed, Migrated, Venue, named
from pipeline.solana.address import WSOL
from pipeline.solana.layout import Reader

DEX: Final = "moonit"
PROGRAM: Final = "MoonCVVNZFSYkqNXP6bxHLPL6QQJiMagDL3qcqUQTrG"

BUY: Final = bytes.fromhex("66063d1201daebea")
SELL: Final = bytes.fromhex("33e685a4017f83ad")
TOKEN_MINT: Final = bytes.fromhex("032ca4b87b0df5b3")
MIGRATE_FUNDS: Final = bytes.fromhex("2ae50ae7bd3ec1ae")

TRADE_EVENT: Final = bytes.fromhex("bddb7fd34ee661ee")
MIGRATION_EVENT: Final = bytes.fromhex("ffca4c935be74916")


def _buy(ix: Instruction) -> Leg:
    """0 sender, 1 its token account, 2 curve, 3 its token account, 4/5 fee accounts, 6 mint."""
    curve, fees_to = ix.account(2), (ix.account(4), ix.account(5))
    event = _trade_event(ix)
    if event is not None:
        token_raw, sol_raw, fee_raw = event
    else:
        sent = ix.tx.lamport_transfers(ix.position)
        sol_raw = sum(move.amount_raw for move in sent if move.destination == curve)
        fee_raw = sum(move.amount_raw for move in sent if move.destination in fees_to)
        if not sol_raw:
            raise Malformed("no TradeEvent, and no lamports sent to the curve")
        token_raw = _tokens_moved(ix)
    return Leg(
        pool=ix.address(2),
        input_mint=WSOL,
        output_mint=ix.address(6),
        input_raw=sol_raw,
        output_raw=token_raw,
        paid_raw=sol_raw + fee_raw,
        destination=ix.account(1),
        user=ix.account(0),
        vault_in=curve,
        vault_out=ix.account(3),
        second_mint=WSOL,
        fee_raw=fee_raw,
        fee_mint=WSOL,
    )


def _sell(ix: Instruction) -> Leg:
    """Read a sale: accounts as of a buy."""
    event = _trade_event(ix)
    if event is None:
        raise Malformed("no TradeEvent")
    token_raw, sol_raw, fee_raw = event
    return Leg(
        pool=ix.address(2),
        input_mint=ix.address(6),
        output_mint=WSOL,
        input_raw=token_raw,
        output_raw=sol_raw,
        received_raw=sol_raw - fee_raw,
        source=ix.account(1),
        user=ix.account(0),
        vault_in=ix.account(3),
        vault_out=ix.account(2),
        second_mint=WSOL,
        fee_raw=fee_raw,
        fee_mint=WSOL,
    )


def _trade_event(ix: Instruction) -> tuple[int, int, int] | None:
    """Return tokens, lamports of the curve and fee of a trade."""
    body = ix.event(TRADE_EVENT)
    if body is None:
        return None
    event = Reader(body, 8)
    token_raw, sol_raw = event.u64(), event.u64()
    return token_raw, sol_raw, event.u64() + event.u64()  # dex fee, helio fee


def _tokens_moved(ix: Instruction) -> int:
    vault = ix.account(3)
    return sum(move.amount_raw for move in ix.transfers() if move.source == vault)


def _token_mint(ix: Instruction) -> Created:
    """0 sender, 2 curve, 3 mint, 7 token program."""
    params = Reader(ix.data, 8)
    name, symbol, uri = params.string(), params.string(), params.string()
    decimals = params.u8()
    params.skip(1)  # collateral currency: SOL is the only one
    return Created(
        mint=ix.address(3),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(0),
        pool=ix.address(2),
        quote_mint=WSOL,
        decimals=decimals,
        supply_raw=params.u64(),
        token_program=ix.address(7),
    )


def _migrate_funds(ix: Instruction) -> Migrated:
    """2 curve, 5 mint."""
    migrated = Migrated(
        mint=ix.address(5), from_pool=ix.address(2), dex="", pool="", quote_mint=WSOL
    )
    body = ix.event(MIGRATION_EVENT)
    if body is not None:
        event = Reader(body, 8)
        migrated.amount_raw = event.u64()
        event.skip(8)  # tokens_burned
        migrated.quote_amount_raw = event.u64()
    return migrated


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={
            BUY: _buy,
            SELL: _sell,
            TOKEN_MINT: _token_mint,
            MIGRATE_FUNDS: _migrate_funds,
        },
        ignored=named("config_init", "config_update"),
    ),
)
