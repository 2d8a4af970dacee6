"""The last price in Redis, and what it was a day before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.prices import (
    CLOSE_MS,
    LastPrice,
    add_close,
    change_24h_pct,
    close_of,
    day_ago,
    last_price,
)
from schemas.times import DAY_MS

NOW_MS = 1_732_170_000_000


def price(sol, time_ms, usd=None):
    return LastPrice(sol, sol * 100 if usd is None else usd, time_ms, 7, "pool")


def stored(last):
    return {name.encode(): value.encode() for name, value in last.to_hash().items()}


@given(st.floats(1e-300, 1e300), st.none() | st.floats(1e-300, 1e300))
def test_a_price_is_read_as_it_was_written(sol, usd):
    last = LastPrice(sol, usd, NOW_MS, 2**40, "pool")
    assert last_price(stored(last)) == last


def test_a_hash_without_a_price_gives_none():
    assert last_price({}) is None
    assert last_price({b"state": b"x"}) is None


def closes_of(prices):
    closes, last = b"", None
    for now in prices:
        if last is not None and close_of(last) < close_of(now):
            closes = add_close(closes, last)
        last = now
    return closes, last


def test_the_price_a_day_ago_is_the_last_close_before():
    closes, last = closes_of([price(n, NOW_MS + n * CLOSE_MS) for n in range(1, 400)])
    now_ms = last.time_ms + 1000
    sol, usd = day_ago(last, closes, now_ms)
    assert sol == pytest.approx(399 - DAY_MS // CLOSE_MS, abs=1)
    assert usd == sol * 100
    assert change_24h_pct(last, closes, now_ms) == pytest.approx((399 / sol - 1) * 100)
    assert day_ago(last, closes, NOW_MS + DAY_MS) is None or sol
    # Readers may look later than anything was traded.
    assert day_ago(last, closes, last.time_ms + DAY_MS) == (399, 39900)
    assert change_24h_pct(last, closes, last.time_ms + 2 * DAY_MS) == 0


def test_a_young_token_has_no_change():
    closes, last = closes_of([price(1, NOW_MS), price(2, NOW_MS + 20 * CLOSE_MS)])
    assert day_ago(last, closes, last.time_ms) is None
    assert change_24h_pct(last, closes, last.time_ms) is None


def test_dollars_may_be_unknown_then_or_now():
    unknown = LastPrice(1.0, None, NOW_MS, 7, "pool")
    closes, last = closes_of([unknown, price(2.0, NOW_MS + 10 * CLOSE_MS)])
    now_ms = NOW_MS + 6 * CLOSE_MS + DAY_MS
    assert day_ago(last, closes, now_ms) == (1.0, None)
    assert change_24h_pct(last, closes, now_ms) is None
    assert change_24h_pct(unknown, b"", NOW_MS) is None


STEPS = st.lists(st.tuples(st.integers(1, 30 * CLOSE_MS), st.floats(1e-9, 1e9)), min_size=1)


@given(STEPS, st.integers(0, 2 * DAY_MS))
def test_against_all_prices_that_ever_were(steps, later_ms):
    """The kept closes give the same change as all would; its start may be five minutes older."""
    at_ms, history = NOW_MS, []
    for pause_ms, sol in steps:
        at_ms += pause_ms
        history.append(price(sol, at_ms))
    closes, last = closes_of(history)
    now_ms = last.time_ms + later_ms
    found = day_ago(last, closes, now_ms)
    before = [p for p in history if p.time_ms <= now_ms - DAY_MS]
    close = [p for p in history if (close_of(p) + 1) * CLOSE_MS <= now_ms - DAY_MS]
    if last.time_ms <= now_ms - DAY_MS:
        assert found == (last.price_sol, last.price_usd)
    elif close:
        assert found == (close[-1].price_sol, close[-1].price_usd)
        assert before
    else:
        assert found is None
    assert len(closes) <= 20 * (DAY_MS // CLOSE_MS + 3)
