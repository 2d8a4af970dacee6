"""A route's hop through a program that no decoder knows is what it moved."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.decoding.reading import decode_update
from schemas.events import Side, Swap
from schemas.money import WSOL
from schemas.solana.addresses import has_private_key, key
from tests.support.decoding import builder
from tests.support.decoding.builder import address

JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
OKX = "proVF4pMXVaYqmy4NjniPh4pqKNfMmsihgd4wdkCX3u"
ROUTE = bytes.fromhex("e517cb977ae3ad2a")
SHARED_ROUTE = bytes.fromhex("c1209b3341d69c81")
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


def accounts(tx: Any, trader: str = "trader") -> None:
    """Give a trader and an AMM accounts; the address made of `vaults` is a program's."""
    for name, mint, owner in (
        ("dollars", USDC, trader),
        ("coins", "coin", trader),
        ("receipts", "receipt", trader),
        ("vault in", USDC, "vaults"),
        ("vault out", "coin", "vaults"),
    ):
        tx.token(name, mint, owner, 10_000)


def swaps_of(tx: Any, *, heights: bool = True) -> list[Swap]:
    decoded = decode_update(tx.info(heights=heights), 1, 2)
    assert not decoded.undecoded
    return [event for event in decoded.events if isinstance(event, Swap)]


@pytest.mark.parametrize("shared", [True, False])
def test_an_unknown_pool_in_a_route(shared: bool) -> None:
    """Trader and pool both gave one mint for another: the trader signed, or was routed."""
    tx = builder.TransactionBuilder("trader")
    accounts(tx, "shared" if shared else "trader")
    route = tx.call(
        JUPITER, "x x trader" if shared else "x trader", SHARED_ROUTE if shared else ROUTE
    )
    if shared:
        tx.token("own dollars", USDC, "trader", 10_000)
        tx.token("own coins", "coin", "trader")
        tx.transfer(route, "own dollars", "dollars", "trader", 500)
    hop = tx.call("a new amm", "x", b"swap", under=route)
    tx.transfer(hop, "vault out", "coins", "vaults", 70)
    tx.transfer(hop, "dollars", "vault in", "shared" if shared else "trader", 500)
    if shared:
        tx.transfer(route, "coins", "own coins", "shared", 70)
    (swap,) = swaps_of(tx)
    assert (swap.dex, swap.program_id) == ("unlisted", address("a new amm"))
    assert (swap.pool, swap.wallet, swap.router) == (address("vaults"), tx.keys[0], "jupiter")
    assert (swap.side, swap.amount_raw, swap.quote_amount_raw) == (Side.BUY, 70, 500)


def test_a_receipt_token_in_a_route() -> None:
    tx = builder.TransactionBuilder("trader")
    accounts(tx)
    route = tx.call(JUPITER, "x trader", ROUTE)
    hop = tx.call("a lender", "x", b"deposit", under=route)
    inner = tx.call("its vaults", "x", b"deposit", under=hop)
    tx.transfer(inner, "dollars", "vault in", "trader", 500)
    tx.mint_to(hop, "receipt", "receipts", 450)
    (swap,) = swaps_of(tx)
    assert (swap.mint, swap.amount_raw, swap.quote_amount_raw) == (address("receipt"), 450, 500)
    assert swap.side is Side.BUY


def test_a_fee_out_of_what_was_bought_is_not_what_was_paid() -> None:
    tx = builder.TransactionBuilder("trader")
    accounts(tx)
    tx.token("fees", "coin", "app")
    route = tx.call(JUPITER, "x trader", ROUTE)
    hop = tx.call("a new amm", "x", b"swap", under=route)
    tx.transfer(hop, "dollars", "vault in", "trader", 500)
    tx.transfer(hop, "vault out", "coins", "vaults", 7_000)
    tx.transfer(hop, "vault out", "fees", "vaults", 600)
    (swap,) = swaps_of(tx)
    assert (swap.pool, swap.side) == (address("vaults"), Side.BUY)
    assert (swap.amount_raw, swap.wallet_amount_raw) == (7_600, 7_000)
    assert (swap.quote_amount_raw, swap.wallet_quote_amount_raw) == (500, 500)


