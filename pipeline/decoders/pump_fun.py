"""pump.fun's bonding curve: create, buy, sell, migrate.

Every event is emitted twice, as a self-CPI and in the log; the CPI copy is never truncated
and is the one read. Fields were appended over the years, so an event is read sequentially to
where it ends. Sources: pump-public-docs (idl/pump.json, cashback and fee recipient notes),
and lamport balances of mainnet transactions.

A curve paired with SOL holds it as lamports of its own account, one paired with another
token in a vault. The quote amount is what moved there; fees come on top of a buy and off a
sale. `buyback_fee` is a share of `fee`, not a further charge. Cashback takes the place of the
creator's fee: it is charged at the trade and waits in an account of the trader, so it counts
as a fee here and its claim is no trade.

Not decoded: CompleteEvent (the curve is full: the migration follows), and the Raydium pool
that a curve's tokens went to before March 2025, which other transactions made.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Created, Instruction, Leg, Malformed, Migrated, Venue, named
from schemas.money import WSOL
from schemas.solana.borsh import Reader

DEX: Final = "pump-fun"
PROGRAM: Final = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
NATIVE: Final = "11111111111111111111111111111111"  # how events spell SOL as the quote
MAYHEM: Final = "pump-fun-mayhem"  # coins that an agent of pump.fun trades in their first day

BUY: Final = bytes.fromhex("66063d1201daebea")
BUY_EXACT_SOL_IN: Final = bytes.fromhex("38fc74089edfcd5f")
SELL: Final = bytes.fromhex("33e685a4017f83ad")
BUY_V2: Final = bytes.fromhex("b817ee6167c5d33d")
BUY_EXACT_QUOTE_IN_V2: Final = bytes.fromhex("c2ab1c46684d5b2f")
SELL_V2: Final = bytes.fromhex("5df6823ce7e940b2")
CREATE: Final = bytes.fromhex("181ec828051c0777")
CREATE_V2: Final = bytes.fromhex("d6904cec5f8b31b4")
MIGRATE: Final = bytes.fromhex("9beae792ec9ea21e")
MIGRATE_V2: Final = bytes.fromhex("bbcb121fceedfe29")
WITHDRAW: Final = bytes.fromhex("b712469c946da122")

TRADE_EVENT: Final = bytes.fromhex("bddb7fd34ee661ee")
CREATE_EVENT: Final = bytes.fromhex("1b72a94ddeeb6376")
MIGRATION_EVENT: Final = bytes.fromhex("bde95db95c94ea94")

# Accounts of the trades.
FEE_RECIPIENT, BONDING_CURVE, ASSOCIATED_BONDING_CURVE, ASSOCIATED_USER, USER = 1, 3, 4, 5, 6
# Accounts of the newer ones.
V2_BONDING_CURVE, V2_BASE_BONDING_CURVE, V2_QUOTE_BONDING_CURVE = 10, 11, 12
V2_USER, V2_BASE_USER, V2_QUOTE_USER = 13, 14, 15
# Accounts of create, create_v2 and withdraw.
CREATE_TOKEN_PROGRAM, CREATE_V2_TOKEN_PROGRAM = 9, 7
WITHDRAW_MINT, WITHDRAW_BONDING_CURVE, WITHDRAW_ASSOCIATED_BONDING_CURVE = 2, 3, 4

DECIMALS: Final = 6  # of every coin of the curve
DEFAULT_SUPPLY_RAW: Final = 1_000_000_000_000_000


def _quote(mint: str) -> str:
    return WSOL if mint == NATIVE else mint


def _trade_v1(ix: Instruction) -> Leg:
    leg = _trade(ix, BONDING_CURVE, ASSOCIATED_BONDING_CURVE, ASSOCIATED_USER, USER)
    if leg.fee_raw is None:
        _charge(leg, _fee_before_events_had_it(ix, leg))
    return leg


def _trade_v2(ix: Instruction) -> Leg:
    leg = _trade(ix, V2_BONDING_CURVE, V2_BASE_BONDING_CURVE, V2_BASE_USER, V2_USER)
    if leg.second_mint != WSOL:
        vault, account = ix.account(V2_QUOTE_BONDING_CURVE), ix.account(V2_QUOTE_USER)
        if leg.input_mint == leg.second_mint:
            leg.vault_in, leg.source = vault, account
        else:
            leg.vault_out, leg.destination = vault, account
    return leg


def _trade(ix: Instruction, curve: int, vault: int, token: int, user: int) -> Leg:
    """Read a TradeEvent; the arguments are places in the instruction's accounts."""
    body = ix.event(TRADE_EVENT)
    if body is None:
        raise Malformed("no TradeEvent")
    event = Reader(body, 8)
    mint = event.pubkey()
    quote_raw, token_raw = event.u64(), event.u64()
    is_buy = event.flag()
    event.skip(32 + 8)  # user, timestamp
    virtual_quote, virtual_token = event.u64(), event.u64()
    quote = WSOL
    quote_reserve = token_reserve = fee = None
    platform = ""
    if event.has(16):
        quote_reserve, token_reserve = event.u64(), event.u64()
    if event.has(96):
        event.skip(32 + 8)  # fee_recipient, fee_basis_points
        fee = event.u64()
        event.skip(32 + 8)  # creator, creator_fee_basis_points
        fee += event.u64()
        if event.has(37):
            event.skip(1 + 8 + 8 + 8 + 8)  # track_volume, volume totals, last_update_timestamp
            event.string()  # ix_name
            if event.has(1) and event.flag():
                platform = MAYHEM
            if event.has(16):
                event.skip(8)  # cashback_fee_basis_points
                fee += event.u64()
            if event.has(20):
                event.skip(8 + 8)  # buyback_fee_basis_points, buyback_fee
                event.skip(34 * event.u32())  # shareholders: key and share
            if event.has(56):
                quote = _quote(event.pubkey())
                quote_raw = event.u64()
                virtual_quote, quote_reserve = event.u64(), event.u64()
    curve_index, vault_index, token_index = ix.account(curve), ix.account(vault), ix.account(token)
    leg = Leg(
        pool=ix.address(curve),
        input_mint=quote if is_buy else mint,
        output_mint=mint if is_buy else quote,
        input_raw=quote_raw if is_buy else token_raw,
        output_raw=token_raw if is_buy else quote_raw,
        user=ix.account(user),
        second_mint=quote,
        fee_mint=quote,
        decimals={mint: DECIMALS},
        platform=platform,
    )
    if is_buy:
        leg.vault_in, leg.vault_out, leg.destination = curve_index, vault_index, token_index
        leg.reserve_in_raw, leg.reserve_out_raw = quote_reserve, token_reserve
        leg.virtual_in_raw, leg.virtual_out_raw = virtual_quote, virtual_token
    else:
        leg.vault_in, leg.vault_out, leg.source = vault_index, curve_index, token_index
        leg.reserve_in_raw, leg.reserve_out_raw = token_reserve, quote_reserve
        leg.virtual_in_raw, leg.virtual_out_raw = virtual_token, virtual_quote
    _charge(leg, fee)
    return leg


