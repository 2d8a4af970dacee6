"""Which exchanges the decoded swaps explain, to the last unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from struct import pack
from typing import Any

import pytest

from pipeline.decoders import moonit
from pipeline.decoding.contract import Leg
from pipeline.decoding.explaining import Explanation, explain
from pipeline.decoding.reading import Reading, decode_update, read
from pipeline.decoding.registry import PROGRAMS
from pipeline.decoding.tips import TIP_ACCOUNTS
from pipeline.solana.transaction import Transaction
from schemas.events import Event, Swap
from schemas.money import WSOL
from schemas.solana.addresses import text
from tests.pipeline.conftest import Recorded
from tests.support.decoding import builder
from tests.support.decoding.builder import address

USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
LIMIT = "jupoNjAxXgZ4rjzxzPMP4oxduvQsQtZzyknqvzYNrNu"
SHARED_ROUTE = bytes.fromhex("c1209b3341d69c81")
PRE_FLASH_FILL, FLASH_FILL = bytes.fromhex("f02f99440dbee12a"), bytes.fromhex("fc681286a44e128c")
SWAP, DEPOSIT = bytes.fromhex("8fbe5adac41e33de"), bytes.fromhex("f223c68952e1f2b6")
STRANGER = address("a stranger")


def explained(tx: builder.TransactionBuilder, *empty: str) -> Explanation | None:
    """Explain a transaction before which `empty` accounts had nothing."""
    tx.gain(tx.keys[0], -5_000 * tx.signers)
    info = tx.info()
    for name in empty:
        at = tx.keys.index(address(name))
        info.meta.post_balances[at] -= info.meta.pre_balances[at]
        info.meta.pre_balances[at] = 0
    transaction = Transaction(info, 1, 2, PROGRAMS)
    return explain(transaction, list(read(transaction, [])), decode_update(info, 1, 2).events)


def left(tx: builder.TransactionBuilder) -> dict[str, dict[str, int]]:
    explanation = explained(tx)
    assert explanation is not None
    return explanation.unexplained


def market(*signers: str) -> builder.TransactionBuilder:
    tx = builder.TransactionBuilder(*(signers or ("trader",)))
    for name, mint, owner in (
        ("dollars", USDC, "trader"),
        ("coins", "coin", "trader"),
        ("receipts", "receipt", "trader"),
        ("fees", USDC, "app"),
        ("fee coins", "coin", "app"),
        ("shared dollars", USDC, "shared"),
        ("shared coins", "coin", "shared"),
        ("vault in", USDC, "auth"),
        ("vault out", "coin", "auth"),
        ("other in", "coin", "amm"),
        ("other out", "receipt", "amm"),
    ):
        tx.token(name, mint, owner, 10**9)
    return tx


def buy(
    tx: builder.TransactionBuilder, under: Any = None, *, who: str = "trader", of: str = ""
) -> Any:
    paying, getting = f"{of}dollars", f"{of}coins"
    names = [who, "auth", "x", "pool", paying, getting, "vault in", "vault out"]
    call = tx.call(CPMM, [*names, *["x"] * 5], SWAP + bytes(16), under=under)
    tx.transfer(call, paying, "vault in", who, 500)
    tx.transfer(call, "vault out", getting, "auth", 70)
    return call


def undecoded_hop(tx: builder.TransactionBuilder) -> None:
    call = tx.call("a new amm", "x", b"swap", logs=["log: Instruction: Trade"])
    tx.transfer(call, "coins", "other in", "trader", 70)
    tx.transfer(call, "other out", "receipts", "amm", 9)


def test_a_swap_explains_its_trader_and_its_pool() -> None:
    tx = market()
    buy(tx)
    assert explained(tx) == Explanation()


def test_a_sale_explains_them_too() -> None:
    tx = market()
    names = ["trader", "auth", "x", "pool", "coins", "dollars", "vault out", "vault in"]
    call = tx.call(CPMM, [*names, *["x"] * 5], SWAP + bytes(16))
    tx.transfer(call, "coins", "vault out", "trader", 70)
    tx.transfer(call, "vault in", "dollars", "auth", 500)
    assert explained(tx) == Explanation()


def test_nobody_exchanged() -> None:
    tx = market()
    tx.transfer(None, "coins", "vault out", "trader", 30)
    assert explained(tx) is None


@pytest.mark.parametrize("mint", [USDC, "coin", WSOL])
@pytest.mark.parametrize("amount_raw", [1, -1])
def test_one_unit_that_nothing_moved_is_left_in_any_mint(mint: str, amount_raw: int) -> None:
    """Not only where it makes a fall and a rise."""
    tx = market()
    buy(tx)
    if mint == WSOL:
        tx.gain("trader", amount_raw)
    else:
        tx.tokens[address("dollars" if mint == USDC else "coins")].post_raw += amount_raw
    assert left(tx)[address("trader")] == {address(mint): amount_raw}


def test_plain_transfers_explain_the_rest() -> None:
    tx = market()
    buy(tx)
    tx.token("friend's", "coin", "friend")
    tx.transfer(None, "coins", "friend's", "trader", 30)
    tx.send(None, "trader", "friend", 50_000_000)
    assert explained(tx) == Explanation()


def test_what_a_program_cuts_off_explains_the_rest_and_is_named() -> None:
    tx = market()
    route = tx.call("an app", "x", b"route")
    tx.transfer(route, "dollars", "fees", "trader", 3)
    buy(tx, route)
    assert explained(tx) == Explanation(cuts=frozenset({address("an app")}))


def test_cuts_that_take_one_mint_and_give_another_are_an_exchange() -> None:
    tx = market()
    route = tx.call("an app", "x", b"route")
    tx.transfer(route, "dollars", "fees", "trader", 3)
    tx.transfer(route, "fee coins", "coins", "app", 4)
    buy(tx, route)
    assert left(tx)[address("trader")] == {USDC: -3, address("coin"): 4}


def test_a_tip_that_a_program_sends_is_no_cut() -> None:
    tx = market()
    app = tx.call("an app", "x", b"route")
    buy(tx, app)
    tx.send(app, "trader", text(min(TIP_ACCOUNTS)), 10_000)
    tx.transfer(app, "fee coins", "coins", "app", 4)  # a bonus
    assert explained(tx) == Explanation(cuts=frozenset({address("an app")}))


def test_a_hop_that_nothing_decodes_is_left_under_its_name() -> None:
    tx = market()
    buy(tx)
    undecoded_hop(tx)
    explanation = explained(tx)
    assert explanation is not None
    assert explanation.unexplained == {
        address("trader"): {address("coin"): -70, address("receipt"): 9},
        address("amm"): {address("coin"): 70, address("receipt"): -9},
    }
    assert f"{address('a new amm')} Trade" in explanation.causes


def test_liquidity_beside_a_swap_is_taken_off() -> None:
    tx = market()
    buy(tx)
    call = tx.call(CPMM, "x", DEPOSIT + bytes(8))
    tx.transfer(call, "dollars", "vault in", "trader", 100)
    tx.mint_to(call, "receipt", "receipts", 90)
    assert explained(tx) == Explanation()


def test_liquidity_alone_is_excluded() -> None:
    tx = market()
    call = tx.call(CPMM, "x", DEPOSIT + bytes(8))
    tx.transfer(call, "dollars", "vault in", "trader", 100)
    tx.mint_to(call, "receipt", "receipts", 90)
    assert explained(tx) == Explanation(excluded=frozenset({"raydium-cpmm deposit (liquidity)"}))


# Rent


@pytest.mark.parametrize("inside", [True, False])
def test_rent_is_taken_off_within_swaps_too(inside: bool) -> None:
    """CreateAccount, and a transfer of exactly what an empty account needs."""
    tx = market()
    call = buy(tx)
    data = pack("<I", 0) + pack("<QQ", 7_000_000, 165) + bytes(32)
    tx.call(builder.SYSTEM, "trader opened", data, under=call if inside else None)
    tx.gain("trader", -7_000_000)
    tx.gain("opened", 7_000_000)
    tx.send(call if inside else None, "trader", "creator's", 890_880)
    assert explained(tx, "opened", "creator's") == Explanation()


@pytest.mark.parametrize("closed", [1, 2])
@pytest.mark.parametrize(("missing", "is_explained"), [(0, True), (1, False)])
def test_rent_that_a_program_returns_is_taken_off(
    closed: int, missing: int, is_explained: bool
) -> None:
    """Its own account's lamports, by no instruction: all or nothing."""
    tx = market()
    buy(tx)
    for number in range(closed):
        tx.call("a program", f"closed{number}", b"close")
        tx.gain(f"closed{number}", -(10**12))
    tx.gain("trader", closed * 10**12 - missing)
    explanation = explained(tx)
    assert explanation is not None
    assert (not explanation.unexplained) == is_explained