def test_a_transfer_of_sol_that_is_cut_short_moved_nothing() -> None:
    tx = builder.TransactionBuilder("trader")
    accounts(tx)
    hop = tx.call("a new amm", "x", b"swap", under=tx.call(JUPITER, "x trader", ROUTE))
    tx.transfer(hop, "dollars", "vault in", "trader", 500)
    tx.call(builder.SYSTEM, "trader vaults", b"\2\0\0\0" + bytes(7), under=hop)
    tx.transfer(hop, "vault out", "coins", "vaults", 70)
    (swap,) = swaps_of(tx)
    assert (swap.amount_raw, swap.quote_amount_raw) == (70, 500)


@pytest.mark.parametrize("how", ["paid back", "handed over"])
def test_a_hop_names_no_pool_that_did_not_pay_out(how: str) -> None:
    """A price there would be the pool's: what pays out ends as it began, or with another owner."""
    tx = builder.TransactionBuilder("trader")
    accounts(tx)
    tx.token("pool's vault", USDC, "a real pool", 10_000)
    tx.token("payer", "coin", "a real pool" if how == "handed over" else "attacker", 10_000)
    hop = tx.call("a new amm", "x", b"swap", under=tx.call(JUPITER, "x trader", ROUTE))
    tx.transfer(hop, "dollars", "pool's vault", "trader", 5)
    tx.transfer(hop, "payer", "coins", "attacker", 7_000)
    if how == "paid back":
        tx.transfer(None, "coins", "payer", "trader", 7_000)
    else:
        pool = key(address("a real pool"))
        tx.call(builder.TOKEN, "payer attacker", b"\x06\x02\x01" + pool)
    info = tx.info()
    at = tx.keys.index(address("payer"))
    (before,) = (each for each in info.meta.pre_token_balances if each.account_index == at)
    before.owner = address("attacker")
    (swap,) = decode_update(info, 1, 2).events
    assert isinstance(swap, Swap)
    assert (swap.amount_raw, swap.quote_amount_raw) == (7_000, 5)
    assert swap.pool == address("coin" if how == "paid back" else "attacker")


def test_an_account_of_a_wallet_that_a_hop_pays_into_is_no_vault() -> None:
    """A vault is no holder's for good: dust would hide a wallet among the holders."""
    assert has_private_key(address("maker"))
    tx = builder.TransactionBuilder("trader")
    accounts(tx)
    tx.token("wallet's", "coin", "maker", 10_000)
    hop = tx.call("a new amm", "x", b"swap", under=tx.call(JUPITER, "x trader", ROUTE))
    tx.transfer(hop, "coins", "wallet's", "trader", 5)
    tx.transfer(hop, "vault in", "dollars", "vaults", 7)
    decoded = decode_update(tx.info(), 1, 2)
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    assert (swap.pool, swap.amount_raw, swap.quote_amount_raw) == (address("vaults"), 5, 7)
    found = {balance.owner: balance.is_vault for balance in decoded.balances}
    assert not found[address("maker")]
    (movement,) = decoded.movements
    assert (movement.wallet, movement.received_raw) == (address("maker"), 5)


def test_a_wallet_that_a_hop_is_paid_by_is_no_pool() -> None:
    tx = builder.TransactionBuilder("trader")
    accounts(tx)
    tx.token("wallet's", "coin", "maker", 10_000)
    hop = tx.call("a new amm", "x", b"swap", under=tx.call(JUPITER, "x trader", ROUTE))
    tx.transfer(hop, "dollars", "vault in", "trader", 7)
    tx.transfer(hop, "wallet's", "coins", "maker", 5)
    decoded = decode_update(tx.info(), 1, 2)
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    assert (swap.pool, swap.amount_raw, swap.quote_amount_raw) == (address("coin"), 5, 7)
    assert not any(balance.is_vault for balance in decoded.balances)


