"""Meteora DLMM: its two events count once, a host's fee is separate."""

from __future__ import annotations

from struct import pack

import pytest

from pipeline.decoders.meteora_dlmm import PROGRAM, SWAP2_EVENT, SWAP_EVENT
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Swap
from tests.support.decoding import builder, examples

DEX = "meteora-dlmm"
FEE = 2_400


def swap_event() -> bytes:
    body = SWAP_EVENT + bytes(64) + pack("<iiQQ?QQ", -5, -4, 1, 2, True, FEE, 240)
    body += (10**6).to_bytes(16, "little") + pack("<Q", 48)
    assert len(body) == 137
    return body


def swap2_event(*, on_input: bool = True) -> bytes:
    body = SWAP2_EVENT + bytes(64) + pack("<ii?", -5, -4, True) + bytes(16)
    body += pack("<QQQQQQQ??", 1, 0, 2, 1_000, 900, 400, 100, on_input, True)
    assert len(body) == 155
    return body


@pytest.mark.parametrize(
    "tag",
    [
        "f8c69e91e17587c8",
        "414b3f4ceb5b5b88",
        "fa49652126cf4bb8",
        "2bd7f784893cf351",
        "38ade6d0ade49ccd",
        "4a62c0d6b1334b33",
    ],
)
def test_every_swap_instruction(tag: str) -> None:
    accounts = examples.EXAMPLES[DEX].accounts + " x x"
    tx, call = examples.swap(examples.Example(PROGRAM, tag, accounts))
    tx.cpi_event(call, swap_event())
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert (swap.amount_raw, swap.quote_amount_raw) == (examples.TOKEN_RAW, examples.USDC_RAW)
    assert (swap.pool_fee_raw, swap.pool_fee_mint) == (FEE, examples.USDC)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_both_events_count_once(order: tuple[int, int]) -> None:
    tx, call = examples.swap(examples.EXAMPLES[DEX])
    bodies = (swap_event(), swap2_event())
    for number in order:
        tx.cpi_event(call, bodies[number])
    decoded = decode_update(tx.info(), 1, 2)
    assert len(decoded.events) == 1
    assert not decoded.undecoded
    assert decoded.events[0].pool_fee_raw == FEE


@pytest.mark.parametrize("on_input", [True, False])
def test_new_event_alone(on_input: bool) -> None:
    tx, call = examples.swap(examples.EXAMPLES[DEX])
    tx.cpi_event(call, swap2_event(on_input=on_input))
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.pool_fee_raw == FEE
    assert swap.pool_fee_mint == (examples.USDC if on_input else builder.address("token"))


@pytest.mark.parametrize("payer", ["trader", "pool"])
def test_host_fee(payer: str) -> None:
    """Whether the trader pays the host or the reserve does, every balance is explained."""
    tx, call = examples.swap(examples.EXAMPLES[DEX], buys=True)
    tx.token("fees", examples.USDC, "host")
    source = "user 2" if payer == "trader" else "vault 2"
    tx.transfer(call, source, "fees", payer, 48)
    info = tx.info()
    (swap,) = decode_update(info, 1, 2).events
    assert isinstance(swap, Swap)
    if payer == "trader":
        assert swap.quote_amount_raw == examples.USDC_RAW
        assert swap.wallet_quote_amount_raw == examples.USDC_RAW + 48
    else:
        assert swap.quote_amount_raw == examples.USDC_RAW - 48
        assert swap.wallet_quote_amount_raw == examples.USDC_RAW
    transaction = Transaction(info, 1, 2, PROGRAMS)
    assert differences(transaction, list(read(transaction, []))) == []
