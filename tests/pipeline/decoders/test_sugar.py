"""Sugar: System transfers both ways, and a creation in two forms."""

from __future__ import annotations

import pytest

from pipeline.decoders import sugar
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Creation, Migration, Side, Swap
from schemas.money import WSOL
from tests.support.decoding import builder

TOKEN_RAW, SOL_RAW, FEE = 44_000_000_000, 1_500_000, 15_000


def text(value: str) -> bytes:
    return len(value).to_bytes(4, "little") + value.encode()


@pytest.mark.parametrize("is_buy", [True, False])
def test_trade(is_buy: bool) -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("vault", "mint", "curve", 10 * TOKEN_RAW)
    tx.token("user_tokens", "mint", "trader", 3 * TOKEN_RAW)
    accounts = "state mint curve curve_sol vault user_tokens trader trader fees"
    tag = sugar.BUY_MAX_OUT if is_buy else sugar.SELL_EXACT_IN
    call = tx.call(sugar.PROGRAM, accounts, tag + bytes(18))
    if is_buy:
        tx.send(call, "trader", "curve_sol", SOL_RAW)
        tx.send(call, "trader", "fees", FEE)
        tx.transfer(call, "vault", "user_tokens", "curve", TOKEN_RAW)
    else:
        tx.transfer(call, "user_tokens", "vault", "trader", TOKEN_RAW)
        tx.send(call, "curve_sol", "trader", SOL_RAW - FEE)
        tx.send(call, "curve_sol", "fees", FEE)
    info = tx.info(logs=False)
    (swap,) = decode_update(info, 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.side is (Side.BUY if is_buy else Side.SELL)
    assert (swap.amount_raw, swap.quote_amount_raw) == (TOKEN_RAW, SOL_RAW)
    assert swap.wallet_quote_amount_raw == SOL_RAW + (FEE if is_buy else -FEE)
    assert (swap.pool_fee_raw, swap.pool_fee_mint) == (FEE, WSOL)
    assert (swap.pool, swap.platform) == (builder.address("curve"), "sugar")
    transaction = Transaction(info, 1, 2, PROGRAMS)
    assert differences(transaction, list(read(transaction, []))) == []


@pytest.mark.parametrize("newer", [True, False])
@pytest.mark.parametrize("minted", [True, False])
def test_creation(newer: bool, minted: bool) -> None:
    tx = builder.TransactionBuilder("creator")
    if newer:
        names = ["0", "curve", "mint", "3", "4", "creator", builder.TOKEN_2022, *"789ab"]
    else:
        names = ["0", "metadata", "curve", "mint", "4", "5", "creator", *"789abcdef"]
    data = sugar.CREATE + text("Name") + text("NM") + text("https://uri") + b"\0"
    call = tx.call(sugar.PROGRAM, names, data)
    if minted:
        program = builder.TOKEN_2022 if newer else builder.TOKEN
        tx.token("vault", "mint", "curve", program=program)
        tx.mint_to(call, "mint", "vault", 10**15)
    (created,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(created, Creation)
    assert (created.name, created.symbol) == ("Name", "NM")
    assert created.mint == builder.address("mint")
    assert created.pool == builder.address("curve")
    assert created.creator == builder.address("creator")
    assert created.supply_raw == (10**15 if minted else None)
    assert created.token_program == (builder.TOKEN_2022 if newer else builder.TOKEN)


def test_migration() -> None:
    tx = builder.TransactionBuilder("migrator")
    tx.token("from", "mint", "curve", TOKEN_RAW)
    tx.token("pool_tokens", "mint", "pool")
    names = ["state", "mint", "psol", "curve", *(f"x{n}" for n in range(4, 15)), "pool"]
    names += ["psol", "mint", *(f"x{n}" for n in range(18, 22)), "pool_psol", "pool_tokens"]
    call = tx.call(sugar.PROGRAM, names, sugar.MIGRATE_TO_RAYDIUM)
    inner = tx.call("raydium", "x", b"initialize", under=call)
    tx.transfer(inner, "from", "pool_tokens", "curve", TOKEN_RAW)
    (migration,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(migration, Migration)
    assert migration.quote_mint == builder.address("psol")
    assert (migration.pool, migration.amount_raw) == (builder.address("pool"), TOKEN_RAW)
