"""Raydium CLMM: price and liquidity from its event, routes through several pools."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from pipeline.decoders.raydium_clmm import PROGRAM, SWAP_EVENT
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Side, Swap
from schemas.money import WSOL
from schemas.solana.addresses import key
from tests.support.decoding import builder, examples

SQRT_PRICE, LIQUIDITY = 3 << 64, 5 << 66
ROUTER = bytes.fromhex("457d73daf5baf2c4")


def event(pool: str, number: int = 0) -> bytes:
    body = SWAP_EVENT + key(pool) + bytes(32 + 64) + pack("<4Q?", 1, 2, 3, 4, True)
    body += (SQRT_PRICE + number).to_bytes(16, "little") + LIQUIDITY.to_bytes(16, "little")
    body += pack("<i", -7)
    assert len(body) == 205
    return body


@pytest.mark.parametrize("dex", ["raydium-clmm", "byreal", "pancakeswap"])
def test_event(dex: str) -> None:
    tx, call = examples.swap(examples.EXAMPLES[dex])
    tx.log_event(call, event(builder.address("another pool")))
    tx.log_event(call, event(builder.address("pool"), 9))
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert (swap.sqrt_price_x64, swap.liquidity) == (SQRT_PRICE + 9, LIQUIDITY)


def route(hops: int = 3) -> Any:
    """SOL to USDC to a to b, the fees of a Token-2022 mint on the way."""
    mints = [WSOL, "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", "a", "b"][: hops + 1]
    tx = builder.TransactionBuilder("trader")
    tx.mint("a", fee_bps=50)
    program = [builder.TOKEN_2022 if mint == "a" else builder.TOKEN for mint in mints]
    for place, mint in enumerate(mints):
        tx.token(f"user {place}", mint, "trader", 10_000_000, program=program[place])
        for role in ("in", "out"):
            tx.token(f"vault {role} {place}", mint, "auth", 90_000_000, program=program[place])
    accounts = ["trader", "user 0", WSOL, builder.TOKEN, builder.TOKEN_2022, "memo"]
    for place in range(hops):
        accounts += ["config", f"pool {place}", f"user {place + 1}", f"vault in {place}"]
        accounts += [f"vault out {place + 1}", mints[place + 1], "observation", "ticks", "ticks"]
    call = tx.call(PROGRAM, accounts, ROUTER + bytes(16))
    for place in range(hops):
        # each hop gets what arrived of the one before; 1000, 2000, ... by hand
        tx.transfer(call, f"user {place}", f"vault in {place}", "trader", 1_000 * (place + 1))
        tx.transfer(
            call,
            f"vault out {place + 1}",
            f"user {place + 1}",
            "auth",
            1_500 * (place + 1),
            checked=True,
        )
        tx.log_event(call, event(builder.address(f"pool {place}"), place))
    return tx


@pytest.mark.parametrize("logs", [True, False])
@pytest.mark.parametrize("heights", [True, False])
def test_route_through_pools(logs: bool, heights: bool) -> None:
    info = route().info(logs=logs, heights=heights)
    decoded = decode_update(info, 1, 2)
    assert not decoded.undecoded
    swaps = [event for event in decoded.events if isinstance(event, Swap)]
    assert [swap.pool for swap in swaps] == [builder.address(f"pool {n}") for n in range(3)]
    assert [swap.event_index for swap in swaps] == [0, 3, 5]
    expected_price = [SQRT_PRICE + n if logs else None for n in range(3)]
    assert [swap.sqrt_price_x64 for swap in swaps] == expected_price
    sol, a, b = swaps
    assert (sol.quote_mint, sol.quote_amount_raw, sol.amount_raw) == (WSOL, 1_000, 1_500)
    assert (a.side, a.quote_amount_raw, a.amount_raw) == (Side.BUY, 2_000, 3_000)
    assert a.wallet_amount_raw == 3_000 - 15
    legs = {b.mint: b.amount_raw, b.quote_mint: b.quote_amount_raw}
    assert legs == {builder.address("a"): 3_000 - 15, builder.address("b"): 4_500}
    transaction = Transaction(info, 1, 2, PROGRAMS)
    assert differences(transaction, list(read(transaction, []))) == []


@pytest.mark.parametrize("tag", [bytes(8), b"\xff" * 8], ids=["smaller tag", "greater tag"])
def test_another_event_of_the_pool_is_not_the_swaps(tag: bytes) -> None:
    other = tag + event(builder.address("pool 0"), 9)[8:]
    tx = route(hops=1)
    tx.log_event(tx.calls[0], other)
    tx.calls[0].logs.reverse()  # before the swap's own
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.sqrt_price_x64 == SQRT_PRICE


def test_a_route_with_a_transfer_missing_is_malformed() -> None:
    tx = route()
    tx.calls[0].calls.pop()
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.events
    assert "5 transfers in a route of pools" in decoded.undecoded[0].detail
