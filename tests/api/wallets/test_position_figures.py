"""The arithmetic from a book's record to an answer: identities, and what is not known."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.tokens.facts import facts
from api.tokens.reader import Token
from api.wallets.figures import (
    OpenSum,
    outcome,
    paid,
    position_answer,
    priced,
    trading,
    valued,
    worth,
)
from api.wallets.position_answers import PositionOf
from schemas.positions import Position, WalletDay
from schemas.prices import LastPrice
from tests.support.exploring import SLOW, examples

COIN = "So11111111111111111111111111111111111111113"
NOW_MS = 1_763_700_000_000
AMOUNT = st.integers(0, 2**70)
PRICE = st.floats(1e-30, 1e12)


def token(decimals: int | None, price: LastPrice | None) -> Token:
    asked = None
    if decimals is not None:
        asked = orjson.dumps(
            {
                "status": "found",
                "asked_ms": 1,
                "name": "Coin",
                "symbol": "",
                "uri": "",
                "decimals": decimals,
                "supply_raw": None,
                "token_program": "",
            }
        )
    return Token(COIN, facts(COIN, None, asked), None, price, None, b"")


def answer_of(position: Position, about: Token | None) -> PositionOf:
    return position_answer(COIN, position, about, NOW_MS)


@st.composite
def positions(draw: st.DrawFn) -> Position:
    """Positions that keep the books' identities."""
    record = Position(**{each.name: draw(AMOUNT) for each in fields(Position)})
    if draw(st.booleans()):
        record.held_raw = 0
    record.held_known_raw = draw(st.integers(0, record.held_raw))
    if not record.held_known_raw:
        record.held_cost_lamports = record.held_cost_usd_micros = 0
    disposed = record.sold_raw + record.burned_raw
    record.unmatched_raw = draw(st.integers(0, disposed))
    if record.unmatched_raw == disposed:
        record.matched_cost_lamports = record.matched_cost_usd_micros = 0
        record.matched_proceeds_lamports = record.matched_proceeds_usd_micros = 0
    record.lots_opened = record.lots_closed + draw(st.integers(0, 10))
    return record


@st.composite
def tokens(draw: st.DrawFn) -> Token | None:
    if draw(st.booleans()) and draw(st.booleans()):
        return None
    price = LastPrice(
        draw(PRICE | st.just(0.0)),
        draw(PRICE | st.none()),
        NOW_MS - draw(st.integers(0, 10**8)),
        5,
        "",
    )
    return token(draw(st.integers(0, 18) | st.none()), draw(st.just(price) | st.none()))


@given(AMOUNT, st.integers(0, 18), PRICE, PRICE | st.none())
def test_worth_is_the_price_exactly_and_rounded_down(amount_raw, decimals, sol, usd):
    lamports, micros = worth(amount_raw, decimals, LastPrice(sol, usd, 0, 0, ""))
    exact = Fraction(amount_raw, 10**decimals)
    assert lamports is not None
    assert 0 <= exact * Fraction(sol) * 10**9 - lamports < 1
    if usd is None:
        assert micros is None
    else:
        assert micros is not None
        assert 0 <= exact * Fraction(usd) * 10**6 - micros < 1


@given(AMOUNT, AMOUNT, st.integers(0, 12), PRICE)
def test_worth_of_parts_is_within_one_of_the_whole(one, other, decimals, sol):
    price = LastPrice(sol, None, 0, 0, "")
    parts = (worth(one, decimals, price)[0] or 0) + (worth(other, decimals, price)[0] or 0)
    whole = worth(one + other, decimals, price)[0]
    assert whole is not None
    assert 0 <= whole - parts <= 1


@given(positions(), tokens())
def test_unrealized_is_worth_less_cost(position, about):
    answer = answer_of(position, about)
    for unit, gain in (("lamports", "sol"), ("usd_micros", "usd")):
        figure = answer[f"unrealized_{unit}"]
        price = about.price if about else None
        rate = None if price is None else getattr(price, f"price_{gain}")
        if not rate or about.decimals is None or not position.held_known_raw:
            assert figure is None
            assert answer[f"unrealized_{gain}"] is None
        else:
            scale = 10**9 if gain == "sol" else 10**6
            exact = Fraction(rate) * position.held_known_raw * scale / 10**about.decimals
            assert int(figure) == exact.__floor__() - getattr(position, f"held_cost_{unit}")
            assert answer[f"unrealized_{gain}"] == int(figure) / scale
        if figure is not None and position.held_known_raw == position.held_raw:
            value = int(answer[f"value_{unit}"])
            assert value - int(answer[f"held_cost_{unit}"]) == int(figure)


@given(positions(), tokens())
def test_value_is_worth_of_what_is_held(position, about):
    decimals, price = (about.decimals, about.price) if about else (None, None)
    value = worth(position.held_raw, decimals, price)
    assert valued(position, about)[:2] == value


