"""Whose swap it was, and who routed it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from pipeline.decoding.reading import decode_update
from pipeline.decoding.routers import RoutersError
from pipeline.decoding.routers import read as read_routers
from schemas.events import Swap
from tests.support.decoding import builder, examples

JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
SHARED_ACCOUNTS_ROUTE = bytes.fromhex("c1209b3341d69c81")
DFLOW = "DF1ow4tspfHX9JwWJsAb9epbkA8hmpSEAtxXy1V27QBH"
OKX = "proVF4pMXVaYqmy4NjniPh4pqKNfMmsihgd4wdkCX3u"
TROJAN_FEES = "9yMwSPk9mrXSN7yDHUuZurAh1sjbJsfpUqjZ7SvVtdco"
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
SWAP = bytes.fromhex("8fbe5adac41e33de")
PAID, GOT = 1_000, 2_000


def through(router: str, data: bytes, accounts: str, *signers: str, giver: str = "user") -> Any:
    """A purchase through accounts of a `shared` authority, for `giver`."""
    tx = builder.TransactionBuilder(*signers)
    for name, mint, owner in (
        ("giver_usdc", USDC, giver),
        ("giver_token", "token", giver),
        ("shared_usdc", USDC, "shared"),
        ("shared_token", "token", "shared"),
        ("vault_usdc", USDC, "pool"),
        ("vault_token", "token", "pool"),
    ):
        tx.token(name, mint, owner, 10**6)
    outer = tx.call(router, accounts, data)
    tx.transfer(outer, "giver_usdc", "shared_usdc", giver, PAID)
    names = "shared auth x pool shared_usdc shared_token vault_usdc vault_token x x x x x"
    call = tx.call(CPMM, names, SWAP + bytes(16), under=outer)
    tx.transfer(call, "shared_usdc", "vault_usdc", "shared", PAID)
    tx.transfer(call, "vault_token", "shared_token", "auth", GOT)
    tx.transfer(outer, "shared_token", "giver_token", "shared", GOT)
    return tx


def swap_of(tx: Any) -> Swap:
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    return swap


def test_the_router_names_the_trader() -> None:
    data = SHARED_ACCOUNTS_ROUTE + bytes(16)
    tx = through(JUPITER, data, "relayer shared user", "relayer", "user")
    swap = swap_of(tx)
    assert (swap.router, swap.wallet) == ("jupiter", builder.address("user"))
    assert swap.fee_payer == builder.address("relayer")


def test_the_trader_of_a_router_may_be_a_programs_account() -> None:
    tx = through(OKX, b"any swap", "vault x x", "keeper", giver="vault")
    swap = swap_of(tx)
    assert (swap.router, swap.wallet) == ("okx", builder.address("vault"))


def test_an_instruction_without_a_known_trader_is_its_signers() -> None:
    tx = through(JUPITER, b"a new route", "x shared user", "relayer", "user")
    assert swap_of(tx).wallet == builder.address("user")


@pytest.mark.parametrize("giver", ["user", "agent"])
def test_an_unknown_go_between_leads_to_the_owner_of_the_moved_tokens(giver: str) -> None:
    """Signer or not: `agent` is a program's own account."""
    swap = swap_of(through("unknown", b"", "x", "user", giver=giver))
    assert (swap.router, swap.wallet) == ("", builder.address(giver))


def test_an_account_that_keeps_the_tokens_is_the_trader() -> None:
    tx = builder.TransactionBuilder("keeper")
    for name, mint, owner in (
        ("agent_usdc", USDC, "agent"),
        ("agent_token", "token", "agent"),
        ("vault_usdc", USDC, "pool"),
        ("vault_token", "token", "pool"),
    ):
        tx.token(name, mint, owner, 10**6)
    names = "agent auth x pool agent_usdc agent_token vault_usdc vault_token x x x x x"
    call = tx.call(CPMM, names, SWAP + bytes(16), under=tx.call("unknown", "keeper", b""))
    tx.transfer(call, "agent_usdc", "vault_usdc", "agent", PAID)
    tx.transfer(call, "vault_token", "agent_token", "auth", GOT)
    assert swap_of(tx).wallet == builder.address("agent")