# Accounts of others


def route(tx: builder.TransactionBuilder, kept: int = 0) -> None:
    """A route over accounts of the router's own, which keeps a part."""
    call = tx.call(JUPITER, "x shared trader", SHARED_ROUTE)
    tx.transfer(call, "dollars", "shared dollars", "trader", 500)
    buy(tx, call, who="shared", of="shared ")
    tx.transfer(call, "shared coins", "coins", "shared", 70 - kept)
    if kept:
        tx.transfer(call, "shared coins", "fee coins", "shared", kept)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_routers_accounts_are_the_traders(kept: int) -> None:
    tx = market()
    route(tx, kept)
    cuts = frozenset({"jupiter"} if kept else ())
    assert explained(tx) == Explanation(cuts=cuts)


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("booked_on", ["trader", "signer"])
def test_a_swap_that_another_signed_for_is_its_owners(booked_on: str, kept: int) -> None:
    """The signer's accounts pass on what another's gave and got, less what is kept."""
    tx = market("signer")
    tx.token("signer's dollars", USDC, "signer")
    tx.token("signer's coins", "coin", "signer")
    vault = tx.call("a vault program", "signer trader", b"trade")
    tx.transfer(vault, "dollars", "signer's dollars", "trader", 500)
    buy(tx, vault, who="signer", of="signer's ")
    tx.transfer(vault, "signer's coins", "coins", "signer", 70 - kept)
    tx.gain("signer", -5_000)
    info = tx.info()
    transaction = Transaction(info, 1, 2, PROGRAMS)
    (swap,) = decode_update(info, 1, 2).events
    assert isinstance(swap, Swap)
    if booked_on == "signer":
        swap = replace(swap, wallet=address("signer"), keeper="", wallet_amount_raw=70)
    explanation = explain(transaction, list(read(transaction, [])), [swap])
    assert explanation is not None
    found = explanation.unexplained.get(address("trader"))
    assert found == (None if booked_on == "trader" else {USDC: -500, address("coin"): 70 - kept})


