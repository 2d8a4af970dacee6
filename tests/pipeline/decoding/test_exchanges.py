"""Who exchanged one mint for another, by balances, and what is excluded as no swap."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.decoding.exchanges import Exchanged, changes, exchanged, find, is_listed
from pipeline.decoding.ledger import ledger
from pipeline.decoding.no_swaps import no_swaps
from pipeline.decoding.registry import BY_PROGRAM, PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.money import WSOL
from schemas.solana.addresses import text
from tests.support.decoding import builder
from tests.support.decoding.builder import address

USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
AMM_V4 = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
DCA = "DCA265Vj8a9CEuX1eb1LWRnDT7uK6q1xMipnNyatn23M"
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
LEND = "jup3YeL8QhtSx1e253b2FDvsMNC87fDrgQZivbrndc9"
SWAP, DEPOSIT = bytes.fromhex("8fbe5adac41e33de"), bytes.fromhex("f223c68952e1f2b6")


def transaction(tx: builder.TransactionBuilder) -> Transaction:
    return Transaction(tx.info(), 1, 2, PROGRAMS)


def found(tx: builder.TransactionBuilder) -> Exchanged:
    read = transaction(tx)
    return find(read, changes(read), ledger(read))


def market() -> builder.TransactionBuilder:
    tx = builder.TransactionBuilder("trader")
    for name, mint, owner in (
        ("dollars", USDC, "trader"),
        ("coins", "coin", "trader"),
        ("receipts", "receipt", "trader"),
        ("vault in", USDC, "auth"),
        ("vault out", "coin", "auth"),
    ):
        tx.token(name, mint, owner, 10**9)
    return tx


def deposit(tx: builder.TransactionBuilder, program: str, data: bytes, under: Any = None) -> Any:
    call = tx.call(program, "x", data, under=under)
    tx.transfer(call, "dollars", "vault in", "trader", 100)
    tx.mint_to(call, "receipt", "receipts", 90)
    return call


def buy(tx: builder.TransactionBuilder, under: Any = None) -> None:
    call = tx.call(CPMM, ["x"] * 13, SWAP + bytes(16), under=under)
    tx.transfer(call, "dollars", "vault in", "trader", 500)
    tx.transfer(call, "vault out", "coins", "auth", 70)


def test_a_trader_and_its_pool_exchanged() -> None:
    tx = market()
    buy(tx)
    assert found(tx) == Exchanged(frozenset({address("trader"), address("auth")}), frozenset())


def test_a_transfer_is_no_exchange() -> None:
    tx = market()
    tx.transfer(None, "coins", "vault out", "trader", 30)
    tx.gain("trader", -5_000)
    assert found(tx) == Exchanged(frozenset(), frozenset())


def test_sol_is_one_mint_wrapped_or_not_and_the_fee_is_no_change() -> None:
    tx = builder.TransactionBuilder("trader")
    tx.token("wrapped", WSOL, "trader", 5)
    tx.send(None, "trader", "wrapped", 10**9)
    tx.tokens[address("wrapped")].post_raw += 10**9
    tx.gain("trader", -5_000)
    assert changes(transaction(tx))[tx.keys[0]] == {WSOL: 0}


def test_as_much_sol_as_rent_is_no_trade() -> None:
    assert not exchanged({WSOL: -2_039_280, "coin": 5}, 2_039_280)
    assert exchanged({WSOL: -2_039_280, "coin": 5}, 2_039_279)
    assert exchanged({WSOL: -1, "coin": 5})


@pytest.mark.parametrize(
    ("opened", "paid", "is_trade"),
    [(0, 1_000, True), (2_039_280, 2_039_280, False), (9_000_000, 4_000_000, True)],
)
def test_rent_is_what_accounts_held_that_were_opened_and_not_much(
    opened: int, paid: int, is_trade: bool
) -> None:
    tx = market()
    tx.transfer(tx.call("program", "x", b""), "vault out", "coins", "auth", 30)
    tx.gain("trader", -5_000 - paid)
    tx.gain("opened", opened)
    tx.call("program", "opened", b"")
    info = tx.info()
    if opened:
        at = tx.keys.index(address("opened"))
        info.meta.pre_balances[at], info.meta.post_balances[at] = 0, opened
    read = Transaction(info, 1, 2, PROGRAMS)
    owners = find(read, changes(read), ledger(read)).owners
    assert (address("trader") in owners) == is_trade


@pytest.mark.parametrize(
    ("program", "data", "name"),
    [
        (CPMM, DEPOSIT, "raydium-cpmm deposit (liquidity)"),
        (AMM_V4, b"\x03", "raydium-amm-v4 deposit (liquidity)"),
        (LEND, DEPOSIT, f"jupiter-lend-earn {DEPOSIT.hex()} (lending)"),
    ],
)
def test_liquidity_and_lending_are_excluded_by_instruction(
    program: str, data: bytes, name: str
) -> None:
    tx = market()
    deposit(tx, program, data + bytes(8))
    assert found(tx) == Exchanged(frozenset(), frozenset({name}))


def test_an_exchange_beside_liquidity_stays() -> None:
    tx = market()
    deposit(tx, CPMM, DEPOSIT)
    buy(tx)
    assert found(tx) == Exchanged(frozenset({address("trader"), address("auth")}), frozenset())


def test_a_swap_that_liquidity_calls_for_stays() -> None:
    tx = market()
    buy(tx, under=deposit(tx, CPMM, DEPOSIT))
    assert found(tx).owners == {address("trader"), address("auth")}


@pytest.mark.parametrize("program", [DCA, JUPITER])
def test_deposits_of_orders_and_of_hops_in_a_route_are_not_excluded(program: str) -> None:
    """An order's output may come back in the same transaction; a route's hop is a swap."""
    tx = market()
    if program == DCA:
        deposit(tx, DCA, DEPOSIT)
    else:
        deposit(tx, LEND, DEPOSIT, under=tx.call(JUPITER, "x trader", bytes(8)))
    assert list(no_swaps(transaction(tx))) == []
    assert found(tx).owners == {address("trader")}


def test_what_is_excluded_is_nothing_that_a_venue_decodes() -> None:
    for program, venue in BY_PROGRAM.items():
        for tag in venue.handlers:
            tx = builder.TransactionBuilder("trader")
            tx.call(text(program), "x", tag + bytes(8))
            assert list(no_swaps(transaction(tx))) == []


@pytest.mark.parametrize(("program", "listed"), [(CPMM, True), (JUPITER, True), (LEND, False)])
def test_listed_are_venues_routers_and_keepers(program: str, listed: bool) -> None:
    tx = market()
    tx.call(program, "x", bytes(8))
    assert is_listed(transaction(tx)) == listed
