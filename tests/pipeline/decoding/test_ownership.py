"""The owner of a swap that another account signed, where no listed keeper names the owner."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.decoding.decode import decode_update
from schemas.events import Swap
from tests.support.decoding import builder
from tests.support.decoding.builder import address

USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
ROUTE = bytes.fromhex("e517cb977ae3ad2a")
SWAP = bytes.fromhex("8fbe5adac41e33de")
PAID, GOT = 10_000_000, 20_000_000


def market(first: str, second: str, *others: str) -> builder.TransactionBuilder:
    tx = builder.TransactionBuilder("signer", *others)
    for name, mint, owner in (
        ("signer in", first, "signer"),
        ("signer out", second, "signer"),
        ("owner in", first, "order"),
        ("owner out", second, "owner"),
        ("vault in", first, "auth"),
        ("vault out", second, "auth"),
    ):
        tx.token(name, mint, owner, 10**9)
    return tx


def swap(tx: Any, under: Any = None, number: str = "", to: str = "signer out") -> None:
    names = ["signer", "auth", "x", f"pool{number}", "signer in", to, "vault in", "vault out"]
    call = tx.call(CPMM, [*names, *["x"] * 5], SWAP + bytes(16), under=under)
    tx.transfer(call, "signer in", "vault in", "signer", PAID)
    tx.transfer(call, "vault out", to, "auth", GOT)


def owners(tx: Any) -> set[tuple[str, str]]:
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    return {(each.wallet, each.keeper) for each in decoded.events if isinstance(each, Swap)}


@pytest.mark.parametrize("signers", [("owner",), ("owner", "witness"), ("witness", "owner")])
@pytest.mark.parametrize("routed", [True, False])
@pytest.mark.parametrize(("first", "second"), [(USDC, "coin"), ("coin", USDC), ("coin", "other")])
def test_an_owner_who_signs_beside_a_sponsor_traded(
    first: str, second: str, routed: bool, signers: tuple[str, ...]
) -> None:
    tx = market(first, second, *signers)
    vault = tx.call("a vault program", "signer order owner", b"fill")
    tx.transfer(vault, "owner in", "signer in", "order", PAID)
    swap(tx, tx.call(JUPITER, "x signer", ROUTE, under=vault) if routed else vault)
    tx.transfer(vault, "signer out", "owner out", "signer", GOT)
    assert owners(tx) == {(address("owner"), "")}


@pytest.mark.parametrize("passed_on", ["by the pool", "by a program", "by hand"])
@pytest.mark.parametrize("from_escrow", [True, False])
@pytest.mark.parametrize(("first", "second"), [(USDC, "coin"), ("coin", USDC), ("coin", "other")])
def test_nobody_puts_trades_into_the_books_of_a_wallet_that_did_not_sign(
    first: str, second: str, from_escrow: bool, passed_on: str
) -> None:
    """A pool of the attacker's own makes any price; its output goes to the victim."""
    tx = market(first, second)
    program = tx.call("a program", "signer order", b"fill")
    if from_escrow:
        tx.transfer(program, "owner in", "signer in", "order", PAID)
    swap(tx, program, to="owner out" if passed_on == "by the pool" else "signer out")
    if passed_on == "by a program":
        tx.transfer(program, "signer out", "owner out", "signer", GOT)
    elif passed_on == "by hand":
        tx.transfer(None, "signer out", "owner out", "signer", GOT)
    assert owners(tx) == {(address("signer"), "")}