@pytest.mark.parametrize("kept", [0, 30])
@pytest.mark.parametrize("missing", [0, 1])
def test_a_filled_order_explains_keeper_and_owner(kept: int, missing: int) -> None:
    tx = market("shared")
    tx.token("reserve", USDC, "order", 10**6)
    tx.call(LIMIT, "x", PRE_FLASH_FILL + bytes(8))
    tx.transfer(tx.calls[-1], "reserve", "shared dollars", "order", 500)
    buy(tx, who="shared", of="shared ")
    fill = tx.call(LIMIT, "x x trader shared x x x x x x x coin", FLASH_FILL + bytes(8))
    tx.transfer(fill, "shared coins", "coins", "shared", 60 - kept)
    tx.transfer(fill, "shared coins", "fee coins", "shared", 5)
    tx.tokens[address("coins")].post_raw -= missing
    explanation = explained(tx)
    assert explanation is not None
    assert bool(explanation.unexplained) == bool(missing)


def test_a_filled_order_over_two_pools_explains_keeper_and_owner() -> None:
    """Nothing is left between the pools: the coin there withholds 1 % of each transfer."""
    tx = market("shared")
    tx.token("reserve", USDC, "order", 10**6)
    tx.mint("between", fee_bps=100)
    for name, owner in (("shared between", "shared"), ("pays", "auth"), ("takes", "auth")):
        tx.token(name, "between", owner, 10**6, program=builder.TOKEN_2022)
    begin = tx.call(LIMIT, "x", PRE_FLASH_FILL + bytes(8))
    tx.transfer(begin, "reserve", "shared dollars", "order", 500)
    names = ["shared", "auth", "x", "one", "shared dollars", "shared between", "vault in", "pays"]
    one = tx.call(CPMM, [*names, *["x"] * 5], SWAP + bytes(16))
    tx.transfer(one, "shared dollars", "vault in", "shared", 500)
    tx.transfer(one, "pays", "shared between", "auth", 1_000, checked=True)
    names = ["shared", "auth", "x", "two", "shared between", "shared coins", "takes", "vault out"]
    two = tx.call(CPMM, [*names, *["x"] * 5], SWAP + bytes(16))
    tx.transfer(two, "shared between", "takes", "shared", 990, checked=True)
    tx.transfer(two, "vault out", "shared coins", "auth", 70)
    fill = tx.call(LIMIT, "x x trader shared x x x x x x x coin", FLASH_FILL + bytes(8))
    tx.transfer(fill, "shared coins", "coins", "shared", 60)
    assert explained(tx) == Explanation()


