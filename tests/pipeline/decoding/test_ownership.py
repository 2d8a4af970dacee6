"""Who owns a swap that was signed by somebody else, where no listed keeper names the owner."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.decoding.decode import decode_update
from schemas.events import Side, Swap
from schemas.money import WSOL
from tests.support.decoding import builder
from tests.support.decoding.builder import address

USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
ROUTE = bytes.fromhex("e517cb977ae3ad2a")
SWAP = bytes.fromhex("8fbe5adac41e33de")
PAID, GOT = 10_000_000, 20_000_000


def market(first: str, second: str) -> builder.TransactionBuilder:
    tx = builder.TransactionBuilder("signer")
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


@pytest.mark.parametrize("fee", [0, 1_000])
@pytest.mark.parametrize("routed", [True, False])
@pytest.mark.parametrize(("first", "second"), [(USDC, "coin"), ("coin", USDC), ("coin", "other")])
def test_a_vaults_keeper_passes_on_all_that_it_touches(
    first: str, second: str, routed: bool, fee: int
) -> None:
    """A copy-trade or vault program of its own: tokens come from escrow and go to the owner."""
    tx = market(first, second)
    tx.token("fees", second, "fee owner")
    vault = tx.call("a vault program", "signer order owner", b"fill")
    tx.transfer(vault, "owner in", "signer in", "order", PAID)
    swap(tx, tx.call(JUPITER, "x signer", ROUTE, under=vault) if routed else vault)
    tx.transfer(vault, "signer out", "owner out", "signer", GOT - fee)
    tx.transfer(vault, "signer out", "fees", "signer", fee)
    assert owners(tx) == {(address("owner"), address("signer"))}
    (event,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(event, Swap)
    buys = event.side is Side.BUY
    received = event.wallet_amount_raw if buys else event.wallet_quote_amount_raw
    assert received == GOT - fee


def test_a_keeper_pays_native_sol() -> None:
    tx = market("coin", WSOL)
    vault = tx.call("a vault program", "signer order owner", b"fill")
    tx.transfer(vault, "owner in", "signer in", "order", PAID)
    swap(tx, vault)
    tx.call(builder.TOKEN, "signer-out signer signer", b"\x09", under=vault)
    tx.tokens[address("signer out")].post_raw -= GOT
    tx.send(vault, "signer", "owner", GOT)
    assert owners(tx) == {(address("owner"), address("signer"))}


@pytest.mark.parametrize("routed", [True, False])
def test_a_payer_who_buys_for_another_wallet(routed: bool) -> None:
    tx = market(USDC, "coin")
    route = tx.call(JUPITER, "x signer", ROUTE) if routed else None
    swap(tx, route, to="signer out" if routed else "owner out")
    if routed:
        tx.transfer(route, "signer out", "owner out", "signer", GOT)
    assert owners(tx) == {(address("owner"), "")}


@pytest.mark.parametrize("receipt", ["transferred", "minted", "sol"])
def test_who_gave_something_for_it_is_a_pool(receipt: str) -> None:
    """A second hop through a program that nothing decodes, outside a listed router."""
    tx = market(USDC, "coin")
    swap(tx)
    tx.token("pool coins", "coin", "owner")
    tx.token("pool receipts", "receipt", "owner", 10**9)
    tx.token("signer receipts", "receipt", "signer")
    call = tx.call("a new amm", "x", b"swap")
    tx.transfer(call, "signer out", "pool coins", "signer", GOT)
    if receipt == "transferred":
        tx.transfer(call, "pool receipts", "signer receipts", "owner", 9)
    elif receipt == "minted":
        tx.mint_to(call, "receipt", "signer receipts", 9)
    else:
        tx.send(call, "owner", "signer", 10**9)
    assert owners(tx) == {(address("signer"), "")}


def test_what_is_bought_and_given_away_was_the_buyers() -> None:
    tx = market(USDC, "coin")
    swap(tx)
    tx.transfer(None, "signer out", "owner out", "signer", GOT)
    assert owners(tx) == {(address("signer"), "")}


def test_what_is_bought_and_deposited_stays_the_buyers() -> None:
    tx = market(USDC, "coin")
    tx.token("deposit", "coin", "pool of stakes")
    swap(tx)
    tx.transfer(tx.call("a staking program", "x", b"stake"), "signer out", "deposit", "signer", GOT)
    assert owners(tx) == {(address("signer"), "")}


def test_a_sellers_money_may_go_elsewhere() -> None:
    """It was the seller's token: what is done with the money is no trade."""
    tx = market("coin", USDC)
    swap(tx, to="owner out")
    assert owners(tx) == {(address("signer"), "")}


def test_a_fee_out_of_the_output_changes_no_owner() -> None:
    tx = market(USDC, "coin")
    swap(tx)
    tx.transfer(None, "signer out", "owner out", "signer", GOT // 4)
    assert owners(tx) == {(address("signer"), "")}


def test_an_output_that_is_shared_out_stays_with_who_traded() -> None:
    tx = market(USDC, "coin")
    swap(tx)
    for number in range(3):
        tx.token(f"friend {number}", "coin", f"friend {number}")
        tx.transfer(None, "signer out", f"friend {number}", "signer", GOT // 3)
    assert owners(tx) == {(address("signer"), "")}
