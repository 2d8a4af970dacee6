"""A request for quote is a taker's swap with a maker."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.decoding.reading import Reason, decode_update
from pipeline.domain.holders import MAKERS
from schemas.events import Side, Swap
from schemas.money import WSOL
from schemas.solana.addresses import key
from tests.support.decoding import builder
from tests.support.decoding.builder import address

PROGRAM = "61DFfeTKM7trxYcPQCM78bJ794ddZprZpAwAnLiwTpYH"
FILL = bytes.fromhex("a860b7a35c0a28a0")
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


def fill(first: str, second: str) -> tuple[builder.TransactionBuilder, Any]:
    """A taker's `first` for a maker's `second`; no token has moved yet."""
    tx = builder.TransactionBuilder("maker", "taker")
    for who in ("taker", "maker"):
        tx.token(f"{who} in", first, who, 10**6)
        tx.token(f"{who} out", second, who, 10**6)
    accounts = ["taker", "maker", "taker in", "maker in", "taker out", "maker out", first, "t"]
    return tx, tx.call(PROGRAM, [*accounts, second, "t"], FILL + bytes(24))


@pytest.mark.parametrize("sells", [True, False])
def test_a_taker_swaps_with_a_maker(sells: bool) -> None:
    first, second = ("coin", USDC) if sells else (USDC, "coin")
    tx, call = fill(first, second)
    tx.transfer(call, "taker in", "maker in", "taker", 300)
    tx.transfer(call, "maker out", "taker out", "maker", 500)
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    assert (swap.wallet, swap.pool) == (address("taker"), address("maker"))
    assert swap.dex in MAKERS
    assert (swap.side, swap.mint) == (Side.SELL if sells else Side.BUY, address("coin"))
    assert {swap.amount_raw, swap.quote_amount_raw} == {300, 500}
    assert swap.amount_raw == (300 if sells else 500)
    # The maker's side is a movement, not another swap.
    ((wallet, received, sent),) = [
        (each.wallet, each.received_raw, each.sent_raw) for each in decoded.movements
    ]
    assert (wallet, received, sent) == (address("maker"), *((300, 0) if sells else (0, 500)))


def test_a_taker_may_be_paid_in_native_sol() -> None:
    tx, call = fill("coin", WSOL)
    tx.token("unwrapped", WSOL, "maker", recorded=False)
    tx.transfer(call, "taker in", "maker in", "taker", 300)
    opened = b"\x12" + key(address("maker"))
    tx.call(builder.TOKEN, ["unwrapped", WSOL], opened, under=call)
    tx.transfer(call, "maker out", "unwrapped", "maker", 500)
    tx.call(builder.TOKEN, "unwrapped maker maker", b"\x09", under=call)
    tx.send(call, "maker", "taker", 500)
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert (swap.wallet, swap.amount_raw, swap.quote_amount_raw) == (address("taker"), 300, 500)


def test_a_fill_that_moved_one_side_is_malformed() -> None:
    tx, call = fill("coin", USDC)
    tx.transfer(call, "taker in", "maker in", "taker", 300)
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.events
    assert [miss.reason for miss in decoded.undecoded] == [Reason.MALFORMED]
