"""Raydium CPMM: every length its event has had."""

from __future__ import annotations

from struct import pack

import pytest

from pipeline.decoders.raydium_cpmm import SWAP_EVENT
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Swap
from tests.support.decoding import builder, examples

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
        (160, None),  # ends within the fee
        (161, TRADE_FEE),
        (170, TRADE_FEE + CREATOR_FEE),
        (201, TRADE_FEE + CREATOR_FEE),  # fields that are still to come
    ],
)
def test_every_length_of_the_event(size: int, fee: int | None) -> None:
    tx, call = examples.swap(examples.EXAMPLES["raydium-cpmm"], buys=True)
    tx.log_event(call, event(size))
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.pool_fee_raw == fee
    assert swap.pool_fee_mint == ("" if fee is None else examples.USDC)
    creator_fee = CREATOR_FEE if size >= 170 else 0
    assert swap.quote_reserve_raw == IN_BEFORE + examples.USDC_RAW - creator_fee
    assert swap.reserve_raw == OUT_BEFORE - examples.TOKEN_RAW


def test_creator_fee_on_the_output() -> None:
    tx, call = examples.swap(examples.EXAMPLES["raydium-cpmm"], buys=True)
    tx.log_event(call, event(170, creator_fee_on_input=False))
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.pool_fee_raw == TRADE_FEE
    assert swap.quote_reserve_raw == IN_BEFORE + examples.USDC_RAW
    assert swap.reserve_raw == OUT_BEFORE - examples.TOKEN_RAW - CREATOR_FEE


@pytest.mark.parametrize("buys", [True, False])
def test_transfer_fees_of_two_swaps_into_one_account(buys: bool) -> None:
    """The account's balance has the sum of what was withheld, 4 %; the events have each."""
    example = examples.EXAMPLES["raydium-cpmm"]
    tx = builder.TransactionBuilder("trader")
    tx.mint("token", fee_bps=400)
    for name, owner in (("user 1", "trader"), ("vault 1", "auth")):
        tx.token(name, "token", owner, 10_000_000, program=builder.TOKEN_2022)
    for name, owner in (("user 2", "trader"), ("vault 2", "auth")):
        tx.token(name, examples.USDC, owner, 10_000_000)
    paying, getting = "21" if buys else "12"
    accounts = ["trader", "auth", "x", "pool", f"user {paying}", f"user {getting}"]
    accounts += [f"vault {paying}", f"vault {getting}", *["x"] * 5]
    for given in (358_800, 100_000):
        call = tx.call(example.program, accounts, bytes.fromhex(example.tag) + bytes(16))
        if buys:
            tx.transfer(call, "user 2", "vault 2", "trader", 500)
            tx.transfer(call, "vault 1", "user 1", "auth", given, checked=True)
        else:
            tx.transfer(call, "user 1", "vault 1", "trader", given, checked=True)
            tx.transfer(call, "vault 2", "user 2", "auth", 500)
        fees = (0, given // 25) if buys else (given // 25, 0)
        body = SWAP_EVENT + bytes(32)
        tx.log_event(call, body + pack("<6Q?", 9_000_000, 9_000_000, 1, 2, *fees, True))
    info = tx.info()
    swaps = decode_update(info, 1, 2).events
    of_pool = [swap.amount_raw for swap in swaps]
    of_wallet = [swap.wallet_amount_raw for swap in swaps]
    gave, got = (of_pool, of_wallet) if buys else (of_wallet, of_pool)
    assert (gave, got) == ([358_800, 100_000], [344_448, 96_000])
    assert swaps[0].reserve_raw == 9_000_000 + (-358_800 if buys else 344_448)
    transaction = Transaction(info, 1, 2, PROGRAMS)
    assert differences(transaction, list(read(transaction, []))) == []
