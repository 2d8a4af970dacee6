"""Moonit, formerly Moonshot: bonding curves that hold SOL as lamports of their own account.

TradeEvent is logged. `collateral_amount` is what the curve gained or lost; the dex and helio
fees come on top of a buy and off a sale. Where the log is cut, a buy is recognised by the lamports
its buyer sent; the lamports of a sale have no transfer. Sources: carbon's moonshot decoder
(layouts), mainnet transactions (fees).

Not decoded: the pool that migrated funds go to. MigrationEvent does not name it; the
migration authority makes it later, on Raydium or Meteora as the curve's account says.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding import lamport_curves
from pipeline.decoding.contract import Created, Instruction, Leg, Malformed, Migrated, Venue, named
from pipeline.decoding.lamport_curves import LamportCurve, Moved
from schemas.money import WSOL
from schemas.solana.borsh import Reader

DEX: Final = "moonit"
PROGRAM: Final = "MoonCVVNZFSYkqNXP6bxHLPL6QQJiMagDL3qcqUQTrG"

BUY: Final = bytes.fromhex("66063d1201daebea")
SELL: Final = bytes.fromhex("33e685a4017f83ad")
TOKEN_MINT: Final = bytes.fromhex("032ca4b87b0df5b3")
MIGRATE_FUNDS: Final = bytes.fromhex("2ae50ae7bd3ec1ae")

TRADE_EVENT: Final = bytes.fromhex("bddb7fd34ee661ee")
MIGRATION_EVENT: Final = bytes.fromhex("ffca4c935be74916")


# Accounts of buy and sell.
CURVE: Final = LamportCurve(
    trader=0,  # sender
    trader_account=1,  # sender_token_account
    pool=2,  # curve_account
    sol_vault=2,
    token_vault=3,  # curve_token_account
    fees_to=(4, 5),  # dex_fee, helio_fee
    mint=6,
)
# Accounts of token_mint.
MINT_SENDER, MINT_CURVE, MINT_MINT, MINT_TOKEN_PROGRAM = 0, 2, 3, 7
# Accounts of migrate_funds.
MIGRATE_CURVE, MIGRATE_MINT = 2, 5


def _buy(ix: Instruction) -> Leg:
    amounts = _trade_event(ix)
    if amounts is None:
        amounts = lamport_curves.moved(ix, CURVE, is_buy=True)
        if not amounts.sol_raw:
            raise Malformed("no TradeEvent, and no lamports sent to the curve")
    return lamport_curves.leg(ix, CURVE, amounts, is_buy=True)


def _sell(ix: Instruction) -> Leg:
    amounts = _trade_event(ix)
    if amounts is None:
        raise Malformed("no TradeEvent")
    return lamport_curves.leg(ix, CURVE, amounts, is_buy=False)


def _trade_event(ix: Instruction) -> Moved | None:
    body = ix.event(TRADE_EVENT)
    if body is None:
        return None
    event = Reader(body, 8)
    token_raw, sol_raw = event.u64(), event.u64()
    return Moved(sol_raw, token_raw, event.u64() + event.u64())  # dex fee, helio fee


def _token_mint(ix: Instruction) -> Created:
    params = Reader(ix.data, 8)
    name, symbol, uri = params.string(), params.string(), params.string()
    decimals = params.u8()
    params.skip(1)  # collateral currency: SOL is the only one
    return Created(
        mint=ix.address(MINT_MINT),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(MINT_SENDER),
        pool=ix.address(MINT_CURVE),
        quote_mint=WSOL,
        decimals=decimals,
        supply_raw=params.u64(),
        token_program=ix.address(MINT_TOKEN_PROGRAM),
    )


def _migrate_funds(ix: Instruction) -> Migrated:
    migrated = Migrated(
        mint=ix.address(MIGRATE_MINT),
        from_pool=ix.address(MIGRATE_CURVE),
        dex="",
        pool="",
        quote_mint=WSOL,
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
