"""Exchanges counted from balances, and which of them swaps explain."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from pipeline.decoding.decode import decode_update, read
from pipeline.decoding.exchanges import Exchange, changes, exchanged, explain
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.money import WSOL
from tests.support.decoding import builder
from tests.support.decoding.builder import address

USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
SWAP, DEPOSIT = bytes.fromhex("8fbe5adac41e33de"), bytes.fromhex("f223c68952e1f2b6")
LEND = "jup3YeL8QhtSx1e253b2FDvsMNC87fDrgQZivbrndc9"


def explained(tx: Any) -> Exchange | None:
    info = tx.info()
    transaction = Transaction(info, 1, 2, PROGRAMS)
    return explain(transaction, list(read(transaction, [])), decode_update(info, 1, 2).events)


def market() -> builder.TransactionBuilder:
    tx = builder.TransactionBuilder("trader")
    for name, mint, owner in (
        ("dollars", USDC, "trader"),
        ("coins", "coin", "trader"),
        ("receipts", "receipt", "trader"),
        ("vault in", USDC, "auth"),
        ("vault out", "coin", "auth"),
        ("other in", "coin", "amm"),
        ("other out", "receipt", "amm"),
    ):
        tx.token(name, mint, owner, 10**9)
    return tx


def buy(tx: Any) -> None:
    names = ["trader", "auth", "x", "pool", "dollars", "coins", "vault in", "vault out"]
    call = tx.call(CPMM, [*names, *["x"] * 5], SWAP + bytes(16))
    tx.transfer(call, "dollars", "vault in", "trader", 500)
    tx.transfer(call, "vault out", "coins", "auth", 70)


def test_a_swap_explains_its_trader_and_its_pool() -> None:
    tx = market()
    buy(tx)
    assert explained(tx) == Exchange()


def test_a_sale_explains_them_too() -> None:
    tx = market()
    names = ["trader", "auth", "x", "pool", "coins", "dollars", "vault out", "vault in"]
    call = tx.call(CPMM, [*names, *["x"] * 5], SWAP + bytes(16))
    tx.transfer(call, "coins", "vault out", "trader", 70)
    tx.transfer(call, "vault in", "dollars", "auth", 500)
    assert explained(tx) == Exchange()


def test_plain_transfers_and_fees_explain_the_rest() -> None:
    tx = market()
    buy(tx)
    tx.token("friend's", "coin", "friend")
    tx.transfer(None, "coins", "friend's", "trader", 30)
    tx.send(None, "trader", "tips", 50_000_000)
    assert explained(tx) == Exchange()


def test_a_transfer_alone_is_no_exchange() -> None:
    tx = market()
    tx.transfer(None, "coins", "vault out", "trader", 30)
    assert explained(tx) is None


def test_a_second_hop_that_nothing_decodes_is_unexplained() -> None:
    tx = market()
    buy(tx)
    call = tx.call("a new amm", "x", b"swap")
    tx.transfer(call, "coins", "other in", "trader", 70)
    tx.transfer(call, "other out", "receipts", "amm", 9)
    exchange = explained(tx)
    assert exchange is not None
    assert exchange.unexplained == {
        address("trader"): {address("coin"): -70, address("receipt"): 9, WSOL: 5_000},
        address("amm"): {address("coin"): 70, address("receipt"): -9},
    }


@pytest.mark.parametrize("seed", [None, b"", b"a seed"])
def test_sol_for_an_account_that_is_opened_is_explained(seed: bytes | None) -> None:
    """CreateAccount, or CreateAccountWithSeed, beside a swap that nothing decodes."""
    tx = market()
    call = tx.call("a new amm", "x", b"swap")
    tx.transfer(call, "coins", "other in", "trader", 70)
    tx.transfer(call, "other out", "receipts", "amm", 9)
    if seed is None:
        head = pack("<I", 0)
    else:
        head = pack("<I", 3) + bytes(32) + pack("<Q", len(seed)) + seed
    tx.call(builder.SYSTEM, "trader opened", head + pack("<QQ", 7_000_000, 165) + bytes(32))
    tx.gain("trader", -7_000_000 - 5_000)
    tx.gain("opened", 7_000_000)
    exchange = explained(tx)
    assert exchange is not None
    assert exchange.unexplained == {
        address("trader"): {address("coin"): -70, address("receipt"): 9},
        address("amm"): {address("coin"): 70, address("receipt"): -9},
    }


@pytest.mark.parametrize(("program", "name"), [(CPMM, "raydium-cpmm"), (LEND, "jupiter-lend-earn")])
def test_liquidity_and_loans_are_excluded_by_instruction(program: str, name: str) -> None:
    tx = market()
    buy(tx)
    call = tx.call(program, "x", DEPOSIT + bytes(8))
    tx.transfer(call, "dollars", "vault in", "trader", 100)
    tx.mint_to(call, "receipt", "receipts", 90)
    assert explained(tx) == Exchange(excluded=frozenset({f"{name} {DEPOSIT.hex()}"}))


def test_sol_is_one_mint_wrapped_or_not_and_the_fee_is_no_change() -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("wrapped", WSOL, "trader", 5)
    tx.send(None, "trader", "wrapped", 10**9)
    tx.tokens[address("wrapped")].post_raw += 10**9
    tx.gain("trader", -5_000)
    info = tx.info()
    assert changes(Transaction(info, 1, 2, PROGRAMS))[tx.keys[0]] == {WSOL: 0}


def test_rent_is_no_trade() -> None:
    assert not exchanged({WSOL: -2_039_280, "coin": 5})
    assert exchanged({WSOL: -20_039_280, "coin": 5})
