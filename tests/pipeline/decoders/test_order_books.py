"""Phoenix, OpenBook v2 and Manifest: a taker's order, met or not."""

from __future__ import annotations

from struct import pack

import pytest

from pipeline.decoding.reading import Decoded, Reason, decode_update
from schemas.events import Side, Swap
from schemas.solana.addresses import key
from tests.support.decoding import builder, examples

BOOKS = ["manifest", "openbook-v2", "phoenix"]
PHOENIX = "PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY"


@pytest.mark.parametrize("dex", BOOKS)
def test_an_order_that_met_no_other(dex: str) -> None:
    tx, call = examples.swap(examples.EXAMPLES[dex])
    call.calls.clear()
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.events
    assert not decoded.undecoded


@pytest.mark.parametrize("dex", BOOKS)
def test_an_order_that_was_paid_by_nobody(dex: str) -> None:
    tx, call = examples.swap(examples.EXAMPLES[dex])
    call.calls.pop()
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.events
    assert [item.reason for item in decoded.undecoded] == [Reason.MALFORMED]


def test_manifest_draws_on_global_vaults() -> None:
    """What makers bring in from their global vault is not the trader's."""
    tx, call = examples.swap(examples.EXAMPLES["manifest"], buys=True)
    tx.token("global", "token", "makers", 900_000)
    before, call.calls = call.calls, []
    tx.transfer(call, "global", "vault 1", "makers", 900_000)
    call.calls += before
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert (swap.amount_raw, swap.quote_amount_raw) == (examples.TOKEN_RAW, examples.USDC_RAW)


def test_manifest_swap_v2() -> None:
    """Payer and owner are two accounts."""
    old = examples.EXAMPLES["manifest"]
    example = examples.Example(old.program, "0d", "payer " + old.accounts)
    tx, _ = examples.swap(example, buys=False)
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.pool == builder.address("pool")
    assert swap.wallet == builder.address("trader")


# Phoenix: the market's log, which says whether an order on the book met another.


def market_log(*events: bytes) -> bytes:
    """Return the data of instruction 15: tag, header, events."""
    header = bytes([1, 0]) + bytes(8 * 3 + 32 * 2)
    return bytes([15]) + header + len(events).to_bytes(2, "little") + b"".join(events)


FILL, PLACED, TIMED = bytes([2]) + bytes(66), bytes([3]) + bytes(42), bytes([8]) + bytes(26)


def summary(base_lots: int, quote_lots: int, fee_lots: int) -> bytes:
    lots = (base_lots, quote_lots, fee_lots)
    return bytes([6]) + bytes(2 + 16) + b"".join(lot.to_bytes(8, "little") for lot in lots)


