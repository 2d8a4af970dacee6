"""Which tokens the book keeps, and when their prices move."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.quote_book import CAPACITY, LEAST_VOLUME_LAMPORTS, QuoteBook
from pipeline.domain.value import AGREED, U64_MAX, SolUsd, value_swaps
from schemas.events import Swap
from schemas.money import USDC, WSOL
from tests.support.exploring import SLOW, examples

QUOTE, COIN = "staked-sol", "coin"
SOL_USD = SolUsd(150, 1)
MakeSwap = Callable[..., Swap]


def apply(book: QuoteBook, *swaps: Swap) -> None:
    value_swaps(swaps, SOL_USD, book.prices)
    book.apply(swaps)


def test_a_token_is_priced_once_something_is_quoted_in_it(swap: MakeSwap) -> None:
    book = QuoteBook()
    sale = swap(QUOTE, WSOL, 10**9, 11 * 10**8)
    apply(book, sale)
    assert book.entries() == []
    apply(book, swap(COIN, QUOTE, 5, 7))
    assert book.entries() == [(QUOTE, 0, 0)]
    apply(book, sale)
    assert book.entries() == [(QUOTE, 11 * 10**8, 10**9)]


def test_the_price_is_weighted_by_volume_over_all_pools_and_moneys(swap: MakeSwap) -> None:
    book = QuoteBook([(QUOTE, 1, 1)])
    in_sol, in_dollars = (
        swap(QUOTE, WSOL, 3 * 10**9, 3 * 10**9),
        swap(QUOTE, USDC, 10**9, 3 * 10**8),
    )
    apply(book, in_sol, in_dollars)
    assert book.prices == {QUOTE: (5 * 10**9, 4 * 10**9)}


def test_a_price_that_two_hands_agree_on_moves_nothing(swap: MakeSwap) -> None:
    book = QuoteBook([(QUOTE, 1, 1)])
    apply(book, *(swap(QUOTE, WSOL, 1, 10**12, dex=dex) for dex in sorted(AGREED)))
    assert book.prices == {QUOTE: (1, 1)}


def test_little_volume_moves_nothing(swap: MakeSwap) -> None:
    book = QuoteBook([(QUOTE, 1, 1)])
    half = LEAST_VOLUME_LAMPORTS // 2
    apply(book, swap(QUOTE, WSOL, 1, half), swap(QUOTE, WSOL, 1, half - 1))
    assert book.prices == {QUOTE: (1, 1)}
    apply(book, swap(QUOTE, WSOL, 1, half), swap(QUOTE, WSOL, 1, half))
    assert book.prices == {QUOTE: (2 * half, 2)}
    apply(book, swap(QUOTE, WSOL, 0, LEAST_VOLUME_LAMPORTS))
    assert book.prices == {QUOTE: (2 * half, 2)}, "nothing for something is no price"


def test_the_least_recently_used_one_leaves(swap: MakeSwap) -> None:
    book = QuoteBook()
    names = [f"quote-{number}" for number in range(CAPACITY)]
    apply(book, *(swap(COIN, name, 1, 1) for name in names))
    apply(book, swap(names[0], WSOL, 1, 10**9))
    apply(book, swap(COIN, names[0], 1, 1), swap(COIN, "new", 1, 1))
    assert [mint for mint, *_ in book.entries()] == [*names[2:], names[0], "new"]
    assert book.prices == {names[0]: (10**9, 1)}
    apply(book, *(swap(COIN, name, 1, 1) for name in names[1:]), swap(COIN, "newer", 1, 1))
    assert book.prices == {}, "its price leaves with it"


def test_a_ratio_fits_the_wire(swap: MakeSwap) -> None:
    book = QuoteBook([(QUOTE, 1, 1)])
    apply(book, *(swap(QUOTE, WSOL, U64_MAX, 10**9 + 1) for _ in range(9)))
    apply(book, *(swap(QUOTE, WSOL, U64_MAX - at, 10**9 + 1) for at in range(9)))
    lamports, amount_raw = book.prices[QUOTE]
    assert 0 < lamports <= U64_MAX
    assert 0 < amount_raw <= U64_MAX
    assert abs(amount_raw / lamports / (U64_MAX / 10**9) - 1) < 1e-6


@given(st.data())
@examples(fuzz_factor=SLOW)
def test_entries_are_all_that_the_next_slot_needs(swap: MakeSwap, data: st.DataObject) -> None:
    """A book that is put down and taken up after every slot goes the same way."""
    mints = st.sampled_from([f"mint-{number}" for number in range(CAPACITY + 6)])
    leg = st.builds(
        lambda mint, quote, raw, quote_raw: swap(mint, quote, raw, quote_raw),
        mints, mints | st.sampled_from([WSOL, USDC]), st.integers(0, 10**6), st.integers(0, 10**9),
    )  # fmt: skip
    kept, restored = QuoteBook(), QuoteBook()
    for swaps in data.draw(st.lists(st.lists(leg, max_size=30), max_size=8)):
        apply(kept, *swaps)
        restored = QuoteBook(restored.entries())
        apply(restored, *swaps)
        assert restored.entries() == kept.entries()
        assert restored.prices == kept.prices
        assert len(kept.entries()) <= CAPACITY
