"""Heaven: a token, its pool and a first purchase in one instruction."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from pipeline.decoders import heaven
from pipeline.decoding.reading import decode_update
from schemas.events import Creation, Side, Swap
from schemas.money import WSOL
from schemas.solana.addresses import key
from tests.support.decoding import builder, examples

METAPLEX = "metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s"
TOKEN_RAW, SOL_RAW, FEE, RESERVE = 583_297_520_078, 13_076_171, 196_141, 85_653_015_592_490_641


def text(value: str) -> bytes:
    return len(value).to_bytes(4, "little") + value.encode()


NAMES = text("Name") + text("NM") + text("https://uri")
WRITTEN = {
    "token-2022": (builder.TOKEN_2022, bytes.fromhex("d2e11ea258b84d8d"), 2),
    "metaplex create": (METAPLEX, b"\x2a\x00", 2),
    "metaplex v3": (METAPLEX, b"\x21", 1),
}


def trade_event() -> bytes:
    return heaven.TRADE_EVENT + pack("<4Q", RESERVE, 2, 3, FEE) + bytes(40)


def test_trade_event() -> None:
    for buys in (True, False):
        tx, call = examples.swap(examples.EXAMPLES["heaven"], buys=buys)
        tx.log_event(call, trade_event())
        (swap,) = decode_update(tx.info(), 1, 2).events
        assert isinstance(swap, Swap)
        assert (swap.pool_fee_raw, swap.pool_fee_mint) == (FEE, swap.quote_mint)
        assert (swap.reserve_raw, swap.quote_reserve_raw) == (RESERVE, None)
        assert swap.platform == "heaven"


def create(*, written: str | None, bought: bool) -> Any:
    tx = builder.TransactionBuilder("user")
    tx.mint("mint", decimals=9)
    for name, mint, owner, amount in (
        ("user_tokens", "mint", "user", 0),
        ("user_sol", WSOL, "user", SOL_RAW),
        ("vault", "mint", "pool", 0),
        ("sol_vault", WSOL, "pool", 0),
    ):
        tx.token(name, mint, owner, amount)
    accounts = ["0", "1", "2", "user", "payer", "mint", WSOL, "user_tokens", "vault", "sol_vault"]
    accounts += ["pool", "config", builder.TOKEN_2022]
    call = tx.call(heaven.PROGRAM, accounts, heaven.CREATE_POOL + bytes(22))
    tx.mint_to(call, "mint", "vault", 10**18)
    if written is not None:
        program, tag, place = WRITTEN[written]
        for mint in ("another mint", "mint"):
            names = ["x0", "x1", "x2"]
            names[place] = mint
            body = NAMES if mint == "mint" else text("no") * 3
            tx.call(program, names, tag + body, under=call)
    if bought:
        tx.transfer(call, "user_sol", "sol_vault", "user", SOL_RAW)
        tx.transfer(call, "vault", "user_tokens", "pool", TOKEN_RAW)
        tx.log_event(call, trade_event())
    body = heaven.POOL_EVENT + bytes(64) + key(builder.address("creator")) + bytes(50)
    tx.log_event(call, body)
    return tx


@pytest.mark.parametrize("written", [*WRITTEN, None])
def test_creation(written: str | None) -> None:
    decoded = decode_update(create(written=written, bought=False).info(), 1, 2)
    assert not decoded.undecoded
    (created,) = decoded.events
    assert isinstance(created, Creation)
    names = (created.name, created.symbol, created.uri)
    assert names == (("Name", "NM", "https://uri") if written else ("", "", ""))
    assert created.creator == builder.address("creator")
    assert (created.supply_raw, created.decimals) == (10**18, 9)
    assert (created.platform, created.pool) == ("heaven", builder.address("pool"))
    assert (created.quote_mint, created.token_program) == (WSOL, builder.TOKEN_2022)


def test_first_purchase() -> None:
    decoded = decode_update(create(written=None, bought=True).info(), 1, 2)
    created, swap = decoded.events
    assert isinstance(created, Creation)
    assert isinstance(swap, Swap)
    assert created.event_index < swap.event_index
    assert swap.side is Side.BUY
    assert (swap.amount_raw, swap.quote_amount_raw) == (TOKEN_RAW, SOL_RAW)
    assert (swap.pool, swap.wallet) == (created.pool, builder.address("user"))
