"""What the API says of wallets, against the market's own notes.

What is expected comes from `pipeline.chaos`'s oracle, which shares no arithmetic with the
pipeline; every answer is also held against the schema that the API publishes of it.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from pipeline.chaos.differences import Differences
from pipeline.chaos.values import SOL
from tests.support.api.asking import Near, compare, raw_of, unlike
from tests.support.api.oracle import NOBODY, some
from tests.support.api.wallet_figures import Figures

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


# Of a token account, what only the lane of accounts knows: it does not run here.
OF_THE_LANE = ("is_frozen", "delegate", "delegated_raw")

# Positions.


def test_positions_of_every_wallet(ask, truth, wallets, found):
    for wallet in truth.wallets:
        expected = wallets.positions(wallet)
        answer: dict[str, Figures] = {}
        order = []
        for page in ask.pages("/api/wallets/{wallet}", wallet=wallet, limit=7):
            assert page["wallet"] == wallet
            totals = page["totals"]
            for position in page["positions"]:
                assert position["mint"] not in answer
                answer[position["mint"]] = position
                order.append((-(position["last_trade_ms"] or 0), position["mint"]))
        assert order == sorted(order)
        assert answer.keys() == expected.keys(), wallet
        for mint, position in answer.items():
            compare(found, "position", (wallet, mint), expected[mint], position)
        compare(found, "open", wallet, wallets.open(answer.values()), totals["open"])
        compare(found, "totals", wallet, wallets.totals(wallet) | {"open": totals["open"]}, totals)
    assert found.compared["position"] > 500


def test_one_position_is_what_the_list_says(ask, truth, wallets, found):
    for wallet, mint in some(sorted(truth.books.positions), 300):
        answer = ask.get("/api/wallets/{wallet}/{mint}", wallet=wallet, mint=mint)
        expected = wallets.position(wallet, mint) | ask.as_of | {"wallet": wallet}
        compare(found, "position", (wallet, mint), expected, answer)


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
        answer = ask.get("/api/wallets/{wallet}" + path, wallet=NOBODY)
        assert answer["positions"] == []
        assert answer["totals"]["position_count"] == answer["totals"]["buys"] == 0
        assert answer["totals"]["realized_usd"] is None
    for path in ("/pnl/daily", "/trades/daily"):
        assert ask.get("/api/wallets/{wallet}" + path, wallet=NOBODY)["days"] == []
    assert ask.get("/api/wallets/{wallet}/swaps", wallet=NOBODY)["swaps"] == []
    holdings = ask.get("/api/wallets/{wallet}/holdings", wallet=NOBODY)
    assert holdings["tokens"] == []
    assert holdings["native"] is None
    assert holdings["value_usd"] is None
    refused = ask.get("/api/wallets/{wallet}/{mint}", wallet=NOBODY, mint=SOL, status=404)
    assert refused["code"] == "no_position"


def test_a_compact_list_is_the_full_one_with_fewer_fields(ask, truth):
    seen = 0
    for wallet in some(truth.wallets, 40):
        for path in ("", "/all-dex"):
            full = ask.get(f"/api/wallets/{{wallet}}{path}", wallet=wallet, limit=500)
            answer = ask.get(
                f"/api/wallets/{{wallet}}{path}", wallet=wallet, limit=500, view="compact"
            )
            rows, compact_rows = full.pop("positions"), answer.pop("positions")
            assert answer == full
            for row, compact in zip(rows, compact_rows, strict=True):
                wins, losses = row["wins"], row["losses"]
                assert compact.pop("win_rate_pct") == (
                    100 * wins / (wins + losses) if wins + losses else None
                )
                assert compact.items() <= row.items()
                seen += 1
    assert seen > 100


# Balances.


def test_holdings_are_the_balances(ask, truth, wallets, found):
    for wallet in truth.wallets:
        answer = ask.get("/api/wallets/{wallet}/holdings", wallet=wallet, include_unverified="true")
        expected = wallets.tokens(wallet)
        assert {token["mint"] for token in answer["tokens"]} == expected.keys()
        assert answer["hidden_unverified"] == answer["hidden_small"] == 0
        worth = []
        for token in answer["tokens"]:
            wanted = expected[token["mint"]]
            for account in token["accounts"]:
                account.pop("amount")  # compared with amount_raw already
                assert [account.pop(name) for name in OF_THE_LANE] == [None] * len(OF_THE_LANE)
            assert token.pop("withheld_raw") is None
            assert token.pop("shown_amount") is None
            assert token.pop("unsupported_fields") == []
            source = token.pop("price_source")
            assert source in (None, "live", "settled", "reference", "par")
            assert (source is None) == (token["price_time_ms"] is None)
            is_verified = {"is_verified": token["is_verified"]}
            compare(found, "holding", (wallet, token["mint"]), wanted | is_verified, token)
            worth.append(token["value_usd_micros"])
        native = wallets.native(wallet)
        if native is None:
            assert answer["native"] is None
        else:
            compare(found, "native", wallet, native, answer["native"])
            worth.append(native["value_usd_micros"])
        known_worth = [int(each) for each in worth if each is not None]
        assert answer["value_usd_micros"] == (str(sum(known_worth)) if known_worth else None)
        _verified_only(ask.get("/api/wallets/{wallet}/holdings", wallet=wallet), answer)
    assert found.compared["holding"] > 500


def _verified_only(answer: Figures, whole: Figures) -> None:
    verified = [token["mint"] for token in whole["tokens"] if token["is_verified"]]
    assert [token["mint"] for token in answer["tokens"]] == verified
    assert answer["hidden_unverified"] == len(whole["tokens"]) - len(verified)


def test_holdings_of_some_worth(ask, truth):
    for wallet in some(truth.wallets, 30):
        whole = ask.get("/api/wallets/{wallet}/holdings", wallet=wallet)
        for least in (0.01, 1_000.0, 10**9):
            answer = ask.get("/api/wallets/{wallet}/holdings", wallet=wallet, min_value_usd=least)
            left = [t for t in whole["tokens"] if t["value_usd"] and t["value_usd"] >= least]
            assert answer["tokens"] == left
            assert answer["hidden_small"] == len(whole["tokens"]) - len(left)
            native = whole["native"]
            is_small = native is not None and (native["value_usd"] or 0) < least
            assert answer["native"] == (None if is_small else native)
            assert answer["hidden_native"] == is_small
            assert answer["total_value_usd_micros"] == whole["value_usd_micros"]
            worth = [int(each["value_usd_micros"]) for each in left]
            if answer["native"] is not None and answer["native"]["value_usd_micros"] is not None:
                worth.append(int(answer["native"]["value_usd_micros"]))
            if whole["value_usd_micros"] is not None:
                assert answer["value_usd_micros"] == (str(sum(worth)) if worth else None)


def test_a_portfolio_is_its_parts(ask, truth, wallets, found):
    for wallet in some(truth.wallets):
        answer = ask.get("/api/wallets/{wallet}/portfolio", wallet=wallet)
        holdings = ask.get("/api/wallets/{wallet}/holdings", wallet=wallet)
        positions = ask.get("/api/wallets/{wallet}/all-dex", wallet=wallet, limit=500)
        summary = ask.get("/api/wallets/{wallet}/pnl/summary", wallet=wallet)
        for name, value in answer["pnl"]["days_7"].items():
            assert value == summary[name]
        for name, value in answer["pnl"]["all_time"].items():
            assert value == positions["totals"][name]
        for name in ("native", "value_usd_micros", "coverage"):
            assert answer["holdings"][name] == holdings[name]
        assert answer["holdings"]["verified_tokens"] == len(holdings["tokens"])
        held = [each for each in positions["positions"] if each["held_raw"] != "0"]
        held.sort(key=lambda each: (-int(each["value_lamports"] or 0), each["mint"]))
        assert answer["positions"]["top"] == held[:20]
        rest = {name: answer["positions"][name] for name in ("top", "is_complete")}
        expected = wallets.open(wallets.positions(wallet).values())
        expected |= {"position_count": len(truth.mints_of_wallet.get(wallet, []))} | rest
        compare(found, "portfolio", wallet, expected, answer["positions"])


def test_a_batch_of_wallets_is_each_of_them(ask, truth):
    asked = some(truth.wallets, 20)
    sections = ["positions", "holdings", "pnl", "portfolio"]
    answer = ask.post("/api/wallets/batch", {"wallets": asked, "include": sections})
    assert [each["wallet"] for each in answer["wallets"]] == asked
    for each in answer["wallets"]:
        for path, section in (("holdings", "holdings"), ("portfolio", "portfolio")):
            single = ask.get(f"/api/wallets/{{wallet}}/{path}", wallet=each["wallet"])
            assert single.items() >= each[section].items()
        single = ask.get("/api/wallets/{wallet}/pnl/summary", wallet=each["wallet"])
        assert single.items() >= each["pnl"].items()
        single = ask.get("/api/wallets/{wallet}/all-dex", wallet=each["wallet"], limit=50)
        assert single.items() >= each["positions"].items()
    refused = ask.post(
        "/api/wallets/batch", {"wallets": asked, "include": ["nonsense"]}, status=422
    )
    assert all(section in refused["detail"] for section in sections)


# The proof itself.


def test_what_is_wrong_is_found(ask, truth, wallets):
    """One thing of each kind is spoilt, and the comparison finds it."""
    wallet, mint = next(key for key in sorted(truth.books.positions) if truth.matches.get(key))
    answer = ask.get("/api/wallets/{wallet}/{mint}", wallet=wallet, mint=mint)
    expected = wallets.position(wallet, mint) | ask.as_of | {"wallet": wallet}
    for name, value in answer.items():
        if not raw_of(name) & answer.keys():
            spoilt = Differences()
            compare(spoilt, "position", mint, expected, answer | {name: f"{value}1"})
            assert spoilt.total == 1, name
    for wrong in (
        {**answer, "unknown_field": 1},
        {k: v for k, v in answer.items() if k != "held_raw"},
    ):
        spoilt = Differences()
        compare(spoilt, "position", mint, expected, wrong)
        assert spoilt.total == 1
    assert not list(unlike(answer, None, {}))
    for name in ("bought", "bought_sol", "bought_usd"):
        assert len(list(unlike([answer | {name: answer[name] + 1e-6}], None, {}))) == 1
    assert Near(Fraction(1, 3)) == 1 / 3
    assert Near(Fraction(1, 3)) != 1 / 3 + 1e-6
    assert Near(None) != 0
