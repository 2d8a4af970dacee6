"""The owner of a swap that another account signed, where no listed keeper names the owner.

`market` gives the owner accounts of both mints: `owner in` is an order's where that differs.
"""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.decoding.reading import decode_update
from schemas.events import Side, Swap
from schemas.money import WSOL
from schemas.solana.addresses import key
from tests.support.decoding import builder
from tests.support.decoding.builder import address

USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
INFINITY = "5ocnV1qiCgaQR8Jb8xWnVbApfaygJ8tNoZfgPwsgx9kx"
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


@pytest.mark.parametrize("routed", [True, False])
@pytest.mark.parametrize(("kept_in", "kept_out"), [(0, 0), (5, 0), (0, 7), (5, 7)])
@pytest.mark.parametrize(("first", "second"), [(USDC, "coin"), ("coin", USDC), ("coin", "other")])
def test_who_gave_and_got_traded_and_the_signer_was_the_keeper(
    first: str, second: str, kept_in: int, kept_out: int, routed: bool
) -> None:
    """A program's vault: its tokens pass through the accounts of the signer, which keeps a part."""
    tx = market(first, second)
    tx.token("vault's", first, "owner", 10**9)
    vault = tx.call("a vault program", "signer owner", b"trade")
    tx.transfer(vault, "vault's", "signer in", "owner", PAID + kept_in)
    swap(tx, tx.call(JUPITER, "x signer", ROUTE, under=vault) if routed else vault)
    tx.transfer(vault, "signer out", "owner out", "signer", GOT - kept_out)
    (event,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(event, Swap)
    assert (event.wallet, event.keeper) == (address("owner"), address("signer"))
    paid, got = event.wallet_quote_amount_raw, event.wallet_amount_raw
    if event.side is Side.SELL:
        paid, got = got, paid
    assert (paid, got) == (PAID, GOT - kept_out)
    assert event.fee_payer == address("signer")


def test_the_legs_of_a_route_are_all_the_owners() -> None:
    tx = market(USDC, "coin")
    tx.token("vault's", USDC, "owner", 10**9)
    tx.token("last", "last coin", "signer")
    tx.token("owner last", "last coin", "owner")
    tx.token("pool coins", "coin", "auth")
    tx.token("pool last", "last coin", "auth", 10**9)
    vault = tx.call("a vault program", "signer owner", b"trade")
    tx.transfer(vault, "vault's", "signer in", "owner", PAID)
    swap(tx, vault)
    names = ["signer", "auth", "x", "pool 2", "signer out", "last", "pool coins", "pool last"]
    call = tx.call(CPMM, [*names, *["x"] * 5], SWAP + bytes(16), under=vault)
    tx.transfer(call, "signer out", "pool coins", "signer", GOT)
    tx.transfer(call, "pool last", "last", "auth", 3)
    tx.transfer(vault, "last", "owner last", "signer", 3)
    assert owners(tx) == {(address("owner"), address("signer"))}
    assert len(decode_update(tx.info(), 1, 2).events) == 2


@pytest.mark.parametrize("wrong", ["gave less", "got more", "two of them"])
def test_otherwise_the_swap_stays_with_its_signer(wrong: str) -> None:
    """What another gave must be what was paid, what it got must be of what came out."""
    tx = market(USDC, "coin")
    for number in range(1 + (wrong == "two of them")):
        who = f"owner{number or ''}"
        tx.token(f"{who} dollars", USDC, who, 10**9)
        tx.token(f"{who} coins", "coin", who, 10**9)
        vault = tx.call("a vault program", f"signer {who}", b"trade")
        less = 1 if wrong == "gave less" else 0
        tx.transfer(vault, f"{who} dollars", "signer in", who, PAID - less)
        more = 1 if wrong == "got more" else 0
        tx.transfer(vault, "signer out", f"{who} coins", "signer", GOT // 2 * (1 + more) + more)
    swap(tx, vault)
    assert owners(tx) == {(address("signer"), "")}


@pytest.mark.parametrize("gives", [True, False])
def test_native_sol_that_an_account_gave_or_got_was_its_own(gives: bool) -> None:
    """A program moves its account's lamports into, or out of, the signer's wrapped SOL."""
    tx = market(*((WSOL, "coin") if gives else ("coin", WSOL)))
    tx.token("vault's", "coin", "owner", 10**9)
    vault = tx.call("a vault program", "signer owner", b"trade")
    if gives:
        tx.gain("owner", -PAID)
        tx.tokens[address("signer in")].post_raw += PAID
        swap(tx, vault)
        tx.transfer(vault, "signer out", "owner out", "signer", GOT)
    else:
        tx.transfer(vault, "vault's", "signer in", "owner", PAID)
        swap(tx, vault)
        tx.tokens[address("signer out")].post_raw -= GOT
        tx.gain("owner", GOT)
    assert owners(tx) == {(address("owner"), address("signer"))}


@pytest.mark.parametrize("moved", ["input", "output"])
def test_a_swap_stays_with_a_signer_whose_own_tokens_went_in_or_came_out(moved: str) -> None:
    """Another account gave and got as much, by a trade of its own that nothing decodes."""
    tx = market(USDC, "coin")
    tx.token("owner's", USDC, "owner", 10**9)
    tx.token("maker in", USDC, "maker")
    tx.token("maker's", "coin", "maker", 10**9)
    tx.token("friend's", "coin", "friend")
    trade = tx.call("an unlisted exchange", "owner maker", b"trade")
    tx.transfer(trade, "maker's", "owner out", "maker", GOT)
    if moved == "input":
        tx.transfer(trade, "owner's", "maker in", "owner", PAID)
        swap(tx)
        tx.transfer(None, "signer out", "friend's", "signer", GOT)
    else:
        tx.transfer(trade, "owner's", "signer in", "owner", PAID)
        swap(tx)
    assert owners(tx) == {(address("signer"), "")}


def test_an_owner_who_trades_in_the_same_transaction_is_not_confused() -> None:
    """Two swaps the same way: each is its own wallet's."""
    tx = market(USDC, "coin")
    tx.token("vault's", USDC, "owner", 10**9)
    names = ["owner", "auth", "x", "pool 2", "vault's", "owner out", "vault in", "vault out"]
    call = tx.call(CPMM, [*names, *["x"] * 5], SWAP + bytes(16))
    tx.transfer(call, "vault's", "vault in", "owner", 2 * PAID)
    tx.transfer(call, "vault out", "owner out", "auth", GOT)
    swap(tx)
    assert owners(tx) == {(address("owner"), ""), (address("signer"), "")}


@pytest.mark.parametrize("first", [USDC, "coin"])
def test_what_a_programs_account_buys_for_a_wallet_is_no_trade_of_the_wallet(first: str) -> None:
    """The program pays out of its own account straight into the pool, and the output goes on."""
    tx = market(first, "other" if first == "coin" else "coin")
    tx.token("program's", first, "program", 10**9)
    names = ["program", "auth", "x", "pool", "program's", "owner out", "vault in", "vault out"]
    call = tx.call(CPMM, [*names, *["x"] * 5], SWAP + bytes(16), under=tx.call("p", "", b""))
    tx.transfer(call, "program's", "vault in", "program", PAID)
    tx.transfer(call, "vault out", "owner out", "auth", GOT)
    assert owners(tx) == {(address("program"), "")}


@pytest.mark.parametrize("taken_back", [True, False])
def test_a_mint_whose_issuer_moves_it_from_any_wallet_makes_no_trade_of_the_wallet(
    taken_back: bool,
) -> None:
    """A permanent delegate of Token-2022 takes the input of a swap out of a wallet."""
    tx = market("issued", "coin")
    tx.token("wallet's", "issued", "owner", 10**9, program=builder.TOKEN_2022)
    if taken_back:
        program = tx.call("a program", "signer", b"")
        tx.transfer(program, "wallet's", "signer in", "delegate", PAID)
        swap(tx, program)
        tx.transfer(program, "signer out", "owner out", "signer", GOT)
        assert owners(tx) == {(address("signer"), "")}
        return
    names = ["delegate", "auth", "x", "pool", "wallet's", "owner out", "vault in", "vault out"]
    call = tx.call(CPMM, [*names, *["x"] * 5], SWAP + bytes(16), under=tx.call("p", "", b""))
    tx.transfer(call, "wallet's", "vault in", "delegate", PAID)
    tx.transfer(call, "vault out", "owner out", "auth", GOT)
    assert address("owner") not in {owner for owner, _ in owners(tx)}


def test_an_account_that_changes_hands_gave_nothing() -> None:
    """What it held was its former holder's."""
    tx = market(USDC, "coin")
    tx.token("handed over", USDC, "signer", 10**9)
    tx.transfer(None, "handed over", "signer in", "signer", PAID)
    swap(tx)
    tx.transfer(None, "signer out", "owner out", "signer", GOT)
    info = tx.info()
    at = tx.keys.index(address("handed over"))
    (after,) = [each for each in info.meta.post_token_balances if each.account_index == at]
    after.owner = address("owner")
    (event,) = decode_update(info, 1, 2).events
    assert isinstance(event, Swap)
    assert event.wallet == address("signer")


@pytest.mark.parametrize("how", ["handed over", "opened", "opened again"])
@pytest.mark.parametrize("venue", [CPMM, INFINITY])
def test_an_account_that_a_wallet_is_given_makes_no_trade_of_the_wallet(
    how: str, venue: str
) -> None:
    """A program swaps out of an account of its own, then makes a wallet its owner."""
    tx, program = market(USDC, "coin"), builder.TOKEN
    tx.token("other vault", USDC, "other auth", 10**9)
    tx.token("given", USDC, "owner", 10**9 if how == "handed over" else 0)
    attack = tx.call("a program", "signer", b"")
    if how != "handed over":
        opened_for = key(address("program"))
        tx.call(program, ["given", USDC], b"\x12" + opened_for, under=attack)
        tx.token("funds", USDC, "program", 10**9)
        tx.transfer(attack, "funds", "given", "program", PAID + 1)
    names = ["program", "auth", "x", "pool", "given", "owner out", "other vault", "vault out"]
    call = tx.call(venue, [*names, *["x"] * 5], SWAP + bytes(16), under=attack)
    tx.transfer(call, "given", "other vault", "program", PAID)
    tx.transfer(call, "vault out", "owner out", "auth", GOT)
    owner = key(address("owner"))
    if how == "opened again":
        tx.call(program, "given program program", b"\x09", under=attack)
        tx.call(program, ["given", USDC], b"\x12" + owner, under=attack)
    else:
        tx.call(program, "given program", b"\x06\x02\x01" + owner, under=attack)
    info = tx.info()
    at = tx.keys.index(address("given"))
    (before,) = [each for each in info.meta.pre_token_balances if each.account_index == at]
    if how == "handed over":
        before.owner = address("program")
    else:
        info.meta.pre_token_balances.remove(before)
    decoded = decode_update(info, 1, 2)
    assert not decoded.undecoded
    wallets = [each.wallet for each in decoded.events if isinstance(each, Swap)]
    # Infinity's swaps are read from what one owner gave and got: here two did.
    assert wallets == ([address("program")] if venue == CPMM else [])
