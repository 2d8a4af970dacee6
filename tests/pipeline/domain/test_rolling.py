"""Rolling windows against sums over all trades, at any now."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.rolling import (
    CAP_CENTS,
    SIZE,
    Series,
    Traders,
    expiry,
    oldest_score,
    weight,
)
from schemas.markets import MINUTES_KEPT, QUARTERS_KEPT, window

trades = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 3), st.integers(0, 40), st.integers(0, 2000)),  # pause, minutes
        st.integers(0, 6),  # trader
        st.booleans(),
        st.integers(0, 10**13),  # micros
        st.integers(0, 2**90),  # price
    ),
    min_size=1,
    max_size=60,
)


@given(trades, st.integers(0, 3000))
def test_windows_are_what_a_recount_says(
    given: list[tuple[int, int, bool, int, int]], later: int
) -> None:
    minutes, quarters = Series(1, MINUTES_KEPT), Series(15, QUARTERS_KEPT)
    traders = Traders()
    traders.known = {bytes([who]): None for who in range(7)}
    recorded = []
    now = 29_000_000
    for pause, who, is_buy, micros, price in given:
        now += pause
        for series in (minutes, quarters):
            series.add(
                now,
                is_buy=is_buy,
                lamports=micros * 7,
                usd_micros=micros,
                close_sol=price,
                close_usd=price * 2,
            )
        traders.traded(bytes([who]), now, micros, (minutes, quarters))
        recorded.append((now, who, is_buy, micros, price))
    now += later
    for width, length, series in ((1, 5, minutes), (1, 60, minutes), (15, 1440, quarters)):
        within = [t for t in recorded if t[0] - t[0] % width > now - length]
        before = [t for t in recorded if t[0] - t[0] % width <= now - length]
        figures = window(series.data, now, length)
        assert figures.buys == sum(t[2] for t in within)
        assert figures.sells == sum(not t[2] for t in within)
        assert figures.buy_usd_micros == sum(t[3] for t in within if t[2])
        assert figures.sell_lamports == sum(7 * t[3] for t in within if not t[2])
        assert figures.traders == len({t[1] for t in within})
        then = next((t[4] for t in reversed(before) if t[4]), 0)
        assert (figures.then_sol, figures.then_usd) == (then, 2 * then)
        assert (figures.weight > 0) >= any(t[3] >= 10**7 for t in within)
    assert len(minutes.data) <= 62 * 88
    assert len(quarters.data) <= 98 * 88


def test_a_trader_weighs_with_all_since_a_day_without_pause() -> None:
    quarters = Series(15, QUARTERS_KEPT)
    traders = Traders()
    traders.known = {b"a": None}
    for minute in (30_000, 30_000 + 1000, 30_000 + 1900):
        quarters.add(minute, is_buy=True, lamports=1, usd_micros=1, close_sol=1, close_usd=1)
        traders.traded(b"a", minute, 50_000_000, (quarters,))
    assert window(quarters.data, 31_900, 1440).weight == weight(15_000)
    quarters.add(40_000, is_buy=True, lamports=1, usd_micros=1, close_sol=1, close_usd=1)
    traders.traded(b"a", 40_000, 50_000_000, (quarters,))
    assert window(quarters.data, 40_000, 1440).weight == weight(5_000)


def test_a_bucket_loses_no_trader_that_it_does_not_have() -> None:
    quarters = Series(15, QUARTERS_KEPT)
    quarters.add(30_000, is_buy=True, lamports=1, usd_micros=1, close_sol=1, close_usd=1)
    for seen, unseen, traders in ((None, 0, 0), (100, 200, 1), (None, 100, 0)):
        if seen is not None:
            quarters.seen(weight(seen))
        quarters.unseen(30_000, weight(unseen))
        figures = window(quarters.data, 30_000, 1440)
        assert (figures.traders, figures.weight) == (traders, traders * weight(100))


@given(st.integers(0, 2 * CAP_CENTS), st.integers(0, 2 * CAP_CENTS))
def test_weight_grows_with_the_logarithm_up_to_the_cap(one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert weight(0) == 0
    assert weight(small) <= weight(large) <= weight(CAP_CENTS)
    assert weight(CAP_CENTS) < 14 * 1024
    assert abs(weight(100) - 1024) < 100  # log2(1 + 1 dollar)


@given(st.integers(10**6, 10**8))
def test_what_expired_is_in_no_window(minute: int) -> None:
    assert expiry(minute) <= minute - 1440


def test_of_a_new_market_no_trader_was_trimmed() -> None:
    assert (Traders().trimmed, Traders().known, Traders().changed) == (0, {}, {})


def test_a_score_is_the_minute_and_the_cents_as_stores_have_it() -> None:
    quarters, traders = Series(15, QUARTERS_KEPT), Traders()
    traders.known = {b"a": None}
    quarters.add(30_000, is_buy=True, lamports=1, usd_micros=1, close_sol=1, close_usd=1)
    traders.traded(b"a", 30_000, 123_450_000, (quarters,))
    assert traders.changed == traders.known == {b"a": 30_000 << 27 | 12_345}
    assert oldest_score(30_000) == expiry(30_000) << 27


@pytest.mark.parametrize("unit", [1, 1 << 63, 1 << 64])
def test_of_buckets_before_a_pause_the_last_stays_for_its_price(unit: int) -> None:
    """A price may take more than 64 bits."""
    minutes = Series(1, MINUTES_KEPT)
    for minute, price in ((0, 5), (1, 6), (2, 7), (2, 0), (1000, 0)):
        minutes.add(
            minute,
            is_buy=True,
            lamports=1,
            usd_micros=1,
            close_sol=price * unit,
            close_usd=2 * price * unit,
        )
    assert len(minutes.data) == 2 * SIZE
    then = window(minutes.data, 1000, 60)
    assert (then.then_sol, then.then_usd, then.buys) == (7 * unit, 14 * unit, 1)
