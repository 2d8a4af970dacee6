"""Which paths there are: those of the specification that are due, and none of those to come."""

from __future__ import annotations

import httpx
import pytest

OPERATIONS = {
    "get /api/wallets/{wallet}",
    "get /api/wallets/{wallet}/{mint}",
    "get /api/wallets/{wallet}/pnl/summary",
    "get /api/wallets/{wallet}/pnl/daily",
    "get /api/wallets/{wallet}/pnl/{mint}/daily",
    "get /api/wallets/{wallet}/trades/daily",
    "get /api/wallets/{wallet}/trades/{mint}",
    "get /api/wallets/leaderboard/{mint}",
    "get /api/wallets/{wallet}/all-dex",
    "get /api/wallets/{wallet}/portfolio",
    "get /api/wallets/{wallet}/holdings",
    "get /api/wallets/{wallet}/staking/native",
    "get /api/wallets/{wallet}/p08/funding",
    "get /api/wallets/{wallet}/p09/pnl",
    "get /api/wallets/{wallet}/all-lending",
    "get /api/wallets/{wallet}/all-lp",
    "get /api/wallets/{wallet}/analyze",
    "get /api/wallets/{wallet}/all-perps",
    "get /api/wallets/{wallet}/all-staking",
    "get /api/wallets/{wallet}/all-governance",
    "get /api/wallets/{wallet}/all-yield",
    "get /api/wallets/{wallet}/all-rewards",
    "post /api/wallets/batch",
    "get /api/tokens/{mint}",
    "get /api/tokens/{mint}/price",
    "get /api/tokens/{mint}/holders",
    "get /api/tokens/{mint}/leaderboard",
    "post /api/tokens/batch",
    "post /api/tokens/leaderboard/batch",
    "get /api/health",
    "get /mcp/health",
}
BEYOND = {
    "get /api/tokens/{mint}/candles",
    "get /api/tokens/{mint}/image",
    "get /api/tokens/{mint}/swaps",
    "get /api/wallets/{wallet}/swaps",
    "get /api/tokens/trending",
    "get /api/wallets/{wallet}/{mint}/lots",
    "get /api/wallets/{wallet}/networth",
    "get /api/usage",
    "get /api/system",
}
TO_COME = ("p11/liquidity", "p35/positions")
WALLET = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"


def test_every_operation_of_the_specification_is_there(api):
    paths = httpx.get(f"{api.url}/openapi.json").json()["paths"]
    found = {f"{method} {path}" for path, methods in paths.items() for method in methods}
    assert found >= OPERATIONS | BEYOND


def test_what_is_to_come_is_not_there(api):
    headers = {"x-api-key": api.key}
    for path in TO_COME:
        answer = httpx.get(f"{api.url}/api/wallets/{WALLET}/{path}", headers=headers)
        # One word where a mint may stand is taken for one, and is none.
        wanted = (422, "invalid_address") if "/" not in path else (404, "not_found")
        assert (answer.status_code, answer.json()["code"]) == wanted, path
    for path in ("/pay/__402/health", "/ws"):
        assert httpx.get(f"{api.url}{path}", headers=headers).status_code == 404


@pytest.mark.parametrize("area", ["wallets", "tokens"])
@pytest.mark.parametrize("word", ["batch", "leaderboard"])
def test_fixed_words_are_no_addresses(api, area, word):
    headers = {"x-api-key": api.key}
    answer = httpx.get(f"{api.url}/api/{area}/{word}", headers=headers)
    assert answer.status_code in (404, 405)
