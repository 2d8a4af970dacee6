"""Virtuals: tokens against VIRTUAL, a fee to the platform, launch and migration."""

from __future__ import annotations

import pytest

from pipeline.decoders import virtuals
from pipeline.decoding.reading import decode_update
from schemas.events import Creation, Migration, Side, Swap
from tests.support.decoding import builder

TOKEN_RAW, VIRTUAL_RAW, FEE = 9_000_000, 2_500_000, 25_000


def text(value: str) -> bytes:
    return len(value).to_bytes(4, "little") + value.encode()


@pytest.mark.parametrize("is_buy", [True, False])
def test_platform_fee(is_buy: bool) -> None:
    tx = builder.TransactionBuilder("trader")
    for name, mint, owner in (
        ("user_virtual", "virtual", "trader"),
        ("user_tokens", "mint", "trader"),
        ("token_vault", "mint", "pool"),
        ("fees", "virtual", "platform"),
        ("virtual_vault", "virtual", "pool"),
    ):
        tx.token(name, mint, owner, 10**9)
    accounts = "trader pool mint user_virtual user_tokens token_vault platform fees virtual_vault"
    call = tx.call(virtuals.PROGRAM, accounts, virtuals.BUY if is_buy else virtuals.SELL)
    if is_buy:
        tx.transfer(call, "user_virtual", "virtual_vault", "trader", VIRTUAL_RAW)
        tx.transfer(call, "user_virtual", "fees", "trader", FEE)
        tx.transfer(call, "token_vault", "user_tokens", "pool", TOKEN_RAW)
    else:
        tx.transfer(call, "user_tokens", "token_vault", "trader", TOKEN_RAW)
        tx.transfer(call, "virtual_vault", "user_virtual", "pool", VIRTUAL_RAW)
        tx.transfer(call, "virtual_vault", "fees", "pool", FEE)
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.side is (Side.BUY if is_buy else Side.SELL)
    assert (swap.mint, swap.quote_mint) == (builder.address("mint"), builder.address("virtual"))
    assert swap.amount_raw == TOKEN_RAW
    assert swap.quote_amount_raw == (VIRTUAL_RAW if is_buy else VIRTUAL_RAW + FEE)
    assert swap.wallet_quote_amount_raw == (VIRTUAL_RAW + FEE if is_buy else VIRTUAL_RAW)
    assert (swap.pool_fee_raw, swap.pool_fee_mint) == (FEE, swap.quote_mint)


def test_launch() -> None:
    tx = builder.TransactionBuilder("creator")
    tx.token("creator_virtual", "virtual", "creator", 100)
    names = ["creator", "creator_virtual", "mint", "3", "4", "pool", "6", "7", builder.TOKEN_2022]
    data = virtuals.LAUNCH + text("NM") + text("Name") + text("https://uri")
    tx.call(virtuals.PROGRAM, names, data)
    (created,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(created, Creation)
    assert (created.symbol, created.name) == ("NM", "Name")
    assert created.quote_mint == builder.address("virtual")
    assert (created.platform, created.pool) == ("virtuals", builder.address("pool"))
    assert (created.mint, created.creator) == (builder.address("mint"), builder.address("creator"))
    assert created.token_program == builder.TOKEN_2022


def test_migration() -> None:
    tx = builder.TransactionBuilder("anyone")
    tx.token("from", "mint", "curve", TOKEN_RAW)
    tx.token("into", "mint", "vault")
    names = [f"x{place}" for place in range(17)]
    names[0], names[8], names[11], names[12], names[16] = "curve", "pool", "virtual", "mint", "into"
    call = tx.call(virtuals.PROGRAM, names, virtuals.CREATE_METEORA_POOL)
    tx.transfer(tx.call("vault", "x", b"deposit", under=call), "from", "into", "curve", TOKEN_RAW)
    (migration,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(migration, Migration)
    assert (migration.dex, migration.pool) == ("meteora-damm-v1", builder.address("pool"))
    assert migration.from_pool == builder.address("curve")
    assert migration.mint == builder.address("mint")
    assert migration.quote_mint == builder.address("virtual")
    assert (migration.amount_raw, migration.quote_amount_raw) == (TOKEN_RAW, 0)