@pytest.mark.parametrize("after_a_swap", [False, True])
def test_sol_that_a_curve_pays_out_of_its_lamports(after_a_swap: bool) -> None:
    """No instruction moves it; the curve's coins are in an account of the curve."""
    tx = market()
    if after_a_swap:
        buy(tx)
    tx.token("vault", "coin", "curve", 10**9)
    accounts = "trader coins curve vault x x coin"
    call = tx.call(moonit.PROGRAM, accounts, moonit.SELL + bytes(25))
    tx.transfer(call, "coins", "vault", "trader", 70)
    tx.log_event(call, moonit.TRADE_EVENT + pack("<5Q", 70, 5_000_000, 0, 0, 1) + bytes(98))
    tx.gain("curve", -5_000_000)
    tx.gain("trader", 5_000_000)
    assert explained(tx) == Explanation()


# Recorded transactions: what is explained no longer is once anything is wrong with it.


def changed(events: Sequence[Event], swap: Swap, **fields: Any) -> list[Event]:
    return [replace(event, **fields) if event is swap else event for event in events]


def without(readings: Sequence[Reading], swap: Swap) -> list[Reading]:
    """Leave out the leg of a swap."""
    found = []
    for reading in readings:
        facts = tuple(
            fact
            for fact in reading.facts
            if not isinstance(fact, Leg)
            or swap.event_index != (reading.position if fact.position is None else fact.position)
        )
        found.append(replace(reading, facts=facts))
    return found


def test_nothing_wrong_stays_explained(corpus: dict[str, Recorded]) -> None:
    """Each recorded swap with one unit more on either side, of another wallet, or left out."""
    tried, missed = 0, []
    for signature, (_, info) in corpus.items():
        tx = Transaction(info, 1, 0, PROGRAMS)
        events, readings = decode_update(info, 1, 0).events, list(read(tx, []))
        explanation = None if tx.failed else explain(tx, readings, events)
        if explanation is None or explanation.excluded:
            continue
        assert not explanation.unexplained, signature
        for swap in [event for event in events if isinstance(event, Swap)]:
            more, quote_more = swap.wallet_amount_raw + 1, swap.wallet_quote_amount_raw + 1
            for what, wrong, of in (
                ("amount", changed(events, swap, wallet_amount_raw=more), readings),
                ("quote", changed(events, swap, wallet_quote_amount_raw=quote_more), readings),
                ("wallet", changed(events, swap, wallet=STRANGER), readings),
                ("left out", [e for e in events if e is not swap], without(readings, swap)),
            ):
                tried += 1
                result = explain(tx, of, wrong)
                if result is None or not result.unexplained:
                    missed.append((signature, swap.dex, what))
    assert tried >= 800
    assert not missed
