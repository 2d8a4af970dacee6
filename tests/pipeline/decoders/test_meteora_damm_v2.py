"""Meteora DAMM v2: the event of either age, and on which side it took its fee."""

from __future__ import annotations

from struct import pack

import pytest

from pipeline.decoders.meteora_damm_v2 import SWAP2_EVENT, SWAP_EVENT
from pipeline.decoding.reading import decode_update
from schemas.events import Swap
from tests.support.decoding import examples

DEX = "meteora-damm-v2"
SQRT_PRICE = 9 << 62
FEES = (1_000, 200, 30, 4)
RESERVE_A, RESERVE_B = 777_000, 888_000


def swap_event(*, a_to_b: bool) -> bytes:
    body = SWAP_EVENT + bytes(32) + pack("<B?QQQ", not a_to_b, False, 1, 2, 3)
    return body + SQRT_PRICE.to_bytes(16, "little") + pack("<4QQQ", *FEES, 5, 6)


def swap2_event(*, a_to_b: bool, fee_on_input: bool) -> bytes:
    body = SWAP2_EVENT + bytes(32) + pack("<BB?QQB", not a_to_b, 0, False, 1, 2, 0)
    body += pack("<4Q", 10_000, 9_000 if fee_on_input else 10_000, 0, 3)
    body += SQRT_PRICE.to_bytes(16, "little") + pack("<4Q", *FEES)
    body += pack("<4QQQ", 1, 2, 3, 4, RESERVE_A, RESERVE_B)
    assert len(body) == 188
    return body


@pytest.mark.parametrize("buys", [True, False])
@pytest.mark.parametrize("fee_on_input", [True, False])
def test_new_event(buys: bool, fee_on_input: bool) -> None:
    """Side A is the token, B is USDC: a purchase goes B to A."""
    tx, call = examples.swap(examples.EXAMPLES[DEX], buys=buys)
    tx.cpi_event(call, swap2_event(a_to_b=not buys, fee_on_input=fee_on_input))
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.sqrt_price_x64 == SQRT_PRICE
    assert (swap.reserve_raw, swap.quote_reserve_raw) == (RESERVE_A, RESERVE_B)
    assert swap.pool_fee_raw == sum(FEES)
    assert swap.pool_fee_mint == (swap.quote_mint if buys is fee_on_input else swap.mint)


def test_new_event_before_it_had_reserves() -> None:
    tx, call = examples.swap(examples.EXAMPLES[DEX])
    tx.cpi_event(call, swap2_event(a_to_b=False, fee_on_input=True)[:172])
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    assert decoded.events[0].reserve_raw is None
    assert decoded.events[0].pool_fee_raw == sum(FEES)


def test_old_event() -> None:
    tx, call = examples.swap(examples.EXAMPLES[DEX], buys=False)
    tx.cpi_event(call, swap_event(a_to_b=True))
    (sale,) = decode_update(tx.info(), 1, 2).events
    assert (sale.pool_fee_raw, sale.pool_fee_mint) == (sum(FEES), examples.USDC)
    tx, call = examples.swap(examples.EXAMPLES[DEX], buys=True)
    tx.cpi_event(call, swap_event(a_to_b=False))
    (purchase,) = decode_update(tx.info(), 1, 2).events
    assert purchase.sqrt_price_x64 == SQRT_PRICE
    assert purchase.pool_fee_raw is None  # the event does not say on which side
