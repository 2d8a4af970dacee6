"""Days, swaps, lots and candles, against the market's own notes.

What is expected comes from `pipeline.chaos`'s oracle, which shares no arithmetic with the
pipeline; every answer is also held against the schema that the API publishes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.chaos.differences import Differences
from schemas.markets import INTERVALS_S
from schemas.money import WSOL
from schemas.times import DAY_MS
from tests.support.api import history_figures as history
from tests.support.api.asking import Near, compare
from tests.support.api.oracle import Known, day_text, some
from tests.support.api.wallet_figures import Figures

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


# Days.


def test_summary_of_seven_days(ask, truth, wallets, found):
    for wallet in truth.wallets:
        answer = ask.get("/api/wallets/{wallet}/pnl/summary", wallet=wallet)
        expected = wallets.summary(wallet)
        for wanted, got in zip(expected["days"], answer["days"], strict=True):
            compare(found, "day", (wallet, wanted["day"]), wanted, got)
        rest = {"days": answer["days"], "wallet": wallet}
        compare(found, "summary", wallet, expected | rest | ask.as_of, answer)


def test_daily_pnl(ask, truth, found):
    days = history.all_days(truth)
    for wallet in some(truth.wallets, 120):
        answer = ask.get("/api/wallets/{wallet}/pnl/daily", wallet=wallet)
        _days(found, wallet, history.pnl_days(truth, wallet, days), answer["days"])
        compare(found, "total", wallet, history.pnl(truth, wallet, days), answer["total"])
    for wallet in some(truth.wallets, 20):
        for day in days:
            span = {"from": day_text(day), "to": day_text(day)}
            answer = ask.get("/api/wallets/{wallet}/pnl/daily", wallet=wallet, **span)
            _days(found, wallet, history.pnl_days(truth, wallet, [day]), answer["days"])
            compare(found, "total", wallet, history.pnl(truth, wallet, [day]), answer["total"])


def test_daily_pnl_of_a_token(ask, truth, found):
    days = history.all_days(truth)
    path = "/api/wallets/{wallet}/pnl/{mint}/daily"
    for wallet, mint in some(sorted(truth.books.positions), 100):
        answer = ask.get(path, wallet=wallet, mint=mint)
        key = wallet, mint
        _days(found, key, history.token_days(truth, *key, days), answer["days"])
        compare(found, "total", key, history.token_pnl(truth, *key, days), answer["total"])
        today = {"from": day_text(days[-1])}
        answer = ask.get(path, wallet=wallet, mint=mint, **today)
        _days(found, key, history.token_days(truth, *key, days[1:]), answer["days"])


def test_daily_volume(ask, truth, found):
    days = history.all_days(truth)
    for wallet in some(truth.wallets, 120):
        answer = ask.get("/api/wallets/{wallet}/trades/daily", wallet=wallet)
        _days(found, wallet, history.volume_days(truth, wallet, days), answer["days"])
        compare(found, "total", wallet, history.volume(truth, wallet, days), answer["total"])


def _days(
    found: Differences, key: object, expected: list[Figures], answered: list[Figures]
) -> None:
    assert [day["day"] for day in answered] == [day["day"] for day in expected], key
    for wanted, got in zip(expected, answered, strict=True):
        compare(found, "day", (key, wanted["day"]), wanted, got)


# Swaps.


def test_every_swap_of_every_wallet(ask, truth, found):
    for place, wallet in enumerate(truth.wallets):
        limit = 500 if place % 30 else 6
        pages = ask.pages("/api/wallets/{wallet}/swaps", wallet=wallet, limit=limit)
        _swaps(truth, found, truth.swaps_of_wallet.get(wallet, []), pages)
    assert found.compared["swap"] > 1_500


def test_every_swap_of_every_token(ask, truth, found):
    """On either side: SOL's are nearly all there are."""
    mints = {*truth.mints, *truth.swaps_with}
    assert len(truth.swaps_with[WSOL]) > 1_000
    for place, mint in enumerate(sorted(mints)):
        limit = 1_000 if place % 12 else 40
        pages = ask.pages("/api/tokens/{mint}/swaps", mint=mint, limit=limit)
        _swaps(truth, found, truth.swaps_with.get(mint, []), pages)
    assert found.compared["swap"] == sum(map(len, truth.swaps_with.values()))


def test_trades_of_a_wallet_with_a_token(ask, truth, found):
    for wallet, mint in some(sorted(truth.books.positions), 25):
        for token, limit in ((mint, 3), (WSOL, 100)):
            expected = [
                each
                for each in truth.swaps_of_wallet.get(wallet, [])
                if token in (each["mint"], each["quote_mint"])
            ]
            keys = {"wallet": wallet, "mint": token}
            pages = ask.pages("/api/wallets/{wallet}/trades/{mint}", **keys, limit=limit)
            _swaps(truth, found, expected, pages)


