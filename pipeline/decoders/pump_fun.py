"""pump.fun's bonding curve: create, buy, sell, complete, migrate.

Every event is emitted twice, as a self-CPI and in the log; the CPI copy is never truncated
and is the one read. Fields are appended over time (facts: pump-public-docs idl/pump.json),
so events are read sequentially to where they end. The curve holds SOL as lamports of its
own account: `sol_amount` is what moved there, fees come on top of a buy and off a sale.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import (
    Created,
    Fact,
    Instruction,
    Leg,
    Malformed,
    Migrated,
    Venue,
    tags,
)
from pipeline.solana.address import WSOL
from pipeline.solana.layout import Reader

DEX: Final = "pump-fun"
PROGRAM: Final = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
NATIVE: Final = "11111111111111111111111111111111"  # how newer curves spell SOL

TRADE_EVENT: Final = bytes.fromhex("bddb7fd34ee661ee")
CREATE_EVENT: Final = bytes.fromhex("1b72a94ddeeb6376")
MIGRATION_EVENT: Final = bytes.fromhex("bde95db95c94ea94")

DECIMALS: Final = 6  # of every coin of the curve
DEFAULT_SUPPLY_RAW: Final = 1_000_000_000_000_000


def _quote(mint: str) -> str:
    return WSOL if mint == NATIVE else mint


def _trade(ix: Instruction, *, curve: int, vault: int, token: int, user: int) -> Leg:
    """Read a trade; the arguments are places in the instruction's accounts."""
    body = ix.event(TRADE_EVENT)
    if body is None:
        raise Malformed("no TradeEvent")
    event = Reader(body, 8)
    mint = event.pubkey()
    sol_raw = event.u64()
    token_raw = event.u64()
    is_buy = event.flag()
    event.skip(32 + 8 + 8 + 8)  # user, timestamp, virtual reserves
    quote_reserve = token_reserve = None
    fees = 0
    quote = WSOL
    if event.has(16):
        quote_reserve, token_reserve = event.u64(), event.u64()
    if event.has(96):
        event.skip(32 + 8)  # fee_recipient, fee_basis_points
        fees = event.u64()
        event.skip(32 + 8)  # creator, creator_fee_basis_points
        fees += event.u64()
    if event.has(34):
        event.skip(1 + 8 + 8 + 8 + 8)  # track_volume, volume totals, last_update_timestamp
        event.string()  # ix_name
    if event.has(17):
        event.skip(1 + 8)  # mayhem_mode, cashback_fee_basis_points
        fees += event.u64()
    if event.has(16):
        event.skip(8)  # buyback_fee_basis_points
        fees += event.u64()
        event.skip(34 * event.u32())  # shareholders: key and share
    if event.has(56):
        quote = _quote(event.pubkey())
        quote_raw = event.u64()
        if quote != WSOL:
            sol_raw = quote_raw
            event.skip(8)
            quote_reserve = event.u64()
    vault_index, token_index = ix.account(vault), ix.account(token)
    curve_index = ix.account(curve)
    leg = Leg(
        pool=ix.address(curve),
        input_mint=quote if is_buy else mint,
        output_mint=mint if is_buy else quote,
        input_raw=sol_raw if is_buy else token_raw,
        output_raw=token_raw if is_buy else sol_raw,
        user=ix.account(user),
        second_mint=quote,
        fee_raw=fees,
        fee_mint=quote,
        decimals={mint: DECIMALS},
    )
    if is_buy:
        leg.paid_raw = sol_raw + fees
        leg.destination, leg.vault_out, leg.vault_in = token_index, vault_index, curve_index
        leg.reserve_in_raw, leg.reserve_out_raw = quote_reserve, token_reserve
    else:
        leg.received_raw = sol_raw - fees
        leg.source, leg.vault_in, leg.vault_out = token_index, vault_index, curve_index
        leg.reserve_in_raw, leg.reserve_out_raw = token_reserve, quote_reserve
    return leg


def _trade_v1(ix: Instruction) -> Leg:
    return _trade(ix, curve=3, vault=4, token=5, user=6)


def _trade_v2(ix: Instruction) -> Leg:
    return _trade(ix, curve=10, vault=11, token=14, user=13)


def _create(ix: Instruction) -> Created:
    body = ix.event(CREATE_EVENT)
    if body is None:
        raise Malformed("no CreateEvent")
    event = Reader(body, 8)
    name, symbol, uri = event.string(), event.string(), event.string()
    mint, curve, user = event.pubkey(), event.pubkey(), event.pubkey()
    created = Created(
        mint=mint,
        name=name,
        symbol=symbol,
        uri=uri,
        creator=user,
        pool=curve,
        quote_mint=WSOL,
        decimals=DECIMALS,
        supply_raw=DEFAULT_SUPPLY_RAW,
    )
    if event.has(72):
        created.creator = event.pubkey()
        event.skip(8 + 8 + 8 + 8)  # timestamp, virtual token, virtual sol, real token
        created.supply_raw = event.u64()
    if event.has(33):
        created.token_program = event.pubkey()
        if event.flag():
            created.platform = "pump-fun-mayhem"
    if event.has(33):
        event.skip(1)  # is_cashback_enabled
        created.quote_mint = _quote(event.pubkey())
    return created


def _migrate(ix: Instruction) -> Fact | None:
    body = ix.event(MIGRATION_EVENT)
    if body is None:
        return None  # already migrated: the program returns without doing anything
    event = Reader(body, 8)
    event.skip(32)  # user
    mint = event.pubkey()
    token_raw, sol_raw = event.u64(), event.u64()
    event.skip(8)  # pool_migration_fee
    curve = event.pubkey()
    event.skip(8)  # timestamp
    pool = event.pubkey()
    quote = _quote(event.pubkey()) if event.has(32) else WSOL
    return Migrated(mint, curve, "pump-swap", pool, quote, token_raw, sol_raw)


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={
            bytes.fromhex("66063d1201daebea"): _trade_v1,  # buy
            bytes.fromhex("38fc74089edfcd5f"): _trade_v1,  # buy_exact_sol_in
            bytes.fromhex("33e685a4017f83ad"): _trade_v1,  # sell
            bytes.fromhex("b817ee6167c5d33d"): _trade_v2,  # buy_v2
            bytes.fromhex("c2ab1c46684d5b2f"): _trade_v2,  # buy_exact_quote_in_v2
            bytes.fromhex("5df6823ce7e940b2"): _trade_v2,  # sell_v2
            bytes.fromhex("181ec828051c0777"): _create,  # create
            bytes.fromhex("d6904cec5f8b31b4"): _create,  # create_v2
            bytes.fromhex("9beae792ec9ea21e"): _migrate,  # migrate
            bytes.fromhex("bbcb121fceedfe29"): _migrate,  # migrate_v2
        },
        ignored=tags(
            "ea66c2cb96483ee5",  # extend_account
        ),
    ),
)
