"""Orca Whirlpool: its event, and both ways to swap through two pools."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from pipeline.decoders.orca_whirlpool import PROGRAM, TRADED
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Side, Swap
from schemas.money import WSOL
from schemas.solana.addresses import key
from tests.support.decoding import builder, examples

SQRT_BEFORE, SQRT_AFTER = 1 << 64, 7 << 60
LP_FEE, PROTOCOL_FEE = 3_000, 450
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
TWO_HOP = bytes.fromhex("c360ed6c44a2dbe6")
TWO_HOP_V2 = bytes.fromhex("ba8fd11dfe02c275")


def traded(pool: str, number: int = 0) -> bytes:
    body = TRADED + key(pool) + b"\x01"
    body += SQRT_BEFORE.to_bytes(16, "little") + (SQRT_AFTER + number).to_bytes(16, "little")
    body += pack("<6Q", 1, 2, 3, 4, LP_FEE, PROTOCOL_FEE)
    assert len(body) == 121
    return body


@pytest.mark.parametrize("version", [1, 2])
def test_event(version: int) -> None:
    example = examples.EXAMPLES["orca-whirlpool"]
    if version == 2:
        accounts = "tokens tokens x trader pool x x u1 v1 u2 v2 x x x x"
        example = examples.Example(PROGRAM, examples.SWAP_V2, accounts)
    tx, call = examples.swap(example, buys=True)
    tx.log_event(call, traded(builder.address("another pool"), 5))
    tx.log_event(call, traded(builder.address("pool")))
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert (swap.amount_raw, swap.quote_amount_raw) == (examples.TOKEN_RAW, examples.USDC_RAW)
    assert swap.sqrt_price_x64 == SQRT_AFTER
    assert (swap.pool_fee_raw, swap.pool_fee_mint) == (LP_FEE + PROTOCOL_FEE, examples.USDC)


def two_pools() -> Any:
    """A token of 2 % transfer fee for USDC in pool one, USDC for SOL in pool two."""
    tx = builder.TransactionBuilder("trader")
    tx.mint("token", fee_bps=200)
    for mint, program in (
        ("token", builder.TOKEN_2022),
        (USDC, builder.TOKEN),
        (WSOL, builder.TOKEN),
    ):
        tx.token(f"user {mint}", mint, "trader", 50_000, program=program)
        for pool in ("one", "two"):
            tx.token(f"{pool} {mint}", mint, pool, 90_000, program=program)
    return tx


def assert_two_hops(info: Any, second: int) -> None:
    decoded = decode_update(info, 1, 2)
    assert not decoded.undecoded
    one, two = decoded.events
    assert isinstance(one, Swap)
    assert isinstance(two, Swap)
    assert (one.pool, two.pool) == (builder.address("one"), builder.address("two"))
    assert (one.event_index, two.event_index) == (0, second)
    assert (one.side, one.mint, one.quote_mint) == (Side.SELL, builder.address("token"), USDC)
    assert (one.amount_raw, one.wallet_amount_raw, one.quote_amount_raw) == (9_800, 10_000, 700)
    assert (two.side, two.mint, two.quote_mint) == (Side.SELL, USDC, WSOL)
    assert (two.amount_raw, two.quote_amount_raw) == (700, 4_000)
    assert one.wallet == two.wallet == builder.address("trader")
    assert (one.sqrt_price_x64, two.sqrt_price_x64) == (SQRT_AFTER + 1, SQRT_AFTER + 2)
    transaction = Transaction(info, 1, 2, PROGRAMS)
    assert differences(transaction, list(read(transaction, []))) == []


def test_two_hop_swap() -> None:
    """Pool one holds (token, USDC), pool two (SOL, USDC): the second is swapped B to A."""
    tx = two_pools()
    accounts = ["tokens", "trader", "one", "two"]
    accounts += ["user token", "one token", f"user {USDC}", f"one {USDC}"]
    accounts += [f"user {WSOL}", f"two {WSOL}", f"user {USDC}", f"two {USDC}", *["x"] * 8]
    call = tx.call(PROGRAM, accounts, TWO_HOP + bytes(51))
    tx.transfer(call, "user token", "one token", "trader", 10_000, checked=True)
    tx.transfer(call, f"one {USDC}", f"user {USDC}", "one", 700)
    tx.transfer(call, f"user {USDC}", f"two {USDC}", "trader", 700)
    tx.transfer(call, f"two {WSOL}", f"user {WSOL}", "two", 4_000)
    tx.log_event(call, traded(builder.address("one"), 1))
    tx.log_event(call, traded(builder.address("two"), 2))
    assert_two_hops(tx.info(), second=3)


@pytest.mark.parametrize("heights", [True, False])
def test_two_hop_swap_v2(heights: bool) -> None:
    """Pool one pays straight into the vault of pool two: three transfers."""
    tx = two_pools()
    accounts = ["one", "two", "token", USDC, WSOL, "tokens", "tokens", "tokens", "user token"]
    accounts += ["one token", f"one {USDC}", f"two {USDC}", f"two {WSOL}", f"user {WSOL}"]
    accounts += ["trader", *["x"] * 9]
    data = TWO_HOP_V2 + pack("<QQ???", 10_000, 1, True, True, False) + bytes(33)
    call = tx.call(PROGRAM, accounts, data)
    tx.transfer(call, "user token", "one token", "trader", 10_000, checked=True)
    tx.transfer(call, f"one {USDC}", f"two {USDC}", "one", 700, checked=True)
    tx.transfer(call, f"two {WSOL}", f"user {WSOL}", "two", 4_000, checked=True)
    tx.log_event(call, traded(builder.address("one"), 1))
    tx.log_event(call, traded(builder.address("two"), 2))
    assert_two_hops(tx.info(heights=heights), second=2)


def test_the_pools_second_side_is_the_quote() -> None:
    """Between two tokens that are no quote, side B is: the direction in the data says so."""
    tx = builder.TransactionBuilder("trader")
    for mint in ("p", "q", "r"):
        tx.token(f"user {mint}", mint, "trader", 50_000)
        for pool in ("one", "two"):
            tx.token(f"{pool} {mint}", mint, pool, 90_000)
    accounts = ["one", "two", "p", "q", "r", "tokens", "tokens", "tokens", "user p", "one p"]
    accounts += ["one q", "two q", "two r", "user r", "trader", *["x"] * 9]
    for a_to_b_one, a_to_b_two in ((True, True), (True, False), (False, True), (False, False)):
        tx.calls.clear()
        data = TWO_HOP_V2 + pack("<QQ???", 1, 1, True, a_to_b_one, a_to_b_two) + bytes(33)
        call = tx.call(PROGRAM, accounts, data)
        tx.transfer(call, "user p", "one p", "trader", 10)
        tx.transfer(call, "one q", "two q", "one", 20)
        tx.transfer(call, "two r", "user r", "two", 30)
        one, two = decode_update(tx.info(), 1, 2).events
        assert one.quote_mint == builder.address("q" if a_to_b_one else "p")
        assert two.quote_mint == builder.address("r" if a_to_b_two else "q")