def test_swaps_of_a_range_of_time(ask, truth, found):
    middle = history.all_days(truth)[-1] * DAY_MS
    for mint in some(sorted(truth.swaps_of_mint), 5):
        for span, is_in in (
            ({"from": middle}, lambda at: at >= middle),
            ({"to": middle, "from": middle - DAY_MS}, lambda at: at < middle),
        ):
            expected = [each for each in truth.swaps_with[mint] if is_in(each["block_time_ms"])]
            pages = ask.pages("/api/tokens/{mint}/swaps", mint=mint, limit=9, **span)
            _swaps(truth, found, expected, pages)


def _swaps(
    truth: Known, found: Differences, expected: list[Figures], pages: Iterator[Figures]
) -> None:
    answer = [swap for page in pages for swap in page["swaps"]]
    identities = [(swap["signature"], swap["event_index"]) for swap in answer]
    assert identities == [(swap["signature"], swap["event_index"]) for swap in expected]
    for wanted, got in zip(expected, answer, strict=True):
        platform = truth.platforms[wanted["signature"], wanted["event_index"], wanted["slot"]]
        compare(found, "swap", wanted["signature"], history.swap(wanted, got, platform), got)


# Why is a gain what it is.


def test_lots_and_matches(ask, truth, wallets, found):
    matched = sorted({(match.at.wallet, match.at.mint) for match in truth.books.matches})
    for number, key in enumerate([*some(sorted(truth.books.positions)), *some(matched)]):
        wallet, mint = key
        path, limit = "/api/wallets/{wallet}/{mint}/lots", 2 if number % 8 == 0 else 100
        pages = list(ask.pages(path, wallet=wallet, mint=mint, limit=limit))
        for page in pages:
            assert (page["wallet"], page["mint"]) == key
            compare(found, "position", key, wallets.position(*key), page["position"])
        lots = [lot for page in pages for lot in page["open_lots"]]
        expected = history.open_lots(truth, *key)
        assert [lot["number"] for lot in lots] == [lot["number"] for lot in expected], key
        for wanted, got in zip(expected, lots, strict=True):
            compare(found, "open lot", (*key, wanted["number"]), wanted, got)
        matches = [match for page in pages for match in page["matches"]]
        whole = [history.lot_match(match) for match in truth.matches.get(key, [])]
        _matches(found, key, whole, matches)
        _identities(pages[0]["position"], lots, matches)
    assert found.compared["open lot"] > 80
    assert found.compared["match"] > 60


def _matches(
    found: Differences, key: tuple[str, str], expected: list[Figures], answered: list[Figures]
) -> None:
    def place(match: Figures) -> tuple[Any, ...]:
        return match["slot"], match["tx_index"], match["kind"], match["lot_number"]

    assert len(answered) == len(expected), key
    order = [(match["time_ms"], match["slot"], match["tx_index"]) for match in answered]
    assert order == sorted(order, reverse=True), key
    wanted = {place(match): match for match in expected}
    for match in answered:
        compare(found, "match", (*key, place(match)), wanted.pop(place(match)), match)


def _identities(position: Figures, lots: list[Figures], matches: list[Figures]) -> None:
    """What is held is what the lots hold, what was gained is what the matches gained."""
    assert int(position["held_raw"]) == sum(int(lot["quantity_raw"]) for lot in lots)
    for unit in ("lamports", "usd_micros"):
        costs = [int(lot[f"cost_{unit}"] or 0) for lot in lots]
        assert int(position[f"held_cost_{unit}"]) == sum(costs)
        gains = [each[f"realized_{unit}"] for each in matches if each[f"realized_{unit}"]]
        gain = str(sum(map(int, gains))) if gains else None
        assert position[f"realized_{unit}"] == gain


# Prices.


def test_candles(ask, truth, found):
    for mint in some(sorted(truth.swaps_of_mint), 14):
        for interval, interval_s in INTERVALS_S.items():
            expected = history.candles(truth, mint, interval_s)
            answer = ask.get("/api/tokens/{mint}/candles", mint=mint, interval=interval)
            starts = [candle["start_ms"] for candle in answer["candles"]]
            assert starts == sorted(expected), (mint, interval)
            for candle in answer["candles"]:
                key = mint, interval, candle["start_ms"]
                wanted = expected[candle["start_ms"]]
                if truth.markets.is_fuzzy(mint):
                    wanted |= {
                        name: candle[name]
                        for name, price in wanted.items()
                        if isinstance(price, Near)
                        and price.figure
                        and candle[name] == pytest.approx(float(price.figure), rel=0.01)
                    }
                compare(found, "candle", key, wanted, candle)
    assert found.compared["candle"] > 250
