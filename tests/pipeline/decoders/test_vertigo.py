"""Vertigo: the quote is side A, and `create` has no name."""

from __future__ import annotations

from struct import pack

import pytest

from pipeline.decoders import vertigo
from pipeline.decoding.reading import decode_update
from schemas.events import Creation, Swap
from schemas.money import WSOL
from tests.support.decoding import builder, examples

RESERVE_A, RESERVE_B, FEE = 10**10, 1 << 63, 5_000


@pytest.mark.parametrize("buys", [True, False])
@pytest.mark.parametrize("logged", [True, False])
@pytest.mark.parametrize("reserve", [RESERVE_B, 1 << 70])  # u128: more than a token can have
def test_event(buys: bool, logged: bool, reserve: int) -> None:
    tx, call = examples.swap(examples.EXAMPLES["vertigo"], buys=buys)
    if not buys:
        call.data = vertigo.SELL + call.data[8:]
    body = (vertigo.BUY_EVENT if buys else vertigo.SELL_EVENT) + bytes(64) + pack("<2Q", 1, 2)
    body += RESERVE_A.to_bytes(16, "little") + reserve.to_bytes(16, "little") + pack("<Q", FEE)
    (tx.log_event if logged else tx.cpi_event)(call, body)
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    expected = reserve if reserve == RESERVE_B else None
    assert (swap.reserve_raw, swap.quote_reserve_raw) == (expected, RESERVE_A)
    assert (swap.pool_fee_raw, swap.pool_fee_mint) == (FEE, swap.quote_mint)
    assert not swap.platform  # the pool may be of any token


@pytest.mark.parametrize("tag", [0, 20])  # InitializeMint, InitializeMint2
def test_creation(tag: int) -> None:
    tx = builder.TransactionBuilder("payer")
    tx.call(builder.TOKEN, "mint", bytes([tag, 6]) + bytes(33))
    names = ["payer", "owner", "2", WSOL, "mint", "5", "pool", "7", "8", "9", builder.TOKEN]
    tx.call(vertigo.PROGRAM, names, vertigo.CREATE + bytes(60))
    (created,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(created, Creation)
    assert (created.mint, created.quote_mint) == (builder.address("mint"), WSOL)
    assert (created.name, created.creator) == ("", builder.address("owner"))
    assert (created.platform, created.token_program) == ("vertigo", builder.TOKEN)


def test_a_pool_of_a_token_that_was_there_is_no_creation() -> None:
    """Anybody can make one, of any token: it would be theirs, and on a launch platform."""
    tx = builder.TransactionBuilder("payer")
    tx.call(builder.TOKEN, "another-mint", bytes([20, 6]) + bytes(33))
    tx.call("another program", "mint", bytes([20, 6]) + bytes(33))
    names = ["payer", "owner", "2", WSOL, "mint", "5", "pool", "7", "8", "9", builder.TOKEN]
    tx.call(vertigo.PROGRAM, names, vertigo.CREATE + bytes(60))
    decoded = decode_update(tx.info(), 1, 2)
    assert (decoded.events, decoded.undecoded) == ([], [])