@pytest.mark.parametrize("heights", [True, False])
@pytest.mark.parametrize("buys", [True, False])
def test_phoenix_fee_in_the_markets_lots(buys: bool, heights: bool) -> None:
    """A quote lot is what was paid or received for one: a thousand here."""
    tx, call = examples.swap(examples.EXAMPLES["phoenix"], buys=buys, routed=True)
    log = market_log(FILL, FILL, summary(7, examples.USDC_RAW // 1_000, 2))
    tx.call(call.program, "log", log, under=call)
    (swap,) = decode_update(tx.info(heights=heights), 1, 2).events
    assert isinstance(swap, Swap)
    assert (swap.pool_fee_raw, swap.pool_fee_mint) == (2_000, examples.USDC)
    assert (swap.amount_raw, swap.quote_amount_raw) == (examples.TOKEN_RAW, examples.USDC_RAW)


@pytest.mark.parametrize(
    "events",
    [
        (FILL, summary(7, 3, 2)),
        (FILL, summary(7, 1_000, 1_001)),
        (b"\xff" + bytes(9), summary(7, 1_000, 2)),
        (FILL,),
        (b"\x06",),
    ],
)
def test_phoenix_log_that_does_not_fit_gives_no_fee(events: tuple[bytes, ...]) -> None:
    """Lots that do not divide the amount, too high a fee, unknown kinds, none, a torn one."""
    tx, call = examples.swap(examples.EXAMPLES["phoenix"])
    tx.call(call.program, "log", market_log(*events), under=call)
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.pool_fee_raw is None
    assert swap.amount_raw == examples.TOKEN_RAW


def test_phoenix_orders_on_the_book() -> None:
    """A waiting order is no trade; one that met another is, of unknown amounts."""
    for tag in (1, 2, 3):
        for filled, reasons in ((0, []), (9, [Reason.MALFORMED])):
            tx = builder.TransactionBuilder("trader")
            order = tx.call(PHOENIX, "x x pool trader seat u1 u2 v1 v2 tokens", bytes([tag, 1]))
            log = market_log(summary(filled, filled * 3, 0), PLACED, TIMED)
            tx.call(PHOENIX, "log", log, under=order)
            decoded = decode_update(tx.info(), 1, 2)
            assert not decoded.events
            assert [item.reason for item in decoded.undecoded] == reasons


# Orders on funds deposited earlier: no token moves, only the program's log has the fill.

MANIFEST = examples.EXAMPLES["manifest"].program
OPENBOOK_V2 = examples.EXAMPLES["openbook-v2"].program


def fill_log(base_raw: int, quote_raw: int, *, buys: bool) -> bytes:
    """Return a fill of Manifest: market, maker, taker, mints, price, amounts, sequence, flags."""
    names = ("pool", "maker", "taker", "token", examples.USDC)
    keys = b"".join(key(builder.address(name)) for name in names)
    amounts = pack("<16xQQ16x", base_raw, quote_raw)
    return bytes.fromhex("3ae6f2034b7104a9") + keys + amounts + bytes([buys]) + bytes(15)


def batch(*fills: bytes) -> builder.TransactionBuilder:
    tx = builder.TransactionBuilder("relayer")
    tx.token("some", "token", "somebody", 5)  # the decimals of the mint
    call = tx.call(MANIFEST, "relayer pool system", bytes([6]) + bytes(20))
    for body in fills:
        tx.log_event(call, body)
    return tx


@pytest.mark.parametrize("buys", [True, False])
def test_manifest_batch_is_the_takers_swap(buys: bool) -> None:
    tx = batch(fill_log(30, 500, buys=buys), fill_log(10, 200, buys=buys))
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    assert (swap.wallet, swap.pool) == (builder.address("taker"), builder.address("pool"))
    assert swap.side is (Side.BUY if buys else Side.SELL)
    assert (swap.amount_raw, swap.quote_amount_raw) == (40, 700)


def test_manifest_batch_without_fills_or_that_comes_out_even() -> None:
    for tx in (batch(), batch(fill_log(3, 5, buys=True), fill_log(3, 5, buys=False))):
        decoded = decode_update(tx.info(), 1, 2)
        assert (decoded.events, decoded.undecoded) == ([], [])


def cut(tx: builder.TransactionBuilder, after: str) -> Decoded:
    """Decode a transaction whose log was cut off after the first line that begins so."""
    info = tx.info()
    lines = list(info.meta.log_messages)
    at = next(at for at, line in enumerate(lines) if line.startswith(after))
    del info.meta.log_messages[at + 1 :]
    info.meta.log_messages.append("Log truncated")
    return decode_update(info, 1, 2)


def test_manifest_batch_of_which_the_log_has_a_part() -> None:
    """Fills behind the cut are not known: those before it are no swap of the batch."""
    decoded = cut(batch(fill_log(30, 500, buys=True), fill_log(10, 200, buys=True)), "Program data")
    assert not decoded.events
    assert [item.reason for item in decoded.undecoded] == [Reason.MALFORMED]
    (swap,) = cut(batch(fill_log(30, 500, buys=True)), f"Program {MANIFEST} success").events
    assert isinstance(swap, Swap)
    assert swap.amount_raw == 30


def test_openbook_order_of_which_the_log_lacks_the_fill() -> None:
    tx = builder.TransactionBuilder("trader")
    names = "trader orders x user pool bids asks heap vault x x tokens"
    tx.call(OPENBOOK_V2, names, bytes.fromhex("33c29baf6d82606a") + bytes(40))
    decoded = cut(tx, f"Program {OPENBOOK_V2} invoke")
    assert not decoded.events
    assert [item.reason for item in decoded.undecoded] == [Reason.MALFORMED]
    decoded = cut(tx, f"Program {OPENBOOK_V2} success")
    assert (decoded.events, decoded.undecoded) == ([], [])


def test_manifest_batch_of_a_mint_whose_decimals_nothing_names() -> None:
    tx = batch(fill_log(30, 500, buys=True))
    tx.tokens.clear()
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.events
    assert [item.reason for item in decoded.undecoded] == [Reason.MALFORMED]


@pytest.mark.parametrize("settles", [True, False])
@pytest.mark.parametrize("bids", [True, False])
@pytest.mark.parametrize("quote", [examples.USDC, "other"])
def test_openbook_order_on_an_open_orders_account(quote: str, bids: bool, settles: bool) -> None:
    """The other mint is known by the market's other vault, where the transaction settles, too.

    Of two mints that are no money, a bid (side 0) pays the market's quote.
    """
    tx = builder.TransactionBuilder("payer", "trader")
    paid, received = (quote, "token") if bids else ("token", quote)
    tx.token("user", paid, "trader", 900)
    tx.token("vault", paid, "market authority", 900)
    if settles:
        tx.token("other vault", received, "market authority", 900)
    names = "trader orders x user pool bids asks heap vault x x tokens"
    call = tx.call(OPENBOOK_V2, names, bytes.fromhex("33c29baf6d82606a") + bytes(40))
    orders = key(builder.address("orders"))  # the program names it as the taker
    body = bytes([not bids]) + orders + pack("<QQQ", 500, 30, 1)
    tx.log_event(call, bytes.fromhex("08eb303aae4c9c69") + body)
    decoded = decode_update(tx.info(), 1, 2)
    if not settles:
        assert not decoded.events
        assert [item.reason for item in decoded.undecoded] == [Reason.MALFORMED]
        return
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    assert (swap.wallet, swap.pool) == (builder.address("trader"), builder.address("pool"))
    assert swap.side is (Side.BUY if bids else Side.SELL)
    assert (swap.mint, swap.quote_mint) == (builder.address("token"), builder.address(quote))
    traded = (30, 500) if bids else (500, 30)
    assert (swap.amount_raw, swap.quote_amount_raw) == traded
