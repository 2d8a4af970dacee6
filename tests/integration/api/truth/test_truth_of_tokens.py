"""What the API says of tokens and of itself, against the market's own notes.

What is expected comes from `pipeline.chaos`'s oracle, which shares no arithmetic with the
pipeline; every answer is also held against the schema that the API publishes of it.
"""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import httpx
import pytest

from pipeline.chaos.values import MONEY
from tests.support.api.asking import Near, compare, validator
from tests.support.api.oracle import NOBODY, some
from tests.support.api.token_figures import TokenFigures

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SUPPLY = ("supply_raw", "supply_source", "supply_time_ms", "supply_slot")


# Tokens.


def test_what_a_token_is(ask, truth, tokens, found):
    for mint in truth.mints:
        answer = ask.get("/api/tokens/{mint}", mint=mint)
        expected = tokens.about(mint)
        if tokens.may_be_closed(mint, answer):
            expected |= dict.fromkeys(("name", "symbol", "uri"))
        if "supply_raw" not in expected:
            wrong = tokens.wrong_supply(mint, answer)
            if wrong:
                found.add("supply", mint, wrong, answer)
            expected |= {name: answer[name] for name in SUPPLY}
        expected |= tokens.market(mint, expected["supply_raw"]) | ask.as_of
        expected |= {"mint_account": None, "mint_account_reason": "not_ingested"}
        expected |= {
            "metadata": None,
            "metadata_reason": "off" if answer["uri"] else "no_uri",
            "metadata_detail": answer["metadata_detail"],
        }
        liquidity = tokens.liquidity_lamports(mint)
        for name in ("liquidity_lamports", "liquidity_usd"):
            expected[name] = answer[name]
        if liquidity is not None:
            expected["liquidity_lamports"] = str(liquidity)
        for problem in tokens.wrong_price(mint, answer):
            found.add("price", mint, problem, answer)
        day, wanted = answer.pop("day"), tokens.day(mint)
        expected |= {name: answer[name] for name in PRICED}
        compare(found, "token", mint, expected, answer)
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
    for mint, answer in prices.items():
        found.compared["price"] += 1
        for problem in tokens.wrong_price(mint, answer):
            found.add("price", mint, problem, answer)
    traded = [mint for mint in truth.swaps_of_mint if mint not in MONEY]
    unpriced = [mint for mint in traded if prices[mint]["price_sol"] is None]
    assert len(unpriced) < len(traded) / 10, unpriced


def test_price_says_what_the_token_says(ask, truth, prices):
    for mint in some(truth.mints):
        token = ask.get("/api/tokens/{mint}", mint=mint)
        assert token.items() >= prices[mint].items()


def test_where_a_token_trades(ask, truth, tokens, found):
    for mint in truth.mints:
        answer = ask.get("/api/tokens/{mint}/pools", mint=mint)
        expected = tokens.pools(mint)
        depths = [int(pool["liquidity_lamports"] or 0) for pool in answer["pools"]]
        assert depths == sorted(depths, reverse=True)
        assert expected.keys() <= {pool["pool"] for pool in answer["pools"]}
        for pool in answer["pools"]:
            if pool["pool"] not in expected:
                assert not pool["day"] or pool["day"]["buys"] == pool["day"]["sells"] == 0
                continue
            wanted = expected[pool["pool"]]
            day, wanted_day = pool.pop("day"), wanted.pop("day")
            compare(found, "pool's 24 hours", pool["pool"], wanted_day, day)
            for name in ("price_sol", "price_usd", "liquidity_lamports", "liquidity_usd"):
                wanted[name] = pool[name]
            if pool["dex"] == "raydium-cpmm":  # its reserve may include a fee
                wanted["reserve_raw"] = pool["reserve_raw"]
            compare(found, "pool", pool["pool"], wanted, pool)


def test_who_holds_a_token(ask, truth, tokens, found):
    for mint in truth.mints:
        answer = ask.get("/api/tokens/{mint}/holders", mint=mint, limit=100)
        expected = tokens.holders(mint)
        if mint in MONEY:
            assert answer["holders"] == []
            continue
        assert answer["holder_count"] == len(expected), mint
        balances = dict(expected)
        most = [raw for _, raw in expected[:100]]
        assert [int(holder["balance_raw"]) for holder in answer["holders"]] == most, mint
        assert len({holder["address"] for holder in answer["holders"]}) == len(most)
        for rank, holder in enumerate(answer["holders"], start=1):
            raw = balances[holder["address"]]
            share = Near(None)
            if answer["supply_raw"] and int(answer["supply_raw"]):
                share = Near(Fraction(100 * raw, int(answer["supply_raw"])))
            wanted = {
                "rank": rank,
                "address": holder["address"],
                "balance_raw": str(raw),
                "supply_pct": share,
            }
            compare(found, "holder", (mint, holder["address"]), wanted, holder)
    assert found.compared["holder"] > 500


def test_who_gained_most_with_a_token(ask, truth, tokens, found):
    for mint in truth.mints:
        expected = tokens.traders(mint)
        answer = ask.get("/api/tokens/{mint}/leaderboard", mint=mint, limit=100)
        assert len(answer["traders"]) == len(expected[:100]), mint
        for wanted, got in zip(expected, answer["traders"], strict=False):
            compare(found, "trader", (mint, wanted["wallet"]), wanted, got)
        same = ask.get("/api/wallets/leaderboard/{mint}", mint=mint, limit=100)
        assert same == answer
        three = ask.get("/api/tokens/{mint}/leaderboard", mint=mint, limit=3)
        assert three["traders"] == answer["traders"][:3]
    assert found.compared["trader"] > 200


