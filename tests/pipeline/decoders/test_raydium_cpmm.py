"""Raydium CPMM: every length its event has had."""

from __future__ import annotations

from struct import pack
from types import ModuleType

import pytest

from pipeline.decoders.raydium_cpmm import SWAP_EVENT
from pipeline.decoding.decode import decode_update
from schemas.events import Swap

IN_BEFORE, OUT_BEFORE = 700_000_000, 900_000_000
TRADE_FEE, CREATOR_FEE = 2_500, 700


def event(size: int, *, creator_fee_on_input: bool = True) -> bytes:
    body = SWAP_EVENT + bytes(32)  # pool
    body += pack("<6Q?", IN_BEFORE, OUT_BEFORE, 1, 2, 3, 4, True)
    body += bytes(64)  # mints
    body += pack("<QQ?", TRADE_FEE, CREATOR_FEE, creator_fee_on_input)
    assert len(body) == 170
    return (body + bytes(40))[:size]


@pytest.mark.parametrize(
    ("size", "fee"),
    [
        (89, None),
        (153, None),
        (161, TRADE_FEE),
        (170, TRADE_FEE + CREATOR_FEE),
        (201, TRADE_FEE + CREATOR_FEE),  # fields that are still to come
    ],
)
def test_every_length_of_the_event(
    size: int, fee: int | None, builder: ModuleType, examples: ModuleType
) -> None:
    tx, call = examples.swap(builder, examples.EXAMPLES["raydium-cpmm"], buys=True)
    tx.log_event(call, event(size))
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.pool_fee_raw == fee
    assert swap.pool_fee_mint == ("" if fee is None else examples.USDC)
    creator_fee = CREATOR_FEE if size >= 170 else 0
    assert swap.quote_reserve_raw == IN_BEFORE + examples.USDC_RAW - creator_fee
    assert swap.reserve_raw == OUT_BEFORE - examples.TOKEN_RAW


def test_creator_fee_on_the_output(builder: ModuleType, examples: ModuleType) -> None:
    tx, call = examples.swap(builder, examples.EXAMPLES["raydium-cpmm"], buys=True)
    tx.log_event(call, event(170, creator_fee_on_input=False))
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.pool_fee_raw == TRADE_FEE
    assert swap.quote_reserve_raw == IN_BEFORE + examples.USDC_RAW
    assert swap.reserve_raw == OUT_BEFORE - examples.TOKEN_RAW - CREATOR_FEE
