"""Raydium AMM v4: account lists of every length, the log's reserves, swaps beside an order book."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from struct import pack
from typing import Any

import pytest

from pipeline.decoding.reading import decode_update
from schemas.events import Swap
from tests.support.decoding import builder, examples

DEX = "raydium-amm-v4"
COIN_BEFORE, PC_BEFORE = 90_000_000, 40_000_000

ACCOUNTS = {
    "18": "tokens pool auth x x v1 v2 x x x x x x x x u1 u2 trader",
    "17, no target orders": "tokens pool auth x v1 v2 x x x x x x x x u1 u2 trader",
    "19, one appended by a router": "tokens pool auth x x v1 v2 x x x x x x x x u1 u2 trader x",
    "8, V2": "tokens pool auth v1 v2 u1 u2 trader",
}


def ray_log(kind: int) -> str:
    fields = (1, 2, 1, 3, COIN_BEFORE, PC_BEFORE, 4)
    return "log: ray_log: " + b64encode(pack("<B7Q", kind, *fields)).decode()


def only_swap(info: Any) -> Swap:
    decoded = decode_update(info, 1, 2)
    assert not decoded.undecoded
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    return swap


@pytest.mark.parametrize("accounts", ACCOUNTS.values(), ids=ACCOUNTS)
@pytest.mark.parametrize(("tag", "kind"), [("09", 3), ("0b", 4), ("10", 3), ("11", 4)])
@pytest.mark.parametrize("buys", [True, False])
def test_every_account_list(accounts: str, tag: str, kind: int, buys: bool) -> None:
    example = replace(examples.EXAMPLES[DEX], accounts=accounts, tag=tag)
    tx, call = examples.swap(example, buys=buys)
    call.logs.append(ray_log(kind))
    swap = only_swap(tx.info())
    assert (swap.amount_raw, swap.quote_amount_raw) == (examples.TOKEN_RAW, examples.USDC_RAW)
    sign = 1 if buys else -1  # v2 holds USDC and is the pc vault
    assert swap.reserve_raw == COIN_BEFORE - sign * examples.TOKEN_RAW
    assert swap.quote_reserve_raw == PC_BEFORE + sign * examples.USDC_RAW
    paid = examples.USDC_RAW if buys else examples.TOKEN_RAW
    assert swap.pool_fee_raw == paid * 25 // 10_000
    assert swap.pool_fee_mint == (swap.quote_mint if buys else swap.mint)


def test_without_its_log_a_swap_has_no_reserves() -> None:
    for damaged in (None, "log: ray_log: ****", "log: ray_log: AwAA", ray_log(1)):
        tx, call = examples.swap(examples.EXAMPLES[DEX])
        call.logs += [damaged] if damaged else []
        swap = only_swap(tx.info())
        assert swap.amount_raw == examples.TOKEN_RAW
        assert swap.reserve_raw is None


def test_the_fee_is_rounded_up() -> None:
    tx, call = examples.swap(examples.EXAMPLES[DEX])
    call.calls[0].data = bytes([3]) + (401).to_bytes(8, "little")
    assert only_swap(tx.info()).pool_fee_raw == 2


def test_the_order_book_is_settled_first() -> None:
    """Until 2023 a swap could settle the pool's orders, heights were not recorded then."""
    tx, call = examples.swap(examples.EXAMPLES[DEX])
    swap_transfers, call.calls = call.calls, []
    book = tx.call("order book", "x", b"settle", under=call)
    for side, mint in (("1", "token"), ("2", examples.USDC)):
        tx.token(f"book {side}", mint, "book", 5_000)
        tx.transfer(book, f"book {side}", f"vault {side}", "book signer", 5_000)
    call.calls += swap_transfers
    for heights in (True, False):
        swap = only_swap(tx.info(heights=heights))
        assert (swap.amount_raw, swap.quote_amount_raw) == (examples.TOKEN_RAW, examples.USDC_RAW)
        assert swap.wallet == builder.address("trader")


def test_other_instructions_hold_no_swap() -> None:
    for tag in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 15):
        tx, call = examples.swap(examples.EXAMPLES[DEX])
        call.data = bytes([tag]) + call.data[1:]
        decoded = decode_update(tx.info(), 1, 2)
        assert not decoded.events
        assert not decoded.undecoded
    call.data = b"\x63"
    assert decode_update(tx.info(), 1, 2).undecoded[0].detail == "instruction 63"
