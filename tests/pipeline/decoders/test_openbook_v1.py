"""An order on OpenBook v1 and what settles it are one swap."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Side, Swap
from tests.support.decoding import builder
from tests.support.decoding.builder import address

OPENBOOK = "srmqPvymJeFKQ4zGQed1GFppgkRHL9kaELCbyksJtPX"
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
ROUTE = bytes.fromhex("e517cb977ae3ad2a")
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
LIMIT, IMMEDIATE_OR_CANCEL = 0, 1


def market() -> builder.TransactionBuilder:
    tx = builder.TransactionBuilder("trader")
    for name, mint, owner in (
        ("coin wallet", "coin", "trader"),
        ("pc wallet", USDC, "trader"),
        ("coin vault", "coin", "vault signer"),
        ("pc vault", USDC, "vault signer"),
    ):
        tx.token(name, mint, owner, 10_000)
    return tx


def order(
    tx: Any, payer: str, vault: str, raw: int, kind: int, under: Any, orders: str = "orders"
) -> None:
    data = pack("<BIIQQQIIQH", 0, 10, 0, 1, 1, 1, 0, kind, 0, 10)
    names = ["market", orders, "rq", "eq", "bids", "asks", payer, "trader", "coin vault"]
    call = tx.call(OPENBOOK, [*names, "pc vault"], data, under=under)
    tx.transfer(call, payer, vault, "trader", raw)


def settle(tx: Any, coin: int, pc: int, under: Any) -> None:
    names = ["market", "orders", "trader", "coin vault", "pc vault", "coin wallet", "pc wallet"]
    call = tx.call(OPENBOOK, [*names, "vault signer"], pack("<BI", 0, 5), under=under)
    if coin:
        tx.transfer(call, "coin vault", "coin wallet", "vault signer", coin)
    if pc:
        tx.transfer(call, "pc vault", "pc wallet", "vault signer", pc)


@pytest.mark.parametrize("routed", [True, False])
@pytest.mark.parametrize("buys", [True, False])
def test_what_was_left_over_is_not_traded(buys: bool, routed: bool) -> None:
    tx = market()
    route = tx.call(JUPITER, "x trader", ROUTE) if routed else None
    if buys:
        order(tx, "pc wallet", "pc vault", 500, IMMEDIATE_OR_CANCEL, route)
        settle(tx, 70, 20, route)
    else:
        order(tx, "coin wallet", "coin vault", 70, IMMEDIATE_OR_CANCEL, route)
        settle(tx, 10, 400, route)
    info = tx.info()
    decoded = decode_update(info, 1, 2)
    assert not decoded.undecoded
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    assert (swap.dex, swap.pool, swap.wallet) == ("openbook-v1", address("market"), tx.keys[0])
    assert swap.side is (Side.BUY if buys else Side.SELL)
    traded = (70, 480) if buys else (60, 400)
    assert (swap.amount_raw, swap.quote_amount_raw) == traded
    assert (swap.wallet_amount_raw, swap.wallet_quote_amount_raw) == traded
    assert swap.router == ("jupiter" if routed else "")
    transaction = Transaction(info, 1, 2, PROGRAMS)
    assert differences(transaction, list(read(transaction, []))) == []


def test_an_order_that_met_no_other() -> None:
    tx = market()
    order(tx, "pc wallet", "pc vault", 500, IMMEDIATE_OR_CANCEL, None)
    settle(tx, 0, 500, None)
    decoded = decode_update(tx.info(), 1, 2)
    assert (decoded.events, decoded.undecoded) == ([], [])


def test_the_least_trade_is_one_unit_for_one() -> None:
    tx = market()
    order(tx, "pc wallet", "pc vault", 500, IMMEDIATE_OR_CANCEL, None)
    settle(tx, 1, 499, None)
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert (swap.amount_raw, swap.quote_amount_raw) == (1, 1)


def test_an_order_that_may_rest_on_the_book_is_not_read() -> None:
    """What of it was filled cannot be had."""
    tx = market()
    order(tx, "pc wallet", "pc vault", 500, LIMIT, None)
    settle(tx, 70, 0, None)
    assert decode_update(tx.info(), 1, 2).events == []


@pytest.mark.parametrize("listed_first", ["orders", "others"])
def test_another_accounts_order_is_not_settled(listed_first: str) -> None:
    tx = market()
    tx.call("another program", f"market {listed_first}", b"")
    order(tx, "pc wallet", "pc vault", 500, IMMEDIATE_OR_CANCEL, None, orders="others")
    settle(tx, 70, 0, None)
    assert decode_update(tx.info(), 1, 2).events == []
