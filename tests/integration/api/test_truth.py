"""Every endpoint against the market's own notes: a market through the whole pipeline, then asked.

What is expected comes from `pipeline.chaos`'s oracle, which shares no arithmetic with the
pipeline; every answer is also held against the schema that the API publishes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any

import httpx
import pytest

from pipeline.chaos.books import DAY_MS
from pipeline.chaos.differences import Differences
from pipeline.chaos.values import MONEY, SOL
from schemas.markets import INTERVALS_S
from tests.integration.api import history_figures as history
from tests.integration.api.asking import Asker, Near, compare, raw_of, unlike, validator
from tests.integration.api.oracle import Known, day_text, known
from tests.integration.api.simulation import SEED, WALLETS, Simulation
from tests.integration.api.token_figures import TokenFigures, coins_of
from tests.integration.api.wallet_figures import Figures, WalletFigures

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NOBODY = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"  # a valid address that nobody has here
SAMPLE = 60


@pytest.fixture(scope="module")
def truth(simulation: Simulation) -> Known:
    found = known(simulation.truth, simulation.first_slot, simulation.last_slot)
    assert found.last_slot == simulation.last_slot
    assert len(found.wallets) > 200
    assert len(found.mints) > 50
    assert sum(map(len, found.swaps_of_mint.values())) > 1_500
    assert len(history.all_days(found)) == 2, "midnight falls into the run"
    return found


@pytest.fixture(scope="module")
def ask(simulated: Any, truth: Known) -> Iterator[Asker]:
    places = {mint: truth.decimals(mint) for mint in truth.mints}
    asker = Asker(simulated.url, simulated.key, truth.last_slot, truth.now_ms, places)
    try:
        yield asker
    finally:
        asker.close()


@pytest.fixture(scope="module")
def prices(ask: Asker, truth: Known) -> dict[str, Figures]:
    """What the API says a token costs: the one thing that is not computed again here."""
    return {
        mint: ask.get("/api/tokens/{mint}/price", mint=mint)
        for mint in sorted({*truth.mints, *MONEY})
    }


@pytest.fixture(scope="module")
def wallets(truth: Known, prices: dict[str, Figures]) -> WalletFigures:
    return WalletFigures(truth, prices)


@pytest.fixture(scope="module")
def tokens(truth: Known) -> TokenFigures:
    return TokenFigures(truth, coins_of(SEED, WALLETS) | truth.unseen)


@pytest.fixture
def found() -> Iterator[Differences]:
    """Differences; a test that has compared nothing fails as well as one that found some."""
    noted = Differences()
    yield noted
    assert not noted.total, [str(each) for each in noted.examples[:10]] + [dict(noted.counts)]
    assert noted.compared


def some(things: list[Any], count: int = SAMPLE) -> list[Any]:
    """Return some of many, the same each time."""
    return Random(7).sample(things, min(count, len(things)))


# Positions.


def test_positions_of_every_wallet(ask, truth, wallets, found):
    for wallet in truth.wallets:
        expected = wallets.positions(wallet)
        told: dict[str, Figures] = {}
        order = []
        for page in ask.pages("/api/wallets/{wallet}", wallet=wallet, limit=7):
            assert page["wallet"] == wallet
            totals = page["totals"]
            for position in page["positions"]:
                assert position["mint"] not in told
                told[position["mint"]] = position
                order.append((-(position["last_trade_ms"] or 0), position["mint"]))
        assert order == sorted(order)
        assert told.keys() == expected.keys(), wallet
        for mint, position in told.items():
            compare(found, "position", (wallet, mint), expected[mint], position)
        compare(found, "open", wallet, wallets.open(told.values()), totals["open"])
        compare(found, "totals", wallet, wallets.totals(wallet) | {"open": totals["open"]}, totals)
    assert found.compared["position"] > 1_500


def test_one_position_is_what_the_list_says(ask, truth, wallets, found):
    for wallet, mint in some(sorted(truth.books.positions), 300):
        told = ask.get("/api/wallets/{wallet}/{mint}", wallet=wallet, mint=mint)
        expected = wallets.position(wallet, mint) | ask.as_of | {"wallet": wallet}
        compare(found, "position", (wallet, mint), expected, told)


def test_all_dex_positions_up_to_a_limit(ask, truth, wallets, found):
    for wallet in some(truth.wallets):
        whole = ask.get("/api/wallets/{wallet}/all-dex", wallet=wallet)
        expected = wallets.positions(wallet)
        assert {each["mint"] for each in whole["positions"]} == expected.keys()
        for position in whole["positions"]:
            key = wallet, position["mint"]
            compare(found, "position", key, expected[position["mint"]], position)
        three = ask.get("/api/wallets/{wallet}/all-dex", wallet=wallet, limit=3)
        assert three["positions"] == whole["positions"][:3]
        assert three["totals"] == whole["totals"]


def test_a_wallet_that_nobody_has_has_nothing(ask):
    for path in ("", "/all-dex"):
        told = ask.get("/api/wallets/{wallet}" + path, wallet=NOBODY)
        assert told["positions"] == []
        assert told["totals"]["position_count"] == told["totals"]["buys"] == 0
        assert told["totals"]["realised_usd"] is None
    for path in ("/pnl/daily", "/trades/daily"):
        assert ask.get("/api/wallets/{wallet}" + path, wallet=NOBODY)["days"] == []
    assert ask.get("/api/wallets/{wallet}/swaps", wallet=NOBODY)["swaps"] == []
    holdings = ask.get("/api/wallets/{wallet}/holdings", wallet=NOBODY)
    assert holdings["tokens"] == []
    assert holdings["native"] is None
    assert holdings["value_usd"] == 0
    refused = ask.get("/api/wallets/{wallet}/{mint}", wallet=NOBODY, mint=SOL, status=404)
    assert refused["code"] == "no_position"


# Days.


def test_summary_of_seven_days(ask, truth, wallets, found):
    for wallet in truth.wallets:
        told = ask.get("/api/wallets/{wallet}/pnl/summary", wallet=wallet)
        expected = wallets.summary(wallet)
        for wanted, got in zip(expected["days"], told["days"], strict=True):
            compare(found, "day", (wallet, wanted["day"]), wanted, got)
        rest = {"days": told["days"], "wallet": wallet}
        compare(found, "summary", wallet, expected | rest | ask.as_of, told)


def test_daily_pnl(ask, truth, found):
    days = history.all_days(truth)
    for wallet in some(truth.wallets, 120):
        told = ask.get("/api/wallets/{wallet}/pnl/daily", wallet=wallet)
        _days(found, wallet, history.pnl_days(truth, wallet, days), told["days"])
        compare(found, "total", wallet, history.pnl(truth, wallet, days), told["total"])
    for wallet in some(truth.wallets, 20):
        for day in days:
            span = {"from": day_text(day), "to": day_text(day)}
            told = ask.get("/api/wallets/{wallet}/pnl/daily", wallet=wallet, **span)
            _days(found, wallet, history.pnl_days(truth, wallet, [day]), told["days"])
            compare(found, "total", wallet, history.pnl(truth, wallet, [day]), told["total"])


def test_daily_pnl_of_a_token(ask, truth, found):
    days = history.all_days(truth)
    path = "/api/wallets/{wallet}/pnl/{mint}/daily"
    for wallet, mint in some(sorted(truth.books.positions), 100):
        told = ask.get(path, wallet=wallet, mint=mint)
        key = wallet, mint
        _days(found, key, history.token_days(truth, *key, days), told["days"])
        compare(found, "total", key, history.token_pnl(truth, *key, days), told["total"])
        today = {"from": day_text(days[-1])}
        told = ask.get(path, wallet=wallet, mint=mint, **today)
        _days(found, key, history.token_days(truth, *key, days[1:]), told["days"])


def test_daily_volume(ask, truth, found):
    days = history.all_days(truth)
    for wallet in some(truth.wallets, 120):
        told = ask.get("/api/wallets/{wallet}/trades/daily", wallet=wallet)
        _days(found, wallet, history.volume_days(truth, wallet, days), told["days"])
        compare(found, "total", wallet, history.volume(truth, wallet, days), told["total"])


def _days(found: Differences, key: object, expected: list[Figures], told: list[Figures]) -> None:
    assert [day["day"] for day in told] == [day["day"] for day in expected], key
    for wanted, got in zip(expected, told, strict=True):
        compare(found, "day", (key, wanted["day"]), wanted, got)


# Swaps.


def test_every_swap_of_many_wallets(ask, truth, found):
    for place, wallet in enumerate(some(truth.wallets, 120)):
        limit = 500 if place % 10 else 6
        pages = ask.pages("/api/wallets/{wallet}/swaps", wallet=wallet, limit=limit)
        _swaps(found, truth.swaps_of_wallet.get(wallet, []), pages)
    assert found.compared["swap"] > 500


def test_every_swap_of_every_token(ask, truth, found):
    for place, mint in enumerate(truth.mints):
        limit = 1_000 if place % 4 else 40
        pages = ask.pages("/api/tokens/{mint}/swaps", mint=mint, limit=limit)
        _swaps(found, truth.swaps_of_mint.get(mint, []), pages)
    assert found.compared["swap"] == sum(map(len, truth.swaps_of_mint.values()))


def test_trades_of_a_wallet_with_a_token(ask, truth, found):
    for wallet, mint in some(sorted(truth.books.positions), 40):
        expected = [each for each in truth.swaps_of_wallet.get(wallet, []) if each["mint"] == mint]
        pages = ask.pages("/api/wallets/{wallet}/trades/{mint}", wallet=wallet, mint=mint, limit=3)
        _swaps(found, expected, pages)


def test_swaps_of_a_range_of_time(ask, truth, found):
    middle = history.all_days(truth)[-1] * DAY_MS
    for mint in some(sorted(truth.swaps_of_mint), 5):
        for span, is_in in (
            ({"from_ms": middle}, lambda at: at >= middle),
            ({"to_ms": middle, "from_ms": middle - DAY_MS}, lambda at: at < middle),
        ):
            expected = [each for each in truth.swaps_of_mint[mint] if is_in(each["block_time_ms"])]
            pages = ask.pages("/api/tokens/{mint}/swaps", mint=mint, limit=9, **span)
            _swaps(found, expected, pages)


def _swaps(found: Differences, expected: list[Figures], pages: Iterator[Figures]) -> None:
    told = [swap for page in pages for swap in page["swaps"]]
    identities = [(swap["signature"], swap["event_index"]) for swap in told]
    assert identities == [(swap["signature"], swap["event_index"]) for swap in expected]
    for wanted, got in zip(expected, told, strict=True):
        compare(found, "swap", wanted["signature"], history.swap(wanted, got), got)


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
    found: Differences, key: tuple[str, str], expected: list[Figures], told: list[Figures]
) -> None:
    def place(match: Figures) -> tuple[Any, ...]:
        return match["slot"], match["tx_index"], match["kind"], match["lot_number"]

    assert len(told) == len(expected), key
    order = [(match["time_ms"], match["slot"], match["tx_index"]) for match in told]
    assert order == sorted(order, reverse=True), key
    wanted = {place(match): match for match in expected}
    for match in told:
        compare(found, "match", (*key, place(match)), wanted.pop(place(match)), match)


def _identities(position: Figures, lots: list[Figures], matches: list[Figures]) -> None:
    """What is held is what the lots hold, what was gained is what the matches gained."""
    assert int(position["held_raw"]) == sum(int(lot["quantity_raw"]) for lot in lots)
    for unit in ("lamports", "usd_micros"):
        costs = [int(lot[f"cost_{unit}"] or 0) for lot in lots]
        assert int(position[f"held_cost_{unit}"]) == sum(costs)
        gains = [each[f"realised_{unit}"] for each in matches if each[f"realised_{unit}"]]
        gain = str(sum(map(int, gains))) if gains else None
        assert position[f"realised_{unit}"] == gain


# Balances.


def test_holdings_are_the_balances(ask, truth, wallets, found):
    for wallet in truth.wallets:
        told = ask.get("/api/wallets/{wallet}/holdings", wallet=wallet, include_unverified="true")
        expected = wallets.tokens(wallet)
        assert {token["mint"] for token in told["tokens"]} == expected.keys()
        assert told["hidden_unverified"] == told["hidden_small"] == 0
        worth = []
        for token in told["tokens"]:
            wanted = expected[token["mint"]]
            for account in token["accounts"]:
                account.pop("amount")  # compared with amount_raw already
            is_verified = {"is_verified": token["is_verified"]}
            compare(found, "holding", (wallet, token["mint"]), wanted | is_verified, token)
            worth.append(token["value_usd_micros"])
        native = wallets.native(wallet)
        if native is None:
            assert told["native"] is None
        else:
            compare(found, "native", wallet, native, told["native"])
            worth.append(native["value_usd_micros"])
        known_worth = [int(each) for each in worth if each is not None]
        assert int(told["value_usd_micros"] or 0) == sum(known_worth)
        _verified_only(ask.get("/api/wallets/{wallet}/holdings", wallet=wallet), told)
    assert found.compared["holding"] > 1_000


def _verified_only(told: Figures, whole: Figures) -> None:
    verified = [token["mint"] for token in whole["tokens"] if token["is_verified"]]
    assert [token["mint"] for token in told["tokens"]] == verified
    assert told["hidden_unverified"] == len(whole["tokens"]) - len(verified)


def test_holdings_of_some_worth(ask, truth):
    for wallet in some(truth.wallets, 30):
        whole = ask.get("/api/wallets/{wallet}/holdings", wallet=wallet)
        for least in (0.01, 1_000.0, 10**9):
            told = ask.get("/api/wallets/{wallet}/holdings", wallet=wallet, min_value_usd=least)
            left = [t for t in whole["tokens"] if t["value_usd"] and t["value_usd"] >= least]
            assert told["tokens"] == left
            assert told["hidden_small"] == len(whole["tokens"]) - len(left)


def test_a_portfolio_is_its_parts(ask, truth, wallets, found):
    for wallet in some(truth.wallets):
        told = ask.get("/api/wallets/{wallet}/portfolio", wallet=wallet)
        holdings = ask.get("/api/wallets/{wallet}/holdings", wallet=wallet)
        positions = ask.get("/api/wallets/{wallet}/all-dex", wallet=wallet, limit=500)
        summary = ask.get("/api/wallets/{wallet}/pnl/summary", wallet=wallet)
        for name, value in told["pnl"]["days_7"].items():
            assert value == summary[name]
        for name, value in told["pnl"]["all_time"].items():
            assert value == positions["totals"][name]
        for name in ("native", "value_usd_micros", "coverage"):
            assert told["holdings"][name] == holdings[name]
        assert told["holdings"]["verified_tokens"] == len(holdings["tokens"])
        held = [each for each in positions["positions"] if each["held_raw"] != "0"]
        held.sort(key=lambda each: (-int(each["value_lamports"] or 0), each["mint"]))
        assert told["positions"]["top"] == held[:20]
        rest = {name: told["positions"][name] for name in ("top", "is_complete")}
        expected = wallets.open(wallets.positions(wallet).values())
        expected |= {"position_count": len(truth.mints_of_wallet.get(wallet, []))} | rest
        compare(found, "portfolio", wallet, expected, told["positions"])


def test_a_batch_of_wallets_is_each_of_them(ask, truth):
    asked = some(truth.wallets, 20)
    sections = ["positions", "holdings", "pnl", "portfolio"]
    told = ask.post("/api/wallets/batch", {"wallets": asked, "include": sections})
    assert [each["wallet"] for each in told["wallets"]] == asked
    for each in told["wallets"]:
        for path, section in (("holdings", "holdings"), ("portfolio", "portfolio")):
            single = ask.get(f"/api/wallets/{{wallet}}/{path}", wallet=each["wallet"])
            assert single.items() >= each[section].items()
        single = ask.get("/api/wallets/{wallet}/pnl/summary", wallet=each["wallet"])
        assert single.items() >= each["pnl"].items()
        single = ask.get("/api/wallets/{wallet}/all-dex", wallet=each["wallet"], limit=50)
        assert single.items() >= each["positions"].items()
    refused = ask.post("/api/wallets/batch", {"wallets": asked, "include": ["lending"]}, status=422)
    assert all(section in refused["detail"] for section in sections)


# Tokens.


def test_what_a_token_is(ask, truth, tokens, found):
    for mint in truth.mints:
        told = ask.get("/api/tokens/{mint}", mint=mint)
        expected = tokens.about(mint)
        if "supply_raw" not in expected:
            wrong = tokens.wrong_supply(mint, told)
            if wrong:
                found.add("supply", mint, wrong, told)
            expected |= {
                name: told[name] for name in ("supply_raw", "supply_source", "supply_time_ms")
            }
        expected |= tokens.market(mint, expected["supply_raw"]) | ask.as_of
        liquidity = tokens.liquidity_lamports(mint)
        for name in ("liquidity_lamports", "liquidity_usd"):
            expected[name] = told[name]
        if liquidity is not None:
            expected["liquidity_lamports"] = str(liquidity)
        for problem in tokens.wrong_price(mint, told):
            found.add("price", mint, problem, told)
        day, wanted = told.pop("day"), tokens.day(mint)
        expected |= {name: told[name] for name in PRICED}
        compare(found, "token", mint, expected, told)
        if day is None or wanted is None:
            assert day is wanted is None, mint
        else:
            compare(found, "24 hours", mint, wanted, day)
    assert found.compared["token"] > 50
    assert found.compared["24 hours"] > 30


PRICED = (
    *("price_sol", "price_usd", "price_time_ms", "price_slot", "price_source", "is_price_stale"),
    *("change_24h_pct", "market_cap_usd"),
)


def test_what_a_token_costs(prices, tokens, truth, found):
    for mint, told in prices.items():
        found.compared["price"] += 1
        for problem in tokens.wrong_price(mint, told):
            found.add("price", mint, problem, told)
    traded = [mint for mint in truth.swaps_of_mint if mint not in MONEY]
    unpriced = [mint for mint in traded if prices[mint]["price_sol"] is None]
    assert len(unpriced) < len(traded) / 10, unpriced


def test_price_says_what_the_token_says(ask, truth, prices):
    for mint in some(truth.mints):
        token = ask.get("/api/tokens/{mint}", mint=mint)
        assert token.items() >= prices[mint].items()


def test_where_a_token_trades(ask, truth, tokens, found):
    for mint in truth.mints:
        told = ask.get("/api/tokens/{mint}/pools", mint=mint)
        expected = tokens.pools(mint)
        depths = [int(pool["liquidity_lamports"] or 0) for pool in told["pools"]]
        assert depths == sorted(depths, reverse=True)
        assert expected.keys() <= {pool["pool"] for pool in told["pools"]}
        for pool in told["pools"]:
            if pool["pool"] not in expected:
                assert not pool["day"] or pool["day"]["buys"] == pool["day"]["sells"] == 0
                continue
            wanted = expected[pool["pool"]]
            day, wanted_day = pool.pop("day"), wanted.pop("day")
            compare(found, "pool's 24 hours", pool["pool"], wanted_day, day)
            for name in ("price_sol", "price_usd", "liquidity_lamports", "liquidity_usd"):
                wanted[name] = pool[name]
            if pool["dex"] == "raydium-cpmm":  # its reserve may be told with a fee
                wanted["reserve_raw"] = pool["reserve_raw"]
            compare(found, "pool", pool["pool"], wanted, pool)


def test_who_holds_a_token(ask, truth, tokens, found):
    for mint in truth.mints:
        told = ask.get("/api/tokens/{mint}/holders", mint=mint, limit=100)
        expected = tokens.holders(mint)
        if mint in MONEY:
            assert told["holders"] == []
            continue
        assert told["holder_count"] == len(expected), mint
        balances = dict(expected)
        most = [raw for _, raw in expected[:100]]
        assert [int(holder["balance_raw"]) for holder in told["holders"]] == most, mint
        assert len({holder["address"] for holder in told["holders"]}) == len(most)
        for place, holder in enumerate(told["holders"], start=1):
            raw = balances[holder["address"]]
            share = Near(None)
            if told["supply_raw"] and int(told["supply_raw"]):
                share = Near(Fraction(100 * raw, int(told["supply_raw"])))
            wanted = {
                "place": place,
                "address": holder["address"],
                "balance_raw": str(raw),
                "supply_pct": share,
            }
            compare(found, "holder", (mint, holder["address"]), wanted, holder)
    assert found.compared["holder"] > 1_000


def test_who_gained_most_with_a_token(ask, truth, tokens, found):
    for mint in truth.mints:
        expected = tokens.traders(mint)
        told = ask.get("/api/tokens/{mint}/leaderboard", mint=mint, limit=100)
        assert len(told["traders"]) == len(expected[:100]), mint
        for wanted, got in zip(expected, told["traders"], strict=False):
            compare(found, "trader", (mint, wanted["wallet"]), wanted, got)
        same = ask.get("/api/wallets/leaderboard/{mint}", mint=mint, limit=100)
        assert same == told
        three = ask.get("/api/tokens/{mint}/leaderboard", mint=mint, limit=3)
        assert three["traders"] == told["traders"][:3]
    assert found.compared["trader"] > 200


def test_batches_of_tokens_are_each_of_them(ask, truth):
    asked = [*some(truth.mints, 40), NOBODY]
    told = ask.post("/api/tokens/batch", {"mints": asked})
    assert told["unknown"] == [NOBODY]
    assert [token["mint"] for token in told["tokens"]] == asked[:-1]
    for token in told["tokens"]:
        assert ask.get("/api/tokens/{mint}", mint=token["mint"]).items() >= token.items()
    told = ask.post("/api/tokens/leaderboard/batch", {"mints": asked})
    assert told["unknown"] == [NOBODY]
    assert [board["mint"] for board in told["leaderboards"]] == asked[:-1]
    for board in told["leaderboards"]:
        single = ask.get("/api/tokens/{mint}/leaderboard", mint=board["mint"])
        assert single["traders"][: len(board["traders"])] == board["traders"]


def test_candles(ask, truth, found):
    for mint in some(sorted(truth.swaps_of_mint), 14):
        for interval, interval_s in INTERVALS_S.items():
            expected = history.candles(truth, mint, interval_s)
            told = ask.get("/api/tokens/{mint}/candles", mint=mint, interval=interval)
            starts = [candle["start_ms"] for candle in told["candles"]]
            assert starts == sorted(expected), (mint, interval)
            for candle in told["candles"]:
                key = mint, interval, candle["start_ms"]
                wanted = expected[candle["start_ms"]]
                wanted |= {name: value for name, value in candle.items() if _is_price(name)}
                compare(found, "candle", key, wanted, candle)
                for wrong in history.wrong_prices(truth, mint, candle):
                    found.add("candle's prices", key, *wrong[1:])
    assert found.compared["candle"] > 250


def _is_price(name: str) -> bool:
    return name.startswith(("open_", "high_", "low_", "close_"))


def test_what_trends(ask, truth, tokens, found):
    """The list is of the last whole second: what happened within the newest one is not in it."""
    told = ask.get("/api/tokens/trending", limit=100)
    scores = tokens.trending()
    best = sorted(scores.values(), reverse=True)[:100]
    assert [round(token["score"] * 1024) for token in told["tokens"]] == best
    second = TokenFigures(truth.before(truth.now_ms // 1000 * 1000), tokens.coins)
    for place, token in enumerate(told["tokens"], start=1):
        mint = token["mint"]
        wanted = second.trending_record(mint) | {
            "place": place,
            "score": Near(Fraction(scores[mint], 1024)),
            **{name: token[name] for name in ("price_usd", "market_cap", "liquidity_usd")},
        }
        if mint in tokens.coins:  # of what the events do not tell, the newest is told
            wanted["top10_holders_pct"] = tokens.trending_record(mint)["top10_holders_pct"]
        compare(found, "trending", mint, wanted, token)
        cap = None
        if token["price_usd"] is not None and token["supply"] is not None:
            cap = Fraction(token["price_usd"]) * Fraction(token["supply"])
        assert Near(cap) == token["market_cap"]
    assert found.compared["trending"] > 15


def test_a_token_that_nobody_knows(ask):
    for path in ("", "/price", "/holders", "/leaderboard", "/pools"):
        refused = ask.get("/api/tokens/{mint}" + path, mint=NOBODY, status=404)
        assert refused["code"] == "unknown_token"


def test_health_says_how_far_it_is(ask, truth):
    answer = ask.client.get("/api/health")
    told = answer.json()
    assert answer.status_code == 200
    assert validator(ask.document, "get", "/api/health", 200).is_valid(told)
    # The chain has ended: half a minute later that is told.
    assert told["status"] in ("ok", "degraded")
    assert (told["status"] == "degraded") == bool(told["reasons"])
    assert {each["status"] for each in told["dependencies"].values()} == {"ok"}
    groups = told["pipeline"]["groups"].values()
    assert {group["slot"] for group in groups} == {truth.last_slot}
    assert told["gaps"]["count"] == 0
    reduced = httpx.get(f"{ask.client.base_url}/api/health").json()
    assert reduced.keys() == {"status", "timestamp"}


# The proof itself.


def test_what_is_wrong_is_found(ask, truth, wallets):
    """One thing of each kind is spoilt, and the comparison tells."""
    wallet, mint = next(key for key in sorted(truth.books.positions) if truth.matches.get(key))
    told = ask.get("/api/wallets/{wallet}/{mint}", wallet=wallet, mint=mint)
    expected = wallets.position(wallet, mint) | ask.as_of | {"wallet": wallet}
    for name, value in told.items():
        if not raw_of(name) & told.keys():
            spoilt = Differences()
            compare(spoilt, "position", mint, expected, told | {name: f"{value}1"})
            assert spoilt.total == 1, name
    for wrong in ({**told, "unknown_field": 1}, {k: v for k, v in told.items() if k != "held_raw"}):
        spoilt = Differences()
        compare(spoilt, "position", mint, expected, wrong)
        assert spoilt.total == 1
    assert not list(unlike(told, None, {}))
    for name in ("bought", "bought_sol", "bought_usd"):
        assert len(list(unlike([told | {name: told[name] + 1e-6}], None, {}))) == 1
    assert Near(Fraction(1, 3)) == 1 / 3
    assert Near(Fraction(1, 3)) != 1 / 3 + 1e-6
    assert Near(None) != 0


def test_every_operation_was_asked(ask, request):
    here = {item.name for item in request.session.items if item.path == request.path}
    if not here >= {name for name in globals() if name.startswith("test_")}:
        pytest.skip("some tests of this file were left out")
    told_of_itself = {"get /api/health", "get /api/health/live", "get /api/usage"}
    operations = {
        f"{method} {path}" for path, methods in ask.document["paths"].items() for method in methods
    }
    assert operations - told_of_itself == set(ask.asked) - told_of_itself
