"""Candles of all intervals against a slow reader of all trades."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.candles import Bar, extend, merge
from schemas.markets import INTERVALS_S, Candle, pack_candle, unpack_candles

trades = st.tuples(
    st.booleans(),
    st.integers(0, 2**64 - 1),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.one_of(st.just(0), st.integers(1, 2**100)),
)
slots = st.lists(
    st.tuples(st.integers(0, 400), st.lists(trades, min_size=1, max_size=4)),
    min_size=1,
    max_size=25,
)


def bar_of(some: list[tuple[bool, int, int, int, int]]) -> Bar:
    bar = Bar()
    for is_buy, amount_raw, lamports, usd_micros, price in some:
        bar.add(
            is_buy=is_buy,
            amount_raw=amount_raw,
            lamports=lamports,
            usd_micros=usd_micros,
            price_sol=price,
        )
    return bar


@given(slots)
def test_every_interval_is_what_all_its_trades_make(
    given: list[tuple[int, list[tuple[bool, int, int, int, int]]]],
) -> None:
    open_: list[Candle] = []
    finished: dict[tuple[int, int], Candle] = {}
    expected: dict[tuple[int, int], list[tuple[bool, int, int, int, int]]] = defaultdict(list)
    last: dict[tuple[int, int], int] = {}
    time_s = 1_700_000_000
    for slot, (pause_s, some) in enumerate(given):
        time_s += pause_s
        extend(open_, bar_of(some).candle(slot, (150, 1)), time_s)
        for length_s, candle in zip(INTERVALS_S.values(), open_, strict=True):
            key = length_s, time_s // length_s * length_s
            finished[key] = candle
            expected[key] += some
            last[key] = slot
    assert finished.keys() == expected.keys()
    for key, candle in finished.items():
        some = expected[key]
        prices = [price for *_, price in some if price]
        assert candle.start_s == key[1]
        assert candle.slot == last[key]
        assert (candle.buys, candle.sells) == (sum(t[0] for t in some), sum(not t[0] for t in some))
        assert candle.amount_raw == sum(t[1] for t in some)
        assert candle.lamports == sum(t[2] for t in some)
        assert candle.usd_micros == sum(t[3] for t in some)
        sol = (candle.open_sol, candle.high_sol, candle.low_sol, candle.close_sol)
        assert sol == (
            (prices[0], max(prices), min(prices), prices[-1]) if prices else (0, 0, 0, 0)
        )
        usd = (candle.open_usd, candle.high_usd, candle.low_usd, candle.close_usd)
        assert usd == tuple(150 * price for price in sol)
    assert unpack_candles(b"".join(map(pack_candle, open_))) == open_


@given(st.lists(trades, min_size=2, max_size=12), st.data())
def test_where_trades_are_cut_makes_no_difference(
    some: list[tuple[bool, int, int, int, int]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(some) - 1))
    whole = bar_of(some).candle(2, (3, 2))
    first = bar_of(some[:cut]).candle(1, (3, 2))
    merge(first, bar_of(some[cut:]).candle(2, (3, 2)))
    assert first == whole
