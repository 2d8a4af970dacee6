"""JLP is bought and sold for one token of its pool."""

from __future__ import annotations

from hashlib import sha256

import pytest

from pipeline.decoding.decode import decode_update
from schemas.events import Side, Swap
from tests.support.decoding import builder
from tests.support.decoding.builder import address

PROGRAM = "PERPHjGBqRHArX4DySjwM6UJHiR3sWAatqfdBS2qQJu"
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
ROUTE = bytes.fromhex("e517cb977ae3ad2a")
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
ACCOUNTS = "trader dollars jlp authority perpetuals pool custody"


def tag(name: str) -> bytes:
    return sha256(f"global:{name}".encode()).digest()[:8]


@pytest.mark.parametrize("routed", [True, False])
@pytest.mark.parametrize("adds", [True, False])
def test_jlp_is_bought_and_sold(adds: bool, routed: bool) -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("dollars", USDC, "trader", 10_000)
    tx.token("jlp", "jlp mint", "trader", 10_000)
    tx.token("vault", USDC, "authority", 10_000)
    route = tx.call(JUPITER, "x trader dollars", ROUTE) if routed else None
    name = "add_liquidity2" if adds else "remove_liquidity2"
    call = tx.call(PROGRAM, ACCOUNTS, tag(name) + bytes(16), under=route)
    if adds:
        tx.transfer(call, "dollars", "vault", "trader", 500)
        tx.mint_to(call, "jlp mint", "jlp", 120)
    else:
        tx.burn(call, "jlp mint", "jlp", "trader", 120)
        tx.transfer(call, "vault", "dollars", "authority", 500)
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    assert (swap.dex, swap.pool, swap.wallet) == ("jupiter-perps", address("pool"), tx.keys[0])
    assert (swap.side, swap.mint) == (Side.BUY if adds else Side.SELL, address("jlp mint"))
    assert (swap.amount_raw, swap.quote_amount_raw) == (120, 500)
    assert swap.router == ("jupiter" if routed else "")


def test_a_position_is_no_swap() -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("dollars", USDC, "trader", 10_000)
    tx.token("vault", USDC, "authority", 10_000)
    call = tx.call(PROGRAM, ACCOUNTS, tag("instant_increase_position") + bytes(16))
    tx.transfer(call, "dollars", "vault", "trader", 500)
    decoded = decode_update(tx.info(), 1, 2)
    assert (decoded.events, decoded.undecoded) == ([], [])
