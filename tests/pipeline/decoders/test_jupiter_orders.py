"""Orders that Jupiter's keepers execute are their owners' swaps."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from pipeline.decoding.reading import Decoded, Reason, decode_update
from schemas.events import Movement, Side, Swap
from schemas.money import WSOL
from schemas.solana.addresses import key
from tests.support.decoding import builder
from tests.support.decoding.builder import address

USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
SWAP = bytes.fromhex("8fbe5adac41e33de")
LIMIT = "jupoNjAxXgZ4rjzxzPMP4oxduvQsQtZzyknqvzYNrNu"
TRIGGER = "j1o2qRpjcyUwEvwtcfhEQefh773ZgjxcVRry7LDqg5X"
DCA = "DCA265Vj8a9CEuX1eb1LWRnDT7uK6q1xMipnNyatn23M"
VALUE_AVERAGE = "VALaaymxQh2mNy2trH9jUqHT1mTow76wpTcGmSWSwJe"
PRE_FLASH_FILL = bytes.fromhex("f02f99440dbee12a")
FLASH_FILL = bytes.fromhex("fc681286a44e128c")
FILL = bytes.fromhex("e87a7319c78f88a2")
INITIATE = bytes.fromhex("8fcd03bfa2d7f531")
FULFILL = bytes.fromhex("7340e24e21d369a2")
IN, OUT, FEE, KEPT = 1_000, 2_000, 20, 30


def market(output: str = "coin", number: str = "") -> builder.TransactionBuilder:
    """A keeper with accounts of both mints, and a pool of them."""
    tx = builder.TransactionBuilder("keeper")
    tx.token("fees", output, "program fees")
    add_order(tx, number, output)
    for name, mint, owner in (
        ("keeper in", USDC, "keeper"),
        ("keeper out", output, "keeper"),
        ("vault in", USDC, "auth"),
        ("vault out", output, "auth"),
    ):
        tx.token(name, mint, owner, 10**6)
    return tx


def add_order(tx: builder.TransactionBuilder, number: str = "", output: str = "coin") -> None:
    tx.token(f"reserve{number}", USDC, f"order{number}", 10**6)
    tx.token(f"maker out{number}", output, f"maker{number}")


def swap_in_pool(tx: builder.TransactionBuilder, paid: int = IN, got: int = OUT) -> None:
    names = ["keeper", "auth", "x", "pool", "keeper in", "keeper out", "vault in", "vault out"]
    call = tx.call(CPMM, [*names, *["x"] * 5], SWAP + bytes(16))
    tx.transfer(call, "keeper in", "vault in", "keeper", paid)
    tx.transfer(call, "vault out", "keeper out", "auth", got)


def flash_fill(tx: builder.TransactionBuilder, program: str, number: str = "") -> None:
    """Borrow an order's input, swap it, and hand over the output less fee and profit."""
    order, reserve, maker = f"order{number}", f"reserve{number}", f"maker{number}"
    begin = tx.call(program, [order, reserve, "keeper"], PRE_FLASH_FILL + bytes(8))
    tx.transfer(begin, reserve, "keeper in", order, IN)
    swap_in_pool(tx)
    if program == LIMIT:
        names = [order, reserve, maker, "keeper", f"maker out{number}", *"xxxxx", "t", "coin"]
    else:
        names = ["keeper", maker, order, reserve, f"maker out{number}", "keeper out", *"xx", "coin"]
    call = tx.call(program, names, FLASH_FILL + bytes(8))
    tx.transfer(call, "keeper out", f"maker out{number}", "keeper", OUT - FEE - KEPT)
    tx.transfer(call, "keeper out", "fees", "keeper", FEE)


def swaps_of(decoded: Decoded) -> list[Swap]:
    assert not decoded.undecoded
    return [event for event in decoded.events if isinstance(event, Swap)]


def movements_of(decoded: Decoded) -> set[tuple[str, int, int]]:
    def row(each: Movement) -> tuple[str, int, int]:
        return each.wallet, each.received_raw, each.sent_raw

    return set(map(row, decoded.movements))


@pytest.mark.parametrize("program", [LIMIT, TRIGGER])
def test_a_limit_order_is_its_makers_trade(program: str) -> None:
    tx = market()
    flash_fill(tx, program)
    decoded = decode_update(tx.info(), 1, 2)
    (swap,) = swaps_of(decoded)
    assert (swap.wallet, swap.keeper) == (address("maker"), address("keeper"))
    assert (swap.side, swap.amount_raw, swap.quote_amount_raw) == (Side.BUY, OUT, IN)
    assert (swap.wallet_amount_raw, swap.wallet_quote_amount_raw) == (OUT - FEE - KEPT, IN)
    # What the maker received is what the swap says; the rest is the keeper's and the fee's.
    assert movements_of(decoded) == {
        (address("keeper"), KEPT, 0),
        (address("program fees"), FEE, 0),
    }


