"""Moonit: lamports of a curve's own account, in a logged event."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from pipeline.decoders import moonit
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Creation, Migration, Side, Swap
from schemas.money import WSOL
from tests.support.decoding import builder

ACCOUNTS = "trader user_tokens curve vault dex helio mint config tokens ata system"
TOKEN_RAW, SOL_RAW, DEX_FEE, HELIO_FEE = 7_000_000_000_000, 1_752_300_000, 8_761_500, 8_761_400
FEE = DEX_FEE + HELIO_FEE


def text(value: str) -> bytes:
    return len(value).to_bytes(4, "little") + value.encode()


def trade(*, is_buy: bool) -> Any:
    tx = builder.TransactionBuilder("trader")
    tx.mint("mint", decimals=9)
    tx.token("vault", "mint", "curve", 10 * TOKEN_RAW)
    tx.token("user_tokens", "mint", "trader", 3 * TOKEN_RAW)
    call = tx.call(moonit.PROGRAM, ACCOUNTS, (moonit.BUY if is_buy else moonit.SELL) + bytes(25))
    if is_buy:
        tx.transfer(call, "vault", "user_tokens", "curve", TOKEN_RAW)
        for destination, lamports in (("curve", SOL_RAW), ("dex", DEX_FEE), ("helio", HELIO_FEE)):
            tx.send(call, "trader", destination, lamports)
    else:
        tx.transfer(call, "user_tokens", "vault", "trader", TOKEN_RAW)
        tx.gain("curve", -SOL_RAW)
        tx.gain("trader", SOL_RAW - FEE)
    body = moonit.TRADE_EVENT + pack("<5Q", TOKEN_RAW, SOL_RAW, DEX_FEE, HELIO_FEE, 1)
    tx.log_event(call, body + bytes(96) + bytes([not is_buy]) + text("trade"))
    return tx


@pytest.mark.parametrize(("is_buy", "logs"), [(True, True), (True, False), (False, True)])
def test_trade(is_buy: bool, logs: bool) -> None:
    """A purchase is recognized by what its buyer sent even where the log is cut."""
    info = trade(is_buy=is_buy).info(logs=logs)
    decoded = decode_update(info, 1, 2)
    assert not decoded.undecoded
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    assert swap.side is (Side.BUY if is_buy else Side.SELL)
    assert (swap.amount_raw, swap.quote_amount_raw) == (TOKEN_RAW, SOL_RAW)
    assert swap.wallet_quote_amount_raw == SOL_RAW + (FEE if is_buy else -FEE)
    assert (swap.pool_fee_raw, swap.pool_fee_mint) == (FEE, WSOL)
    assert (swap.pool, swap.wallet) == (builder.address("curve"), builder.address("trader"))
    assert (swap.platform, swap.decimals) == ("moonit", 9)
    tx = Transaction(info, 1, 2, PROGRAMS)
    assert differences(tx, list(read(tx, []))) == []


def test_a_sale_without_its_event_is_refused() -> None:
    decoded = decode_update(trade(is_buy=False).info(logs=False), 1, 2)
    assert not decoded.events
    assert "no TradeEvent" in decoded.undecoded[0].detail


def test_creation() -> None:
    tx = builder.TransactionBuilder("creator")
    names = ["creator", "backend", "curve", "mint", "5", "6", "7", builder.TOKEN]
    data = text("Game") + text("$GME") + text("https://uri") + bytes([9, 0])
    tx.call(moonit.PROGRAM, names, moonit.TOKEN_MINT + data + pack("<QBB", 10**18, 1, 0))
    (created,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(created, Creation)
    assert (created.name, created.symbol, created.uri) == ("Game", "$GME", "https://uri")
    assert (created.decimals, created.supply_raw) == (9, 10**18)
    assert (created.platform, created.token_program) == ("moonit", builder.TOKEN)
    assert created.creator == builder.address("creator")


def test_migration() -> None:
    tx = builder.TransactionBuilder("backend")
    call = tx.call(moonit.PROGRAM, "backend migrator curve vault x mint", moonit.MIGRATE_FUNDS)
    tx.log_event(call, moonit.MIGRATION_EVENT + pack("<4Q", 11, 12, 13, 14) + text("migration"))
    (migration,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(migration, Migration)
    assert (migration.amount_raw, migration.quote_amount_raw) == (11, 13)
    assert migration.from_pool == builder.address("curve")
    assert (migration.dex, migration.pool) == ("", "")