def _charge(leg: Leg, fee_raw: int | None) -> None:
    """Put a fee on a leg: on top of what a buyer pays, off what a seller receives."""
    leg.fee_raw = fee_raw
    if fee_raw is None:
        leg.fee_mint = ""
        return
    leg.fee_mint = leg.second_mint
    if leg.input_mint == leg.second_mint:
        leg.paid_raw = leg.input_raw + fee_raw
    else:
        leg.received_raw = leg.output_raw - fee_raw


def _fee_before_events_had_it(ix: Instruction, leg: Leg) -> int | None:
    """Find the fee of a trade from before May 2025; None where the transaction hides it.

    A buyer sent it to the recipient. Of a sale the program moved it without a transfer: it
    is what else the recipient gained, where the transaction has no other sale through it.
    """
    tx, recipient = ix.tx, ix.account(FEE_RECIPIENT)
    if leg.input_mint == leg.second_mint:
        paid = [
            transfer.amount_raw
            for transfer in tx.lamport_transfers(ix.position)
            if transfer.destination == recipient
        ]
        return sum(paid) if paid else None
    program = tx.programs[ix.position]
    sales = sum(
        tx.programs[at] == program
        and tx.data[at][:8] == SELL
        and tx.accounts[at][FEE_RECIPIENT : FEE_RECIPIENT + 1] == bytes([recipient])
        for at in range(len(tx.programs))
    )
    if sales != 1:
        return None
    gained = tx.meta.post_balances[recipient] - tx.meta.pre_balances[recipient]
    fee = gained - tx.lamports_to(frozenset({tx.keys[recipient]}))
    return fee if 0 <= fee <= leg.output_raw else None