def test_batches_of_tokens_are_each_of_them(ask, truth):
    asked = [*some(truth.mints, 40), NOBODY]
    answer = ask.post("/api/tokens/batch", {"mints": asked})
    assert answer["unknown"] == [NOBODY]
    assert [token["mint"] for token in answer["tokens"]] == asked[:-1]
    for token in answer["tokens"]:
        assert ask.get("/api/tokens/{mint}", mint=token["mint"]).items() >= token.items()
    answer = ask.post("/api/tokens/leaderboard/batch", {"mints": asked})
    assert answer["unknown"] == [NOBODY]
    assert [board["mint"] for board in answer["leaderboards"]] == asked[:-1]
    for board in answer["leaderboards"]:
        single = ask.get("/api/tokens/{mint}/leaderboard", mint=board["mint"])
        assert single["traders"][: len(board["traders"])] == board["traders"]


def test_what_trends(ask, truth, tokens, found):
    """The list is of the last whole second: what happened within the newest one is not in it."""
    answer = ask.get("/api/tokens/trending", limit=100)
    scores = tokens.trending()
    best = sorted(scores.values(), reverse=True)[:100]
    assert [round(token["score"] * 1024) for token in answer["tokens"]] == best
    second = TokenFigures(truth.before(truth.now_ms // 1000 * 1000), tokens.coins)
    for rank, token in enumerate(answer["tokens"], start=1):
        mint = token["mint"]
        # An older coin's supply is the RPC's: `test_what_a_token_is` holds it to its bounds.
        supply_raw = ask.get("/api/tokens/{mint}", mint=mint)["supply_raw"]
        wanted = second.trending_record(mint, supply_raw) | {
            "rank": rank,
            "score": Near(Fraction(scores[mint], 1024)),
            **{name: token[name] for name in ("price_usd", "market_cap", "liquidity_usd")},
        }
        if mint in tokens.coins:  # what the events lack is completed from the newest holders
            newest = tokens.trending_record(mint, supply_raw)
            wanted["top10_holders_pct"] = newest["top10_holders_pct"]
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
    body = answer.json()
    assert answer.status_code == 200
    assert validator(ask.document, "get", "/api/health", 200).is_valid(body)
    # The chain has ended: half a minute later the status says so.
    assert body["status"] in ("ok", "degraded")
    assert (body["status"] == "degraded") == bool(body["reasons"])
    assert {each["status"] for each in body["dependencies"].values()} == {"ok"}
    groups = {name: group["slot"] for name, group in body["pipeline"]["groups"].items()}
    assert groups.pop("accounts") is None  # does not run here
    assert set(groups.values()) == {truth.last_slot}
    assert body["gaps"]["count"] == 0
    reduced = httpx.get(f"{ask.client.base_url}/api/health").json()
    assert reduced.keys() == {"status", "timestamp", "chain"}
    assert reduced["chain"] == body["chain"]
    assert body["chain"]["network"] == "simulated"  # as the chain itself said


def test_the_last_hour_as_it_ran(ask, truth):
    answer = ask.get("/api/system")
    slots = [slot for slot in truth.oracle.slots if truth.now_ms - slot.block_time_ms < 3_600_000]
    swaps = [swap for slot in slots for tx in slot.transactions for swap in tx.swaps]
    assert answer["minutes"][0]["start_ms"] == truth.now_ms - len(answer["minutes"]) * 60_000
    assert sum(minute["slots"] for minute in answer["minutes"]) == len(slots)
    assert sum(minute["swaps"] for minute in answer["minutes"]) == len(swaps)
    venues = {venue["dex"]: venue for venue in answer["venues"]}
    assert {dex: venue["swaps"] for dex, venue in venues.items() if venue["swaps"]} == Counter(
        swap["dex"] for swap in swaps
    )
    for name in ("unknown", "malformed"):
        assert sum(venue[name] for venue in answer["venues"]) == sum(
            minute[name] for minute in answer["minutes"]
        )


def test_every_operation_is_asked_here(ask):
    """Each path of the document is one that these tests ask."""
    here = Path(__file__).parent
    sources = "".join(path.read_text() for path in sorted(here.glob("*.py")))
    of_protocol = re.compile(r"/api/wallets/\{wallet\}/p\d\d/")
    paths = {
        path
        for path in ask.document["paths"]
        if path not in TESTED_ELSEWHERE and not of_protocol.match(path)
    }
    assert len(paths) > 20
    assert [path for path in sorted(paths) if f'"{path}"' not in sources] == []


# Of a process, of a key, and of the lane of accounts, which does not run here: so are positions in
# protocols.
TESTED_ELSEWHERE = (
    "/api/tokens/{mint}/image",  # of a stranger's server
    "/api/health/live",
    "/api/usage",
    "/mcp/health",  # with the other paths of MCP
    "/api/wallets/{wallet}/networth",  # of `soltape watch`, which does not run here
    "/api/wallets/{wallet}/staking/native",
    "/api/wallets/{wallet}/analyze",
    *(
        f"/api/wallets/{{wallet}}/all-{kind}"
        for kind in ("lending", "perps", "staking", "governance", "lp", "yield", "rewards")
    ),
)