@given(positions(), tokens())
def test_what_is_not_known_is_null_and_nothing_else(position, about):
    answer = answer_of(position, about)
    decimals = about.decimals if about else None
    price = about.price if about else None
    for name in ("held", "unknown_cost", "bought", "sold", "received", "sent", "burned"):
        if decimals is None:
            assert answer[name] is None
        else:
            assert answer[name] == int(answer[f"{name}_raw"]) / 10**decimals
    assert (answer["average_entry_sol"] is None) == (
        decimals is None or not position.held_known_raw
    )
    assert (answer["price_time_ms"] is None) == (price is None)
    assert (answer["is_price_stale"] is None) == (price is None)
    if price is not None:
        assert answer["is_price_stale"] == (NOW_MS - price.time_ms > 3_600_000)
        assert answer["price_sol"] == (price.price_sol or None)
    assert (answer["value_usd"] is None) == (
        decimals is None or price is None or price.price_usd is None
    )
    matched = position.sold_raw + position.burned_raw - position.unmatched_raw
    assert (
        (answer["realized_usd"] is None) == (answer["realized_lamports"] is None) == (not matched)
    )
    if matched:
        assert int(answer["realized_lamports"]) == position.realized_lamports
        assert int(answer["realized_usd_micros"]) == position.realized_usd_micros
    assert (answer["first_trade_ms"] is None) == (not position.first_trade_slot)
    assert int(answer["unknown_cost_raw"]) + position.held_known_raw == position.held_raw


@given(st.lists(st.tuples(positions(), tokens()), max_size=8))
@examples(fuzz_factor=SLOW)
def test_the_sum_over_positions_is_that_of_their_answers(held):
    total = OpenSum()
    for position, about in held:
        stale = about is not None and about.is_stale(NOW_MS)
        total.add(position, valued(position, about), is_stale=stale)
    answers = [answer_of(position, about) for position, about in held]
    summed, answers = total.answer(), [each for each in answers if each["held_raw"] != "0"]
    assert summed["held_positions"] == len(answers)
    for unit in ("lamports", "usd_micros"):
        costs = sum(int(each[f"held_cost_{unit}"]) for each in answers)
        assert summed[f"held_cost_{unit}"] == str(costs)
        for name in (f"value_{unit}", f"unrealized_{unit}"):
            known = [int(each[name]) for each in answers if each[name] is not None]
            assert summed[name] == (str(sum(known)) if known else None)
    priced_ones = [each for each in answers if each["value_lamports"] is not None]
    assert summed["priced_positions"] == len(priced_ones)
    assert summed["stale_positions"] == sum(each["is_price_stale"] is True for each in priced_ones)
    assert summed["unknown_cost_positions"] == sum(e["unknown_cost_raw"] != "0" for e in answers)


@given(st.lists(AMOUNT, min_size=17, max_size=17))
def test_a_day_has_integers_and_numbers_beside_them(values):
    record = WalletDay(*values)
    answer = trading(record)
    for name in ("bought", "sold"):
        assert int(answer[f"{name}_lamports"]) == getattr(record, f"{name}_lamports")
        assert answer[f"{name}_usd"] == getattr(record, f"{name}_usd_micros") / 10**6
    assert int(answer["tip_lamports"]) == record.tip_lamports == int(paid(record)["tip_lamports"])
    decided = record.wins + record.losses
    assert answer["win_rate_pct"] == (100 * record.wins / decided if decided else None)


@pytest.mark.parametrize(
    ("day", "realized"),
    [
        (WalletDay(), None),
        (WalletDay(sells=2, unmatched_sales=2, sold_lamports=7), None),
        (WalletDay(sells=2, unmatched_sales=1), "0"),
        (WalletDay(matched_cost_lamports=5), "-5"),  # burned
        (WalletDay(sells=1, matched_cost_lamports=5, matched_proceeds_lamports=7), "2"),
    ],
)
def test_nothing_matched_is_no_gain_of_nothing(day, realized):
    assert outcome(day)["realized_lamports"] == realized


def test_a_dollar_coin_has_no_price_in_sol_while_sol_has_none_in_dollars():
    coin = token(6, LastPrice(0.0, 1.0, NOW_MS, 5, ""))
    answer = priced(2_500_000, coin, NOW_MS, 6)
    assert (answer["price_sol"], answer["value_sol"]) == (None, None)
    assert (answer["price_usd"], answer["value_usd_micros"]) == (1.0, "2500000")


def test_a_price_grows_stale_after_an_hour_of_the_chain():
    coin = token(6, LastPrice(1.0, 1.0, NOW_MS, 5, ""))
    assert priced(1, coin, NOW_MS + 3_600_000, 6)["is_price_stale"] is False
    assert priced(1, coin, NOW_MS + 3_600_001, 6)["is_price_stale"] is True