@pytest.mark.parametrize("program", [LIMIT, TRIGGER])
def test_two_orders_in_one_transaction_are_two_makers(program: str) -> None:
    tx = market()
    add_order(tx, "2")
    flash_fill(tx, program)
    flash_fill(tx, program, "2")
    swap_in_pool(tx, 5, 7)  # of the keeper's own
    wallets = [(swap.wallet, swap.keeper) for swap in swaps_of(decode_update(tx.info(), 1, 2))]
    assert wallets == [
        (address("maker"), address("keeper")),
        (address("maker2"), address("keeper")),
        (address("keeper"), ""),
    ]


@pytest.mark.parametrize("program", [LIMIT, TRIGGER])
def test_what_was_taken_for_another_order_is_not_the_makers(program: str) -> None:
    """An order of the attacker's own, of more: begun within the maker's, as if for that."""
    tx = market()
    add_order(tx, "2")
    for number, taken_raw in (("", IN), ("2", 9 * IN)):
        order, reserve = f"order{number}", f"reserve{number}"
        names = [order, reserve, "keeper"] if program == LIMIT else ["keeper", order, reserve]
        begin = tx.call(program, names, PRE_FLASH_FILL + bytes(8))
        tx.transfer(begin, reserve, "keeper in", order, taken_raw)
    swap_in_pool(tx, 9 * IN)
    if program == LIMIT:
        names = ["order", "reserve", "maker", "keeper", "maker out", *"xxxxx", "t", "coin"]
    else:
        names = ["keeper", "maker", "order", "reserve", "maker out", "keeper out", *"xx", "coin"]
    # With what the other instruction took among the accounts that the program does not read.
    fill = tx.call(program, [*names, "order2", "reserve2"], FLASH_FILL + bytes(8))
    tx.transfer(fill, "keeper out", "maker out", "keeper", OUT)
    (swap,) = swaps_of(decode_update(tx.info(), 1, 2))
    assert (swap.wallet, swap.keeper) == (address("keeper"), "")


def test_a_maker_may_be_paid_in_native_sol() -> None:
    tx = market(WSOL)
    begin = tx.call(LIMIT, "order reserve keeper", PRE_FLASH_FILL + bytes(8))
    tx.transfer(begin, "reserve", "keeper in", "order", IN)
    swap_in_pool(tx)
    names = ["order", "reserve", "maker", "keeper", "maker", *"xxxxx", "t", WSOL]
    tx.send(tx.call(LIMIT, names, FLASH_FILL + bytes(8)), "keeper", "maker", OUT - FEE)
    (swap,) = swaps_of(decode_update(tx.info(), 1, 2))
    assert (swap.wallet, swap.mint, swap.side) == (address("maker"), USDC, Side.SELL)
    assert (swap.quote_amount_raw, swap.wallet_quote_amount_raw) == (OUT, OUT - FEE)


@pytest.mark.parametrize(("closed_to", "received_raw"), [("maker", OUT - FEE), ("payer", OUT)])
def test_a_maker_who_is_paid_by_an_account_of_wrapped_sol(
    closed_to: str, received_raw: int
) -> None:
    """One closed to the maker pays what it held; where no payment is seen the pool's counts."""
    tx = market(WSOL)
    begin = tx.call(LIMIT, "order reserve keeper", PRE_FLASH_FILL + bytes(8))
    tx.transfer(begin, "reserve", "keeper in", "order", IN)
    swap_in_pool(tx)
    names = ["order", "reserve", "maker", "keeper", "maker", *"xxxxx", "t", WSOL]
    fill = tx.call(LIMIT, names, FLASH_FILL + bytes(8))
    tx.token("temporary", WSOL, "program")
    tx.transfer(fill, "keeper out", "temporary", "keeper", OUT - FEE)
    tx.call(builder.TOKEN, f"temporary {closed_to} program", b"\x09", under=fill)
    (swap,) = swaps_of(decode_update(tx.info(), 1, 2))
    assert (swap.wallet, swap.side) == (address("maker"), Side.SELL)
    assert (swap.quote_amount_raw, swap.wallet_quote_amount_raw) == (OUT, received_raw)