def test_a_sponsor_swaps_for_another_signer() -> None:
    """DFlow: the user hands the tokens to a sponsor, who signs, swaps and hands on."""
    tx = builder.TransactionBuilder("sponsor", "user")
    for name, mint, owner in (
        ("user_usdc", USDC, "user"),
        ("user_token", "token", "user"),
        ("sponsor_usdc", USDC, "sponsor"),
        ("sponsor_token", "token", "sponsor"),
        ("vault_usdc", USDC, "pool"),
        ("vault_token", "token", "pool"),
    ):
        tx.token(name, mint, owner, 10**6)
    tx.transfer(tx.call(DFLOW, "user", b"transfer"), "user_usdc", "sponsor_usdc", "user", PAID)
    outer = tx.call(DFLOW, "x x x sponsor", b"swap")
    names = "sponsor auth x pool sponsor_usdc sponsor_token vault_usdc vault_token x x x x x"
    call = tx.call(CPMM, names, SWAP + bytes(16), under=outer)
    tx.transfer(call, "sponsor_usdc", "vault_usdc", "sponsor", PAID)
    tx.transfer(call, "vault_token", "sponsor_token", "auth", GOT)
    tx.transfer(outer, "sponsor_token", "user_token", "sponsor", GOT)
    swap = swap_of(tx)
    assert (swap.router, swap.wallet) == ("dflow", builder.address("user"))


@pytest.mark.parametrize("lamports", [10_000, 0])
def test_an_app_is_recognized_by_its_fee(lamports: int) -> None:
    tx, _ = examples.swap(examples.EXAMPLES["raydium-cpmm"])
    tx.send(None, "trader", TROJAN_FEES, lamports)
    assert swap_of(tx).router == ("trojan" if lamports else "")


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("[a]\nprograms = ['abc']", "[a] programs: abc: "),
        ("[a]\nfees = ['abc']", "[a]: does not take ['fees']"),
        (
            f"[a]\nprograms = ['{JUPITER}']\n[b]\nprograms = ['{JUPITER}']",
            f"[b] and [a] both claim {JUPITER}",
        ),
    ],
)
def test_what_is_refused(document: str, says: str) -> None:
    with pytest.raises(RoutersError) as error:
        read_routers(tomllib.loads(document))
    assert says in str(error.value)


def test_recorded_swaps_belong_to_the_owner_of_the_changed_tokens(corpus: Any) -> None:
    """Of the signers, those whose tokens changed; else orders' owners, whose keeper signed.

    Beside them there are two known accounts of programs.
    """
    programs = {
        "BwWK17cbHxwWBKZkUYvzxLcNQ1YVyaFezduWbtm2de6s",  # pump.fun's agent of Mayhem coins, twice
        "3qrD9c25pkdFSNWewtpX3jB4CvuFMDstmDWqe2iqFgdn",  # a vault that trades through OKX
    }
    seen = set()
    for answer, info in corpus.values():
        keys = answer["transaction"]["message"]["accountKeys"]
        signers = set(keys[: answer["transaction"]["message"]["header"]["numRequiredSignatures"]])
        changed = {
            account["owner"]
            for before, after in (("preTokenBalances", "postTokenBalances"),)
            for account in answer["meta"].get(after) or []
            if account.get("owner") in signers
            and account["uiTokenAmount"]["amount"]
            != next(
                (
                    other["uiTokenAmount"]["amount"]
                    for other in answer["meta"].get(before) or []
                    if other["accountIndex"] == account["accountIndex"]
                ),
                "0",
            )
        }
        for event in decode_update(info, answer["slot"], 0).events:
            if isinstance(event, Swap):
                if event.keeper:
                    assert event.keeper in signers
                elif event.wallet not in signers:
                    assert event.wallet in programs
                    seen.add(event.wallet)
                elif changed:
                    assert event.wallet in changed, event.signature
    assert seen == programs
