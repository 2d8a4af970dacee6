"""Phoenix, OpenBook v2 and Manifest: a taker's order, met or not."""

from __future__ import annotations

from types import ModuleType

import pytest

from pipeline.decoding.decode import Reason, decode_update
from schemas.events import Swap

BOOKS = ["manifest", "openbook-v2", "phoenix"]


@pytest.mark.parametrize("dex", BOOKS)
def test_an_order_that_met_no_other(dex: str, builder: ModuleType, examples: ModuleType) -> None:
    tx, call = examples.swap(builder, examples.EXAMPLES[dex])
    call.calls.clear()
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.events
    assert not decoded.undecoded


@pytest.mark.parametrize("dex", BOOKS)
def test_an_order_that_was_paid_by_nobody(
    dex: str, builder: ModuleType, examples: ModuleType
) -> None:
    tx, call = examples.swap(builder, examples.EXAMPLES[dex])
    call.calls.pop()
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.events
    assert [item.reason for item in decoded.undecoded] == [Reason.MALFORMED]


def test_manifest_draws_on_global_vaults(builder: ModuleType, examples: ModuleType) -> None:
    """What makers bring in from their global vault is not the trader's."""
    tx, call = examples.swap(builder, examples.EXAMPLES["manifest"], buys=True)
    tx.token("global", "token", "makers", 900_000)
    before, call.calls = call.calls, []
    tx.transfer(call, "global", "vault 1", "makers", 900_000)
    call.calls += before
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert (swap.amount_raw, swap.quote_amount_raw) == (examples.TOKEN_RAW, examples.USDC_RAW)


def test_manifest_swap_v2(builder: ModuleType, examples: ModuleType) -> None:
    """Payer and owner are two accounts."""
    old = examples.EXAMPLES["manifest"]
    example = examples.Example(old.program, "0d", "payer " + old.accounts)
    tx, _ = examples.swap(builder, example, buys=False)
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.pool == builder.address("pool")
    assert swap.wallet == builder.address("trader")


def test_phoenix_orders_on_deposited_funds_are_counted_as_unknown(
    builder: ModuleType, examples: ModuleType
) -> None:
    for tag in (1, 2, 3):
        tx, call = examples.swap(builder, examples.EXAMPLES["phoenix"])
        call.data = bytes([tag]) + call.data[1:]
        decoded = decode_update(tx.info(), 1, 2)
        assert [item.reason for item in decoded.undecoded] == [Reason.UNKNOWN]