@pytest.mark.parametrize("how", ["tokens", "native", "closed"])
@pytest.mark.parametrize("program", [LIMIT, TRIGGER])
def test_nobody_sells_a_makers_input_at_a_price_that_the_maker_did_not_get(
    program: str, how: str
) -> None:
    """Who fills the order pays the maker, and swaps the input in a pool of their own for less."""
    tx = market(WSOL)
    tx.call(program, "order reserve keeper", PRE_FLASH_FILL + bytes(8))
    tx.transfer(tx.calls[-1], "reserve", "keeper in", "order", IN)
    swap_in_pool(tx, IN, OUT - FEE - 1)
    if program == LIMIT:
        names = ["order", "reserve", "maker", "keeper", "maker out", *"xxxxx", "t", WSOL]
    else:
        names = ["keeper", "maker", "order", "reserve", "maker out", "keeper out", *"xx", WSOL]
    fill = tx.call(program, names, FLASH_FILL + bytes(8))
    if how == "native":
        tx.send(fill, "keeper", "maker", OUT - FEE)
    elif how == "tokens":
        tx.transfer(fill, "keeper out", "maker out", "keeper", OUT - FEE)
    else:
        tx.token("temporary", WSOL, "program")
        tx.transfer(fill, "keeper out", "temporary", "keeper", OUT - FEE)
        tx.call(builder.TOKEN, "temporary maker program", b"\x09", under=fill)
    (swap,) = swaps_of(decode_update(tx.info(), 1, 2))
    assert (swap.wallet, swap.keeper) == (address("keeper"), "")


def test_a_limit_order_filled_out_of_the_keepers_own_tokens() -> None:
    tx = market()
    call = tx.call(TRIGGER, "keeper maker order reserve", FILL + bytes(16))
    tx.transfer(call, "reserve", "keeper in", "order", IN)
    tx.transfer(call, "keeper out", "maker out", "keeper", OUT)
    tx.transfer(call, "keeper out", "fees", "keeper", FEE)
    (swap,) = swaps_of(decode_update(tx.info(), 1, 2))
    assert (swap.dex, swap.pool) == ("jupiter-trigger", address("order"))
    assert (swap.wallet, swap.keeper) == (address("maker"), address("keeper"))
    assert (swap.side, swap.amount_raw, swap.quote_amount_raw) == (Side.BUY, OUT, IN)


@pytest.mark.parametrize("gives_first", [True, False])
def test_a_fill_gives_its_maker_what_left_the_keeper_however_much_came_to_it(
    gives_first: bool,
) -> None:
    tx = market(WSOL)
    call = tx.call(TRIGGER, "keeper maker order reserve", FILL + bytes(16))
    tx.transfer(call, "reserve", "keeper in", "order", 2 * OUT)
    tx.transfer(call, "keeper out", "maker out", "keeper", OUT)
    if gives_first:
        call.calls.reverse()
    (swap,) = swaps_of(decode_update(tx.info(), 1, 2))
    assert (swap.wallet, swap.mint, swap.quote_mint) == (address("maker"), USDC, WSOL)
    assert (swap.side, swap.amount_raw, swap.quote_amount_raw) == (Side.SELL, 2 * OUT, OUT)


def test_a_fill_that_moved_nothing_is_malformed() -> None:
    tx = market()
    tx.call(TRIGGER, "keeper maker order reserve", FILL + bytes(16))
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.events
    assert [miss.reason for miss in decoded.undecoded] == [Reason.MALFORMED]


def dca(tx: builder.TransactionBuilder, *, event: bool = True, fee: int = FEE) -> None:
    begin = tx.call(DCA, "keeper order", INITIATE)
    tx.transfer(begin, "reserve", "keeper in", "order", IN)
    swap_in_pool(tx)
    call = tx.call(DCA, "keeper order", FULFILL + bytes(8))
    tx.transfer(call, "keeper out", "maker out", "keeper", OUT - fee)
    tx.transfer(call, "keeper out", "fees", "keeper", fee)
    if event:
        keys = b"".join(key(address(name)) for name in ("maker", "order", USDC, "coin"))
        body = bytes.fromhex("8604113fdd2db1ad") + keys + pack("<QQ", IN, OUT - fee)
        tx.cpi_event(call, body + key(address("coin")) + pack("<Q", fee))


@pytest.mark.parametrize("fee", [0, 1, FEE])
def test_dca_is_its_owners_trade(fee: int) -> None:
    tx = market()
    dca(tx, fee=fee)
    decoded = decode_update(tx.info(), 1, 2)
    (swap,) = swaps_of(decoded)
    assert (swap.wallet, swap.keeper) == (address("maker"), address("keeper"))
    assert (swap.amount_raw, swap.wallet_amount_raw) == (OUT, OUT - fee)
    assert movements_of(decoded) == ({(address("program fees"), fee, 0)} if fee else set())


