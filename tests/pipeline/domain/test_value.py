"""Values of swaps against plain fractions; routes; prices that are not known."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import floor

from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.value import U64_MAX, Price, SolUsd, value_swaps
from schemas.events import Swap
from schemas.money import DOLLARS, USD1, USDC, USDT, WSOL
from tests.support.exploring import SLOW, examples

A, B, C, D = "token-a", "token-b", "token-c", "token-d"
PRICE = SolUsd.of(Decimal("151.25"))
LARGEST = st.integers(0, U64_MAX)
MakeSwap = Callable[..., Swap]


def values(swaps: list[Swap]) -> list[tuple[int | None, int | None]]:
    return [(swap.sol_value_lamports, swap.usd_value_micros) for swap in swaps]


@given(raw=LARGEST, price=st.decimals("0.0001", "100000", places=8))
def test_money_is_worth_itself(swap: MakeSwap, raw: int, price: Decimal) -> None:
    ratio = SolUsd.of(price)
    of_sol = swap(A, WSOL, 1, raw)
    of_dollars = [swap(A, coin, 1, raw) for coin in (USDC, USDT, USD1)]
    value_swaps([of_sol, *of_dollars], ratio, {})
    micros = floor(Fraction(raw) * Fraction(price) / 1000)
    lamports = floor(Fraction(raw) * 1000 / Fraction(price))
    assert values([of_sol]) == [(raw, micros if micros <= U64_MAX else None)]
    assert values(of_dollars) == [(lamports if lamports <= U64_MAX else None, raw)] * 3


def test_without_a_reference_price_each_money_values_its_own_part(swap: MakeSwap) -> None:
    swaps = [swap(A, WSOL, 5, 70), swap(B, USDC, 5, 80)]
    value_swaps(swaps, None, {})
    assert values(swaps) == [(70, None), (None, 80)]
    assert SolUsd.of(None) is SolUsd.of(Decimal(0)) is None


def test_equal_quantities_have_equal_values_along_a_route(swap: MakeSwap) -> None:
    """A -> B -> C -> SOL, whichever side of a pool a token is on, in any order of the legs."""
    sold = swap(C, WSOL, 900, 1_000_000_007)
    swaps = [swap(A, B, 33, 7_000), swap(C, B, 900, 7_000), sold]
    for legs in (swaps, swaps[::-1]):
        value_swaps(legs, PRICE, {B: (1, 1), C: (1, 1)})
        assert set(values(legs)) == {(1_000_000_007, 151_250_001)}


def test_a_token_bought_for_sol_hands_its_cost_on(swap: MakeSwap) -> None:
    swaps = [swap(A, WSOL, 10, 500), swap(A, B, 10, 3)]
    value_swaps(swaps, PRICE, {B: (999, 1)})
    assert values(swaps) == [(500, 75), (500, 75)]


def test_a_split_route_adds_up(swap: MakeSwap) -> None:
    swaps = [swap(A, B, 1, 100), swap(B, WSOL, 60, 601), swap(B, USDC, 40, 61)]
    value_swaps(swaps, PRICE, {})
    in_lamports = PRICE.lamports(61) if PRICE else 0
    assert values(swaps)[0] == (601 + in_lamports, 90 + 61)


def test_the_book_prices_what_the_transaction_does_not(swap: MakeSwap) -> None:
    swaps = [swap(A, B, 1, 10), swap(C, A, 5, 1), swap(D, "unknown", 1, 1)]
    value_swaps(swaps, PRICE, {B: (7, 3)})
    assert values(swaps) == [(23, 3), (23, 3), (None, None)]
    value_swaps(swaps[:1], None, {B: (7, 3)})
    assert values(swaps[:1]) == [(23, None)], "of a price that is known no more, nothing stays"


def test_a_trade_of_a_little_does_not_value_millions(swap: MakeSwap) -> None:
    """The maker of a token may sell itself a unit of it for any price."""
    bought = swap(B, WSOL, 10, 10**7)
    for raw, worth in ((20, 2 * 10**7), (21, None)):
        for leg in (swap(A, B, 5, raw), swap(B, "unknown", raw, 5)):
            swaps = [bought, leg]
            value_swaps(swaps, PRICE, {})
            assert swaps[1].sol_value_lamports == worth
    for raw, worth in ((3_000, 7_000), (3_001, None)):
        swaps = [swap(A, B, 5, raw)]
        value_swaps(swaps, PRICE, {B: (7, 3)})
        assert swaps[0].sol_value_lamports == worth


def test_what_moved_nothing_prices_nothing(swap: MakeSwap) -> None:
    swaps = [swap(A, B, 1, 10), swap(B, WSOL, 0, 10)]
    value_swaps(swaps, PRICE, {})
    assert values(swaps)[0] == (None, None)


def legs_of(swap: MakeSwap) -> st.SearchStrategy[list[Swap]]:
    tokens = st.sampled_from([A, B, C, D])
    money = st.sampled_from([WSOL, USDC])
    sides = st.tuples(tokens, tokens | money).filter(lambda pair: pair[0] != pair[1])
    amounts = st.integers(0, 10**12)
    leg = st.builds(lambda pair, raw, quote: swap(*pair, raw, quote), sides, amounts, amounts)
    return st.lists(leg, max_size=7)


@given(st.data())
@examples(fuzz_factor=SLOW)
def test_any_transaction_against_fractions(swap: MakeSwap, data: st.DataObject) -> None:
    swaps = data.draw(legs_of(swap))
    quotes = data.draw(
        st.dictionaries(
            st.sampled_from([A, B, C, D]),
            st.tuples(st.integers(1, 10**12), st.integers(1, 10**12)),
        )
    )
    price = data.draw(st.none() | st.just(Decimal("151.25")))
    value_swaps(swaps, SolUsd.of(price), quotes)
    assert [each[0] for each in values(swaps)] == worth(swaps, price, quotes, in_sol=True)
    assert [each[1] for each in values(swaps)] == worth(swaps, price, quotes, in_sol=False)


def worth(
    swaps: list[Swap], price: Decimal | None, quotes: dict[str, Price], *, in_sol: bool
) -> list[int | None]:
    """The rules again, for one currency, by recursion over rounds and with fractions."""
    usd = None if price is None else Fraction(price)
    found: dict[int, int] = {}
    for at, leg in enumerate(swaps):
        raw = Fraction(leg.quote_amount_raw)
        if leg.quote_mint == WSOL and (in_sol or usd):
            found[at] = floor(raw) if in_sol else floor(raw * (usd or 0) / 1000)
        elif leg.quote_mint in DOLLARS and (not in_sol or usd):
            found[at] = floor(raw * 1000 / (usd or 1)) if in_sol else floor(raw)
    closed = {at for at, leg in enumerate(swaps) if leg.quote_mint in (WSOL, *DOLLARS)}

    def spread(prices: dict[str, tuple[Fraction, int]]) -> None:
        seen: dict[str, list[tuple[int, int]]] = {}
        for at, value in found.items():
            leg = swaps[at]
            seen.setdefault(leg.mint, []).append((value, leg.amount_raw))
            seen.setdefault(leg.quote_mint, []).append((value, leg.quote_amount_raw))
        for mint, pairs in seen.items():
            quantity = sum(raw for _, raw in pairs if raw)
            if quantity and mint not in prices:
                total = sum(value for value, raw in pairs if raw)
                prices[mint] = Fraction(total, quantity), quantity
        shares = {}
        for at, leg in enumerate(swaps):
            if at in found or at in closed:
                continue
            sides = ((leg.mint, leg.amount_raw), (leg.quote_mint, leg.quote_amount_raw))
            for mint, raw in sides:  # the quote's side has the last word
                ratio, quantity = prices.get(mint, (Fraction(0), -1))
                if raw <= 2 * quantity and ratio * raw < U64_MAX + 1:
                    shares[at] = floor(ratio * raw)
        if shares:
            found.update(shares)
            spread(prices)

    spread({})
    for at, leg in enumerate(swaps):
        if at not in found and at not in closed and leg.quote_mint in quotes:
            if leg.quote_amount_raw > 1000 * quotes[leg.quote_mint][1]:
                continue
            lamports = floor(Fraction(*quotes[leg.quote_mint]) * leg.quote_amount_raw)
            value = lamports if in_sol else floor(lamports * usd / 1000) if usd else U64_MAX + 1
            if max(lamports, value) <= U64_MAX:
                found[at] = value
    spread({})
    return [found.get(at) for at in range(len(swaps))]


def test_the_book_gives_lamports_where_the_route_gives_dollars_alone(swap: MakeSwap) -> None:
    swaps = [swap(A, USDC, 10, 80), swap(A, B, 10, 3)]
    value_swaps(swaps, None, {B: (7, 3)})
    assert values(swaps) == [(None, 80), (7, 80)]
