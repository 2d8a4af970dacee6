"""PumpSwap: fees beside the vault and out of it, reserves before turned into after."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from pipeline.decoders import pump_swap
from pipeline.decoding.conservation import differences
from pipeline.decoding.reading import decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Side, Swap
from schemas.money import WSOL
from tests.support.decoding import builder

ACCOUNTS = (
    "pool trader config base quote user_base user_quote vault_base vault_quote x fees tokens "
    "tokens system ata events program creator_fees x"
)
BASE_RAW, QUOTE_RAW = 5_000_000, 90_000_000
LP, PROTOCOL, CREATOR, CASHBACK, BUYBACK = 1_000, 250, 4_000, 60, 125
BASE_BEFORE, QUOTE_BEFORE = 700_000_000, 3_000_000_000


def event(*, is_buy: bool, size: int, ix_name: bytes = b"buy") -> bytes:
    body = pump_swap.BUY_EVENT if is_buy else pump_swap.SELL_EVENT
    body += pack("<5Q", 1, BASE_RAW, 3, 4, 5) + pack("<2Q", BASE_BEFORE, QUOTE_BEFORE)
    # the amounts are wrong on purpose: the transfers have the right ones
    body += pack("<7Q", 6, 20, LP, 5, PROTOCOL, 7, 8) + bytes(6 * 32)
    body += bytes(32) + pack("<2Q", 30, CREATOR)
    if is_buy:
        body += pack("<?4QQ", True, 1, 2, 3, 4, 5) + pack("<I", len(ix_name)) + ix_name
    body += pack("<4Q", 0, CASHBACK, 5_000, BUYBACK)
    return body[:size]


def swap(*, is_buy: bool, event: bytes, base: str = "base") -> Any:
    tx = builder.TransactionBuilder("trader")
    quote = "token" if base == WSOL else WSOL
    tx.mint(WSOL, decimals=9)
    for name, mint, owner in (
        ("user_base", base, "trader"),
        ("user_quote", quote, "trader"),
        ("vault_base", base, "pool"),
        ("vault_quote", quote, "pool"),
        ("fees", quote, "protocol"),
        ("creator_fees", quote, "creator"),
    ):
        tx.token(name, mint, owner, 10**9)
    tag = pump_swap.BUY if is_buy else pump_swap.SELL
    call = tx.call(pump_swap.PROGRAM, ACCOUNTS, tag + bytes(16))
    if is_buy:
        tx.transfer(call, "vault_base", "user_base", "pool", BASE_RAW)
        payer, authority = "user_quote", "trader"
        tx.transfer(call, payer, "vault_quote", authority, QUOTE_RAW)
    else:
        tx.transfer(call, "user_base", "vault_base", "trader", BASE_RAW)
        payer, authority = "vault_quote", "pool"
        tx.transfer(call, payer, "user_quote", authority, QUOTE_RAW)
    tx.transfer(call, payer, "fees", authority, PROTOCOL)
    tx.transfer(call, payer, "creator_fees", authority, CREATOR)
    tx.cpi_event(call, event)
    tx.log_event(call, event)
    return tx


@pytest.mark.parametrize("is_buy", [True, False])
@pytest.mark.parametrize("with_cashback", [True, False])
def test_fees_and_reserves(is_buy: bool, with_cashback: bool) -> None:
    body = event(is_buy=is_buy, size=10_000 if with_cashback else 393 if is_buy else 360)
    info = swap(is_buy=is_buy, event=body).info()
    decoded = decode_update(info, 1, 2)
    assert not decoded.undecoded
    (found,) = decoded.events
    assert isinstance(found, Swap)
    beside = PROTOCOL + CREATOR
    moved = QUOTE_RAW if is_buy else QUOTE_RAW + beside
    assert found.side is (Side.BUY if is_buy else Side.SELL)
    assert (found.amount_raw, found.quote_amount_raw) == (BASE_RAW, moved)
    assert found.wallet_quote_amount_raw == (QUOTE_RAW + beside if is_buy else QUOTE_RAW)
    assert found.pool_fee_raw == LP + PROTOCOL + CREATOR + (CASHBACK if with_cashback else 0)
    assert found.pool_fee_mint == WSOL
    assert found.reserve_raw == BASE_BEFORE + (-BASE_RAW if is_buy else BASE_RAW)
    assert found.quote_reserve_raw == QUOTE_BEFORE + (moved if is_buy else -moved)
    assert found.platform == ""
    transaction = Transaction(info, 1, 2, PROGRAMS)
    assert differences(transaction, list(read(transaction, []))) == []


def test_a_reversed_pool_sells_the_token_for_sol() -> None:
    body = event(is_buy=True, size=10_000)
    info = swap(is_buy=True, event=body, base=WSOL).info()
    (found,) = decode_update(info, 1, 2).events
    assert isinstance(found, Swap)
    assert found.side is Side.SELL
    assert (found.mint, found.quote_mint) == (builder.address("token"), WSOL)
    assert (found.amount_raw, found.quote_amount_raw) == (QUOTE_RAW, BASE_RAW)
    assert found.pool_fee_mint == found.mint


def test_a_new_pool_is_no_creation() -> None:
    tx = builder.TransactionBuilder("trader")
    tx.call(pump_swap.PROGRAM, ACCOUNTS, bytes.fromhex("e992d18ecf6840bc") + bytes(60))
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.events
    assert not decoded.undecoded


def test_recorded_fees_are_what_the_transfers_say(corpus: Any) -> None:
    """Fees beside the pool's share, known by hand from the transfers of each swap."""
    known = {
        "3f8wSLzxHod2nnzKD8Zy": (500_000_000, 989_120 + 247_280 + 4_203_759),  # exact quote in
        "5UF9X1wb6LuhmF6AmsbM": (206_230_760, 417_472 + 104_368 + 1_982_989),  # cashback
        "4PqHvshiZK68eeMrtHAn": (61_560_443, 12_468 + 579_760 + 187_020),
    }
    for prefix, expected in known.items():
        (recorded,) = (value for name, value in corpus.items() if name.startswith(prefix))
        answer, info = recorded
        swaps = [e for e in decode_update(info, answer["slot"], 0).events if isinstance(e, Swap)]
        assert expected in [(swap.wallet_quote_amount_raw, swap.pool_fee_raw) for swap in swaps]