def _create_v1(ix: Instruction) -> Created:
    return _create(ix, token_program=CREATE_TOKEN_PROGRAM)


def _create_v2(ix: Instruction) -> Created:
    return _create(ix, token_program=CREATE_V2_TOKEN_PROGRAM)


def _create(ix: Instruction, *, token_program: int) -> Created:
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
        token_program=ix.address(token_program),
    )
    if event.has(72):
        created.creator = event.pubkey()
        event.skip(8 + 8 + 8 + 8)  # timestamp, virtual token, virtual sol, real token
        created.supply_raw = event.u64()
    if event.has(33):
        event.skip(32)  # token_program
        if event.flag():
            created.platform = MAYHEM
    if event.has(33):
        event.skip(1)  # is_cashback_enabled
        created.quote_mint = _quote(event.pubkey())
    return created


def _migrate(ix: Instruction) -> Migrated | None:
    body = ix.event(MIGRATION_EVENT)
    if body is None:
        return None  # already migrated: the program returns without doing anything
    event = Reader(body, 8)
    event.skip(32)  # user
    mint = event.pubkey()
    token_raw, quote_raw = event.u64(), event.u64()
    event.skip(8)  # pool_migration_fee
    curve = event.pubkey()
    event.skip(8)  # timestamp
    pool = event.pubkey()
    quote = _quote(event.pubkey()) if event.has(32) else WSOL
    return Migrated(mint, curve, "pump-swap", pool, quote, token_raw, quote_raw)


def _withdraw(ix: Instruction) -> Migrated:
    """Read a migration: all of the curve's tokens leave for a Raydium pool made later."""
    mint, curve = ix.address(WITHDRAW_MINT), ix.address(WITHDRAW_BONDING_CURVE)
    vault = ix.account(WITHDRAW_ASSOCIATED_BONDING_CURVE)
    token_raw = sum(move.amount_raw for move in ix.transfers() if move.source == vault)
    return Migrated(mint, curve, "raydium-amm-v4", "", WSOL, token_raw)


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={
            BUY: _trade_v1,
            BUY_EXACT_SOL_IN: _trade_v1,
            SELL: _trade_v1,
            BUY_V2: _trade_v2,
            BUY_EXACT_QUOTE_IN_V2: _trade_v2,
            SELL_V2: _trade_v2,
            CREATE: _create_v1,
            CREATE_V2: _create_v2,
            MIGRATE: _migrate,
            MIGRATE_V2: _migrate,
            WITHDRAW: _withdraw,
        },
        ignored=named(
            "add_quote_mint",
            "admin_set_creator",
            "admin_set_idl_authority",
            "admin_update_token_incentives",
            "claim_cashback",
            "claim_cashback_v2",
            "claim_token_incentives",
            "close_user_volume_accumulator",
            "collect_creator_fee",
            "collect_creator_fee_v2",
            "distribute_creator_fees",
            "distribute_creator_fees_v2",
            "extend_account",
            "get_minimum_distributable_fee",
            "init_user_volume_accumulator",
            "initialize",
            "migrate_bonding_curve_creator",
            "remove_quote_mint",
            "set_creator",
            "set_mayhem_virtual_params",
            "set_metaplex_creator",
            "set_params",
            "set_reserved_fee_recipients",
            "set_virtual_quote_reserves",
            "sync_user_volume_accumulator",
            "toggle_cashback_enabled",
            "toggle_create_v2",
            "toggle_mayhem_mode",
            "update_buyback_config",
            "update_global_authority",
        ),
    ),
)
