"""Orca Wavebreak: what is bought is minted, what is sold is burnt."""

from __future__ import annotations

import pytest

from pipeline.decoders import orca_wavebreak as wavebreak
from pipeline.decoding.reading import decode_update
from schemas.events import Creation, Migration, Side, Swap
from schemas.money import USDC
from tests.support.decoding import builder

TOKEN_RAW, QUOTE_RAW = 9_000_000, 2_500_000


def text(value: str) -> bytes:
    return len(value).to_bytes(4, "little") + value.encode()


@pytest.mark.parametrize("is_buy", [True, False])
def test_trade(is_buy: bool) -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("user_tokens", "mint", "trader", TOKEN_RAW)
    tx.token("user_quote", USDC, "trader", QUOTE_RAW)
    tx.token("vault", USDC, "curve", QUOTE_RAW)
    tx.token("thanks", "mint", "somebody")
    tag = wavebreak.BUY_EXACT_IN if is_buy else wavebreak.SELL_EXACT_IN
    accounts = ["trader", "curve", "mint", "user_tokens", USDC, "vault", "user_quote"]
    call = tx.call(wavebreak.PROGRAM, accounts, tag + bytes(10))
    if is_buy:
        tx.transfer(call, "user_quote", "vault", "trader", QUOTE_RAW)
        tx.mint_to(call, "mint", "user_tokens", TOKEN_RAW)
    else:
        data = b"\x08" + TOKEN_RAW.to_bytes(8, "little")
        tx.call(builder.TOKEN, "user_tokens mint trader", data, under=call)
        tx.transfer(call, "vault", "user_quote", "curve", QUOTE_RAW)
        tx.transfer(call, "user_tokens", "thanks", "trader", 5)  # is none of the sale
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.side is (Side.BUY if is_buy else Side.SELL)
    assert (swap.mint, swap.quote_mint) == (builder.address("mint"), USDC)
    assert (swap.amount_raw, swap.quote_amount_raw) == (TOKEN_RAW, QUOTE_RAW)
    assert (swap.pool, swap.platform) == (builder.address("curve"), "orca-wavebreak")
    assert swap.wallet == builder.address("trader")


def test_creation() -> None:
    tx = builder.TransactionBuilder("creator")
    names = ["creator", "curve", "mint", USDC, *"4567", builder.TOKEN_2022]
    data = wavebreak.CREATE_LAUNCH + text("Name") + text("NM") + text("https://uri")
    tx.call(wavebreak.PROGRAM, names, data)
    (created,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(created, Creation)
    assert (created.name, created.pool) == ("Name", builder.address("curve"))
    assert (created.quote_mint, created.platform) == (USDC, "orca-wavebreak")
    assert (created.mint, created.creator) == (builder.address("mint"), builder.address("creator"))
    assert created.token_program == builder.TOKEN_2022


def test_graduation() -> None:
    tx = builder.TransactionBuilder("anyone")
    tx.token("vault", USDC, "curve", QUOTE_RAW)
    tx.token("pool_quote", USDC, "whirlpool")
    names = ["0", "1", "curve", USDC, "vault", "5", "6", "pool_quote", "mint", "9", "10"]
    names += ["pool_tokens", "12", "13", "whirlpool"]
    call = tx.call(wavebreak.PROGRAM, names, wavebreak.GRADUATE_WHIRLPOOL)
    inner = tx.call("whirlpools", "x", b"increase", under=call)
    tx.transfer(inner, "vault", "pool_quote", "curve", QUOTE_RAW)
    (migration,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(migration, Migration)
    assert (migration.dex, migration.pool) == ("orca-whirlpool", builder.address("whirlpool"))
    assert (migration.mint, migration.quote_amount_raw) == (builder.address("mint"), QUOTE_RAW)
    assert (migration.from_pool, migration.quote_mint) == (builder.address("curve"), USDC)
