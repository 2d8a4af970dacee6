"""Raydium LaunchLab: events of either age, platforms by their config, creations, migrations."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from pipeline.decoders import raydium_launchlab as launchlab
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Creation, Migration, Side, Swap
from schemas.money import WSOL
from tests.support.decoding import builder

LETSBONK = "FfYek5vEz23cMkWsdJwG2oa6EphsvXSHrGpdALN4g6W1"
TOKEN_RAW, SOL_RAW = 20_261_126_631, 3_761_047
PROTOCOL, PLATFORM, CREATOR, SHARE = 9_504, 28_507, 1_900, 7
FOR_SALE, SOLD, RAISED = 793_100_000_000_000, 24_000_000_000_000, 1_410_000_000
VIRTUAL_BASE, VIRTUAL_QUOTE = 1_073_025_605_596_382, 30_000_852_951


def text(value: str) -> bytes:
    return len(value).to_bytes(4, "little") + value.encode()


def trade_event(
    *, with_creator_fee: bool, before: tuple[int, int] = (SOLD, RAISED), after: int = SOLD
) -> bytes:
    body = launchlab.TRADE_EVENT + bytes(32) + pack("<Q", FOR_SALE)
    body += pack("<6Q", VIRTUAL_BASE, VIRTUAL_QUOTE, *before, after, RAISED)
    fees = (PROTOCOL, PLATFORM, CREATOR, SHARE) if with_creator_fee else (PROTOCOL, PLATFORM, SHARE)
    body += pack("<2Q", 6, 7) + pack(f"<{len(fees)}Q", *fees)
    return body + (bytes(3) if with_creator_fee else bytes(2))


def trade(*, is_buy: bool, config: str = LETSBONK) -> Any:
    tx = builder.TransactionBuilder("trader")
    for name, mint, owner in (
        ("user_base", "mint", "trader"),
        ("user_quote", WSOL, "trader"),
        ("vault_base", "mint", "auth"),
        ("vault_quote", WSOL, "auth"),
        ("platform_fees", WSOL, "platform"),
    ):
        tx.token(name, mint, owner, 10**12)
    accounts = f"trader auth x {config} pool user_base user_quote vault_base vault_quote mint"
    tag = launchlab.BUY_EXACT_IN if is_buy else launchlab.SELL_EXACT_IN
    call = tx.call(launchlab.PROGRAM, accounts, tag + bytes(24))
    if is_buy:
        tx.transfer(call, "user_quote", "vault_quote", "trader", SOL_RAW)
        tx.transfer(call, "user_quote", "platform_fees", "trader", PLATFORM)
        tx.transfer(call, "vault_base", "user_base", "auth", TOKEN_RAW)
    else:
        tx.transfer(call, "user_base", "vault_base", "trader", TOKEN_RAW)
        tx.transfer(call, "vault_quote", "user_quote", "auth", SOL_RAW)
        tx.transfer(call, "vault_quote", "platform_fees", "auth", PLATFORM)
    return tx, call


@pytest.mark.parametrize("is_buy", [True, False])
@pytest.mark.parametrize("with_creator_fee", [True, False])
@pytest.mark.parametrize("logged", [True, False])
def test_trade(is_buy: bool, with_creator_fee: bool, logged: bool) -> None:
    tx, call = trade(is_buy=is_buy)
    (tx.log_event if logged else tx.cpi_event)(call, trade_event(with_creator_fee=with_creator_fee))
    info = tx.info()
    decoded = decode_update(info, 1, 2)
    assert not decoded.undecoded
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    assert swap.side is (Side.BUY if is_buy else Side.SELL)
    assert swap.amount_raw == TOKEN_RAW
    assert swap.quote_amount_raw == (SOL_RAW if is_buy else SOL_RAW + PLATFORM)
    assert swap.wallet_quote_amount_raw == (SOL_RAW + PLATFORM if is_buy else SOL_RAW)
    fee = PROTOCOL + PLATFORM + SHARE + (CREATOR if with_creator_fee else 0)
    assert (swap.pool_fee_raw, swap.pool_fee_mint) == (fee, WSOL)
    assert (swap.reserve_raw, swap.quote_reserve_raw) == (FOR_SALE - SOLD, RAISED)
    assert (swap.for_sale_raw, swap.migration_quote_raw) == (FOR_SALE, None)
    assert (swap.platform, swap.pool) == ("letsbonk", builder.address("pool"))
    transaction = Transaction(info, 1, 2, PROGRAMS)
    assert differences(transaction, list(read(transaction, []))) == []


@pytest.mark.parametrize("is_buy", [True, False])
def test_virtual_reserves_are_given_where_their_product_is_constant(is_buy: bool) -> None:
    quote, base = VIRTUAL_QUOTE + RAISED, VIRTUAL_BASE - SOLD
    quote_before = quote - SOL_RAW if is_buy else quote + SOL_RAW
    base_before = -(-quote * base // quote_before)  # whoever trades loses what is rounded
    before = (VIRTUAL_BASE - base_before, quote_before - VIRTUAL_QUOTE)
    linear = (before[0] - 10**6, before[1])
    for sold_and_raised, expected in ((before, (base, quote)), (linear, (None, None))):
        tx, call = trade(is_buy=is_buy)
        tx.cpi_event(call, trade_event(with_creator_fee=True, before=sold_and_raised))
        (swap,) = decode_update(tx.info(), 1, 2).events
        assert isinstance(swap, Swap)
        assert (swap.virtual_reserve_raw, swap.virtual_quote_reserve_raw) == expected


def test_more_sold_than_was_for_sale_leaves_no_reserve() -> None:
    tx, call = trade(is_buy=True)
    tx.cpi_event(call, trade_event(with_creator_fee=True, after=FOR_SALE + 1))
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert (swap.reserve_raw, swap.quote_reserve_raw) == (None, RAISED)


@pytest.mark.parametrize(
    ("tag", "token_program"),
    [
        (launchlab.INITIALIZE, 11),
        (launchlab.INITIALIZE_V2, 11),
        (launchlab.INITIALIZE_WITH_TOKEN_2022, 10),
    ],
)
@pytest.mark.parametrize(
    ("config", "platform"), [(LETSBONK, "letsbonk"), ("somebody", "raydium-launchlab")]
)
def test_creation(tag: bytes, token_program: int, config: str, platform: str) -> None:
    tx = builder.TransactionBuilder("payer")
    names = ["payer", "creator", "2", config, "4", "pool", "mint", WSOL, "8", "9", "10", "11"]
    names[token_program] = builder.TOKEN_2022
    data = tag + b"\6" + text("Name") + text("NM") + text("https://uri")
    tx.call(launchlab.PROGRAM, names, data + b"\0" + pack("<4QB", 10**15, 2, 3, 4, 1) + bytes(24))
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    (created,) = decoded.events
    assert isinstance(created, Creation)
    assert (created.name, created.symbol, created.uri) == ("Name", "NM", "https://uri")
    assert (created.decimals, created.supply_raw) == (6, 10**15)
    assert (created.mint, created.pool) == (builder.address("mint"), builder.address("pool"))
    assert created.creator == builder.address("creator")
    assert (created.platform, created.quote_mint) == (platform, WSOL)
    assert created.token_program == builder.TOKEN_2022


@pytest.mark.parametrize("to_cpmm", [True, False])
def test_migration(to_cpmm: bool) -> None:
    tx = builder.TransactionBuilder("payer")
    for name, mint, owner in (
        ("base", "mint", "auth"),
        ("quote", WSOL, "auth"),
        ("pool_base", "mint", "pool"),
        ("pool_quote", WSOL, "pool"),
    ):
        tx.token(name, mint, owner, 10**9)
    names = [f"x{place}" for place in range(32)]
    names[1], names[2] = "mint", WSOL
    if to_cpmm:
        names[3], names[5], names[8], names[9], names[18] = (
            LETSBONK,
            "pool",
            "pool_base",
            "pool_quote",
            "curve",
        )
    else:
        names[13], names[17], names[18], names[23] = "pool", "pool_base", "pool_quote", "curve"
    tag = launchlab.MIGRATE_TO_CPSWAP if to_cpmm else launchlab.MIGRATE_TO_AMM
    call = tx.call(launchlab.PROGRAM, names, tag)
    inner = tx.call("amm", "x", b"initialize", under=call)
    tx.transfer(inner, "base", "pool_base", "auth", 20_000)
    tx.transfer(inner, "quote", "pool_quote", "auth", 85_000)
    (migration,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(migration, Migration)
    assert (migration.mint, migration.quote_mint) == (builder.address("mint"), WSOL)
    assert migration.dex == ("raydium-cpmm" if to_cpmm else "raydium-amm-v4")
    assert migration.platform == ("letsbonk" if to_cpmm else "raydium-launchlab")
    assert (migration.from_pool, migration.pool) == (
        builder.address("curve"),
        builder.address("pool"),
    )
    assert (migration.amount_raw, migration.quote_amount_raw) == (20_000, 85_000)