def test_sol_that_was_wrapped_in_an_account_that_changes_hands_was_paid_once() -> None:
    tx = builder.TransactionBuilder("trader")
    accounts(tx)
    tx.token("wrapped", WSOL, "friend", 10_000)
    tx.token("sol vault", WSOL, "vaults")
    hop = tx.call("a new amm", "x", b"swap", under=tx.call(JUPITER, "x trader", ROUTE))
    tx.send(hop, "trader", "wrapped", 500)
    tx.call(builder.TOKEN, "wrapped", b"\x11", under=hop)
    tx.transfer(hop, "wrapped", "sol vault", "trader", 500)
    tx.tokens[address("wrapped")].post_raw += 500
    tx.transfer(hop, "vault out", "coins", "vaults", 70)
    tx.call(builder.TOKEN, "wrapped trader", b"\x06\x02\x01" + key(address("friend")))
    info = tx.info()
    at = tx.keys.index(address("wrapped"))
    (before,) = (each for each in info.meta.pre_token_balances if each.account_index == at)
    before.owner = address("trader")
    (swap,) = decode_update(info, 1, 2).events
    assert isinstance(swap, Swap)
    assert (swap.wallet, swap.amount_raw, swap.quote_amount_raw) == (address("trader"), 70, 500)
    assert swap.wallet_quote_amount_raw == 500


@pytest.mark.parametrize("burnt", [True, False])
@pytest.mark.parametrize("paid_in", [USDC, "coin"])
def test_a_hop_that_takes_an_issuers_token_from_a_wallet_is_no_trade_of_the_wallet(
    paid_in: str, burnt: bool
) -> None:
    """A permanent delegate of Token-2022 takes it; nobody who is routed signed."""
    tx = builder.TransactionBuilder("attacker")
    tx.token("issued", "issued mint", "wallet", 1_000, program=builder.TOKEN_2022)
    tx.token("paid", paid_in, "wallet")
    tx.token("sink", "issued mint", "another", program=builder.TOKEN_2022)
    tx.token("funds", paid_in, "vaults", 1_000)
    program = tx.call("a program", "attacker", b"attack")
    route = tx.call(JUPITER, "x program", ROUTE, under=program)
    hop = tx.call("a new amm", "wallet", b"swap", under=route)
    if burnt:
        tx.burn(hop, "issued mint", "issued", "delegate", 500)
    else:
        tx.transfer(hop, "issued", "sink", "delegate", 500)
    tx.transfer(hop, "funds", "paid", "vaults", 70)
    (swap,) = swaps_of(tx)
    assert swap.wallet == address("vaults" if burnt else "delegate")


@pytest.mark.parametrize("recorded", [True, False])
def test_what_left_an_account_was_of_the_mint_that_it_had_then(recorded: bool) -> None:
    """An account of a worthless mint is closed, and opened again for dollars."""
    tx = builder.TransactionBuilder("trader")
    accounts(tx)
    tx.token("paid from", USDC, "trader", 10**18, recorded=recorded)
    tx.token("junk vault", "junk", "vaults")
    owner = key(address("trader"))
    if not recorded:
        tx.call(builder.TOKEN, ["paid from", "junk"], b"\x12" + owner)
    hop = tx.call("a new amm", "x", b"swap", under=tx.call(JUPITER, "x trader", ROUTE))
    tx.transfer(hop, "paid from", "junk vault", "trader", 10**18)
    tx.transfer(hop, "vault out", "coins", "vaults", 70)
    tx.call(builder.TOKEN, ["paid from", "trader", "trader"], b"\x09")
    tx.call(builder.TOKEN, ["paid from", USDC], b"\x12" + owner)
    info = tx.info()
    at = tx.keys.index(address("paid from"))
    for before in info.meta.pre_token_balances:
        if before.account_index == at:
            before.mint = address("junk")
    (swap,) = decode_update(info, 1, 2).events
    assert isinstance(swap, Swap)
    assert {swap.mint, swap.quote_mint} == {address("coin"), address("junk")}


@pytest.mark.parametrize("called", ["a new amm", "a notary"])
def test_a_hop_through_another_router_counts_once(called: str) -> None:
    """A wrapper's exchange is that of the router it calls, where that calls one that exchanges."""
    tx = builder.TransactionBuilder("trader")
    accounts(tx)
    wrapper = tx.call("a wrapper", "x", b"swap", under=tx.call(OKX, "trader", b"any swap"))
    inner = tx.call(called, "x", b"call", under=tx.call(JUPITER, "x trader", ROUTE, under=wrapper))
    pays = inner if called == "a new amm" else wrapper
    tx.transfer(pays, "dollars", "vault in", "trader", 500)
    tx.transfer(pays, "vault out", "coins", "vaults", 70)
    (swap,) = swaps_of(tx)
    assert swap.program_id == address("a new amm" if called == "a new amm" else "a wrapper")
    assert (swap.amount_raw, swap.quote_amount_raw, swap.router) == (70, 500, "okx")


