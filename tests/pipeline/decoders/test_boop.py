"""Boop: System transfers both ways, tokens created and deployed in two steps."""

from __future__ import annotations

from struct import pack

import pytest

from pipeline.decoders import boop
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Creation, Migration, Side, Swap
from schemas.money import WSOL
from schemas.solana.addresses import key
from tests.support.decoding import builder

TOKEN_RAW, SOL_RAW, FEE = 33_076_589_599, 990_000, 9_000


def text(value: str) -> bytes:
    return len(value).to_bytes(4, "little") + value.encode()


@pytest.mark.parametrize("is_buy", [True, False])
def test_trade(is_buy: bool) -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("vault", "mint", "authority", 10 * TOKEN_RAW)
    tx.token("user_tokens", "mint", "trader", 3 * TOKEN_RAW)
    accounts = "mint curve fees vault sol_vault user_tokens trader x x"
    call = tx.call(boop.PROGRAM, accounts, boop.BUY_TOKEN if is_buy else boop.SELL_TOKEN)
    if is_buy:
        tx.transfer(call, "vault", "user_tokens", "authority", TOKEN_RAW)
        tx.send(call, "trader", "sol_vault", SOL_RAW)
        tx.send(call, "trader", "fees", FEE)
    else:
        tx.transfer(call, "user_tokens", "vault", "trader", TOKEN_RAW)
        tx.send(call, "sol_vault", "trader", SOL_RAW - FEE)
        tx.send(call, "sol_vault", "fees", FEE)
    info = tx.info(logs=False)
    (swap,) = decode_update(info, 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.side is (Side.BUY if is_buy else Side.SELL)
    assert (swap.amount_raw, swap.quote_amount_raw) == (TOKEN_RAW, SOL_RAW)
    assert swap.wallet_quote_amount_raw == SOL_RAW + (FEE if is_buy else -FEE)
    assert (swap.pool_fee_raw, swap.pool_fee_mint) == (FEE, WSOL)
    assert (swap.pool, swap.platform) == (builder.address("curve"), "boop")
    transaction = Transaction(info, 1, 2, PROGRAMS)
    assert differences(transaction, list(read(transaction, []))) == []


def test_a_trade_that_moved_nothing_is_refused() -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("vault", "mint", "authority", TOKEN_RAW)
    tx.call(boop.PROGRAM, "mint curve fees vault sol_vault user_tokens trader", boop.BUY_TOKEN)
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.events
    assert len(decoded.undecoded) == 1


def test_a_sale_of_so_little_that_the_curve_pays_nothing_is_a_trade() -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("vault", "mint", "authority", TOKEN_RAW)
    tx.token("user_tokens", "mint", "trader", 3)
    accounts = "mint curve fees vault sol_vault user_tokens trader x x"
    call = tx.call(boop.PROGRAM, accounts, boop.SELL_TOKEN)
    tx.transfer(call, "user_tokens", "vault", "trader", 3)
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    assert (swap.side, swap.amount_raw, swap.quote_amount_raw) == (Side.SELL, 3, 0)


@pytest.mark.parametrize("deployed", [True, False])
def test_creation(deployed: bool) -> None:
    tx = builder.TransactionBuilder("payer")
    names = text("Name") + text("NM") + text("https://uri")
    tx.call(boop.PROGRAM, "config x mint payer", boop.CREATE_TOKEN + pack("<Q", 77) + names)
    if deployed:
        tx.token("vault", "mint", "authority")
        data = boop.DEPLOY_BONDING_CURVE + key(builder.address("creator")) + pack("<Q", 77)
        call = tx.call(boop.PROGRAM, "mint authority curve sol_vault vault", data)
        tx.mint_to(call, "mint", "vault", 10**18)
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    (created,) = decoded.events
    assert isinstance(created, Creation)
    assert (created.name, created.symbol, created.uri) == ("Name", "NM", "https://uri")
    assert created.mint == builder.address("mint")
    assert created.creator == builder.address("creator" if deployed else "payer")
    assert created.pool == (builder.address("curve") if deployed else "")
    assert created.supply_raw == (10**18 if deployed else None)


def migration_to(
    venue: str, sol_first: bool
) -> tuple[builder.TransactionBuilder, list[str], list[str]]:
    """Return a transaction with the accounts of curve and pool; mints and vaults in their order."""
    tx = builder.TransactionBuilder("operator")
    tx.token("curve_tokens", "mint", "authority", TOKEN_RAW)
    tx.token("curve_sol", WSOL, "authority", SOL_RAW)
    tx.token("pool_tokens", "mint", venue)
    tx.token("pool_sol", WSOL, venue)
    mints, vaults = [WSOL, "mint"], ["pool_sol", "pool_tokens"]
    if not sol_first:
        mints.reverse()
        vaults.reverse()
    return tx, mints, vaults


@pytest.mark.parametrize("sol_first", [True, False])
def test_migration_to_raydium(sol_first: bool) -> None:
    tx, mints, vaults = migration_to("raydium", sol_first)
    accounts = ["0", "1", "2", "pool", *mints, "6", "7", "curve", "9", "10", "11", *vaults]
    call = tx.call(boop.PROGRAM, accounts, boop.CREATE_RAYDIUM_POOL)
    inner = tx.call("raydium", "x", b"initialize", under=call)
    tx.transfer(inner, "curve_tokens", "pool_tokens", "authority", TOKEN_RAW)
    tx.transfer(inner, "curve_sol", "pool_sol", "authority", SOL_RAW)
    (migration,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(migration, Migration)
    assert (migration.mint, migration.quote_mint) == (builder.address("mint"), WSOL)
    assert (migration.dex, migration.pool) == ("raydium-cpmm", builder.address("pool"))
    assert (migration.amount_raw, migration.quote_amount_raw) == (TOKEN_RAW, SOL_RAW)
    assert migration.from_pool == builder.address("curve")


@pytest.mark.parametrize("sol_first", [True, False])
def test_migration_to_meteora(sol_first: bool) -> None:
    tx, mints, vaults = migration_to("meteora", sol_first)
    accounts = [*"01234", "pool", *"678", *mints, *vaults, "curve"]
    call = tx.call(boop.PROGRAM, accounts, boop.CREATE_METEORA_POOL)
    inner = tx.call("meteora", "x", b"initialize", under=call)
    tx.transfer(inner, "curve_tokens", "pool_tokens", "authority", TOKEN_RAW)
    tx.transfer(inner, "curve_sol", "pool_sol", "authority", SOL_RAW)
    (migration,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(migration, Migration)
    assert (migration.mint, migration.quote_mint) == (builder.address("mint"), WSOL)
    assert (migration.dex, migration.pool) == ("meteora-damm-v2", builder.address("pool"))
    assert (migration.amount_raw, migration.quote_amount_raw) == (TOKEN_RAW, SOL_RAW)
    assert migration.from_pool == builder.address("curve")