def test_dca_without_its_event_is_reported() -> None:
    tx = market()
    dca(tx, event=False)
    decoded = decode_update(tx.info(), 1, 2)
    assert [(miss.dex, miss.reason) for miss in decoded.undecoded] == [
        ("jupiter-dca", Reason.MALFORMED)
    ]


def test_value_average_names_owner_and_keeper_in_its_event() -> None:
    tx = market()
    swap_in_pool(tx)
    call = tx.call(VALUE_AVERAGE, "keeper order", bytes(8))
    tx.transfer(call, "keeper out", "maker out", "keeper", OUT)
    keys = b"".join(key(address(name)) for name in ("order", "maker", "keeper", USDC, "coin"))
    tx.cpi_event(call, bytes.fromhex("4ee1c79a56dbe0a9") + keys + pack("<QQQ", IN, OUT, 0))
    (swap,) = swaps_of(decode_update(tx.info(), 1, 2))
    assert (swap.wallet, swap.keeper) == (address("maker"), address("keeper"))


@pytest.mark.parametrize("build", [lambda tx: flash_fill(tx, LIMIT), dca])
def test_a_keepers_route_over_two_pools_ends_with_what_the_owner_received(build: Any) -> None:
    """The profit may be more than the last leg of several gave: no leg goes below nothing."""
    tx = market()
    build(tx)
    for _ in range(2):
        swap_in_pool(tx, IN // 2)
    begin, _, fill, *route = tx.calls
    tx.calls = [begin, *route, fill]
    swaps = swaps_of(decode_update(tx.info(), 1, 2))
    assert len(swaps) == 2
    assert all(swap.wallet_amount_raw >= 0 for swap in swaps)
    assert sum(swap.wallet_amount_raw for swap in swaps) in (OUT - FEE, OUT - FEE - KEPT)


def swap_of_another(
    tx: builder.TransactionBuilder, paid: str, got: str, paid_raw: int, got_raw: int
) -> None:
    """Swap in another pool, between the keeper's accounts and the vaults of these names."""
    names = ["keeper", "auth", "x", "other pool", f"keeper {paid}", f"keeper {got}"]
    call = tx.call(CPMM, [*names, f"vault {paid}", f"vault {got}", *["x"] * 5], SWAP + bytes(16))
    tx.transfer(call, f"keeper {paid}", f"vault {paid}", "keeper", paid_raw)
    tx.transfer(call, f"vault {got}", f"keeper {got}", "auth", got_raw)


def with_third(build: Any) -> builder.TransactionBuilder:
    tx = market()
    for name, owner in (("keeper third", "keeper"), ("vault third", "auth")):
        tx.token(name, "third", owner, 10**6)
    build(tx)
    return tx


def test_only_what_gave_the_output_is_cut_to_what_the_owner_received() -> None:
    """A part of the input went elsewhere, last: the keeper has that."""
    tx = with_third(dca)
    first = next(call for call in tx.calls if call.program == CPMM)
    tx.calls.remove(first)
    swap_in_pool(tx, IN - 100)
    swap_of_another(tx, "in", "third", 100, 8)
    begin, fill, route, last = tx.calls
    tx.calls = [begin, route, last, fill]
    swaps = swaps_of(decode_update(tx.info(), 1, 2))
    received = [(swap.wallet_amount_raw, swap.wallet_quote_amount_raw) for swap in swaps]
    assert received == [(OUT - FEE, IN - 100), (8, 100)]
    assert {swap.wallet for swap in swaps} == {address("maker")}


@pytest.mark.parametrize("build", [lambda tx: flash_fill(tx, LIMIT), dca])
@pytest.mark.parametrize("extra", [("third", "in", 8, 1), ("in", "third", 1, 8)])
def test_nobody_puts_trades_into_the_books_of_a_maker_whose_order_they_fill(
    build: Any, extra: tuple[str, str, int, int]
) -> None:
    """A pool of the attacker's own makes any price: a sale of what the maker holds, a purchase."""
    tx = with_third(build)
    swap_of_another(tx, *extra)
    begin, route, fill, other = tx.calls
    tx.calls = [begin, route, other, fill]
    swaps = swaps_of(decode_update(tx.info(), 1, 2))
    assert {(swap.wallet, swap.keeper) for swap in swaps} == {(address("keeper"), "")}
    assert len(swaps) == 2