@pytest.mark.parametrize("given_raw", [1, 10**8])
def test_a_hop_hides_no_exchange_behind_one_of_its_own_accounts(given_raw: int) -> None:
    """A pool that calls a router itself, for tokens of its own: what it gave the trader counts."""
    tx = builder.TransactionBuilder("trader")
    accounts(tx)
    for number, mint in enumerate(("held", "dust")):
        tx.token(f"own {mint}", mint, "the pool", 10**9)
        tx.token(f"its {mint}", mint, f"its vaults {number}", 10**9)
    pool = tx.call("a new amm", "x", b"swap", under=tx.call(OKX, "trader", b"any swap"))
    tx.transfer(pool, "dollars", "vault in", "trader", 500)
    tx.transfer(pool, "vault out", "coins", "vaults", 70)
    inner = tx.call("its own", "x", b"call", under=tx.call(JUPITER, "x pool", ROUTE, under=pool))
    tx.transfer(inner, "own held", "its held", "the pool", given_raw)
    tx.transfer(inner, "its dust", "own dust", "its vaults 1", 1)
    (swap,) = swaps_of(tx)
    assert (swap.wallet, swap.program_id) == (address("trader"), address("a new amm"))
    assert (swap.amount_raw, swap.quote_amount_raw) == (70, 500)


def test_a_route_within_a_hop_is_its_swaps_where_they_add_up() -> None:
    """Two pools in a row, by a router that a wrapper calls: a part of them is not the hop."""
    for pays in (500, 499):
        tx = builder.TransactionBuilder("trader")
        accounts(tx)
        for name, owner in (("receipts in", "others"), ("receipts out", "vaults")):
            tx.token(name, "receipt", owner, 10_000)
        tx.token("coins out", "coin", "others", 10_000)
        wrapper = tx.call("a wrapper", "x", b"swap", under=tx.call(OKX, "trader", b"any swap"))
        route = tx.call(JUPITER, "x trader", ROUTE, under=wrapper)
        first = tx.call("a new amm", "x", b"swap", under=route)
        tx.transfer(first, "dollars", "vault in", "trader", pays)
        tx.transfer(first, "receipts out", "receipts", "vaults", 450)
        second = tx.call("a newer amm", "x", b"swap", under=route)
        tx.transfer(second, "receipts", "receipts in", "trader", 450)
        tx.transfer(second, "coins out", "coins", "others", 70)
        if pays != 500:
            tx.transfer(wrapper, "dollars", "vault in", "trader", 500 - pays)
        swaps = swaps_of(tx)
        programs = ["a new amm", "a newer amm"] if pays == 500 else ["a wrapper"]
        assert [swap.program_id for swap in swaps] == [address(name) for name in programs]


def test_what_is_no_exchange_is_no_hop() -> None:
    """A fee, a program that moved nothing, two mints for one, and a call outside a route."""
    tx = builder.TransactionBuilder("trader")
    accounts(tx)
    route = tx.call(JUPITER, "x trader", ROUTE)
    tx.transfer(tx.call("fees", "x", b"fee", under=route), "dollars", "vault in", "trader", 5)
    tx.call("oracle", "x", b"update", under=route)
    both = tx.call("liquidity", "x", b"deposit", under=route)
    tx.transfer(both, "dollars", "vault in", "trader", 5)
    tx.transfer(both, "coins", "vault out", "trader", 5)
    tx.mint_to(both, "receipt", "receipts", 5)
    alone = tx.call("a new amm", "x", b"swap")
    tx.transfer(alone, "dollars", "vault in", "trader", 500)
    tx.transfer(alone, "vault out", "coins", "vaults", 70)
    assert swaps_of(tx) == []


def test_without_heights_what_a_router_called_is_not_known() -> None:
    tx = builder.TransactionBuilder("trader")
    accounts(tx)
    route = tx.call(JUPITER, "x trader", ROUTE)
    hop = tx.call("a new amm", "x", b"swap", under=route)
    tx.transfer(hop, "dollars", "vault in", "trader", 500)
    tx.transfer(hop, "vault out", "coins", "vaults", 70)
    assert swaps_of(tx, heights=False) == []
