"""Meteora DAMM v1: the vault program's transfers, the fee that goes beside the vault."""

from __future__ import annotations

from struct import pack

import pytest

from pipeline.decoders.meteora_damm_v1 import SWAP_EVENT
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Swap
from tests.support.decoding import examples


@pytest.mark.parametrize("heights", [True, False])
@pytest.mark.parametrize("host", [True, False])
def test_fees_beside_the_vault(heights: bool, host: bool) -> None:
    example = examples.EXAMPLES["meteora-damm-v1"]
    if host:
        example = examples.Example(
            example.program, example.tag, example.accounts + " host", deep=True
        )
    tx, call = examples.swap(example, buys=True)
    tx.token("fees", examples.USDC, "protocol")
    tx.token("host", examples.USDC, "host owner")
    vault_calls, call.calls = call.calls, []
    tx.transfer(call, "user 2", "fees", "trader", 500)
    if host:
        tx.transfer(call, "user 2", "host", "trader", 100)
    call.calls += vault_calls
    tx.log_event(call, SWAP_EVENT + pack("<5Q", 1, 2, 2_000, 500, 100 if host else 0))
    info = tx.info(heights=heights)
    (swap,) = decode_update(info, 1, 2).events
    assert isinstance(swap, Swap)
    beside = 600 if host else 500
    assert swap.quote_amount_raw == examples.USDC_RAW
    assert swap.wallet_quote_amount_raw == examples.USDC_RAW + beside
    assert swap.amount_raw == swap.wallet_amount_raw == examples.TOKEN_RAW
    assert (swap.pool_fee_raw, swap.pool_fee_mint) == (2_000 + beside, examples.USDC)
    transaction = Transaction(info, 1, 2, PROGRAMS)
    assert differences(transaction, list(read(transaction, []))) == []
