# ruff: noqa: E501 - an error is one line
"""Errors of validation name the parameter, what it accepts, and what came."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from httpx import ASGITransport, AsyncClient
from hypothesis import given
from hypothesis import strategies as st

from api.access.keys import new
from api.app import ROUTERS
from api.http.access_log import AccessLog
from api.http.dispatch import use
from api.http.edge import Edge
from api.http.problems import HANDLERS, of_validation
from api.http.validation import shown
from infra.hosts import Hosts
from infra.proxies import Proxies
from infra.settings import Settings

A = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
ADDRESS = "must be a Solana address, 32 to 44 characters of base58"
MOMENT = "must be a date (YYYY-MM-DD), an ISO 8601 time or milliseconds since 1970, "
MOMENT += "from 1970-01-01 to 2149-06-06"


@pytest.fixture(scope="module")
def client():
    """The routes without a gate; what is refused reaches no store."""
    settings = Settings(_env_file=None)
    app = FastAPI(exception_handlers=HANDLERS, docs_url=None, openapi_url=None)
    use(app.router, ROUTERS)
    app.add_middleware(
        Edge,
        log=AccessLog(settings),
        hosts=Hosts(settings.api_host),
        proxies=Proxies(),
        answered=lambda status: None,
    )
    return AsyncClient(transport=ASGITransport(app), base_url="http://localhost")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8000", "", "[::1"])
async def test_a_name_that_is_not_ours_gets_nothing(client, host):
    for path in ("/", "/api/health", "/api/tokens/trending", "/nowhere"):
        answer = await client.get(path, headers={"host": host})
        assert answer.status_code == 421
        assert answer.json()["code"] == "misdirected"
        assert "ALLOWED_HOSTS" in answer.json()["detail"]
    for name in ("127.0.0.1:8000", "LOCALHOST", "[::1]:8000"):
        answer = await client.get("/nowhere", headers={"host": name})
        assert answer.status_code == 404


@pytest.mark.parametrize(
    ("path", "code", "detail"),
    [
        ("wallets/{A}/swaps?limit=abc", "parameter", "`limit` must be an integer from 1 to 1000, got 'abc'"),
        ("wallets/{A}?limit=0", "parameter", "`limit` must be an integer from 1 to 1000, got '0'"),
        ("wallets/{A}/all-dex?limit=501", "parameter", "`limit` must be an integer from 1 to 500, got '501'"),
        ("wallets/{A}?limit=5&limit=x%20y", "parameter", "`limit` must be an integer from 1 to 1000, got 3 characters"),
        ("wallets/{A}/swaps?cursor=" + "A" * 201, "parameter", "`cursor` must be text of at most 200 characters, got 201 characters"),
        ("wallets/{A}/holdings?min_value_usd=-1", "parameter", "`min_value_usd` must be a number from 0 to 1000000000000000, got '-1'"),
        ("wallets/{A}/holdings?min_value_usd=nan", "parameter", "`min_value_usd` must be a number from 0 to 1000000000000000, got 'nan'"),
        ("wallets/{A}/holdings?include_unverified=maybe", "parameter", "`include_unverified` must be true or false, got 'maybe'"),
        ("tokens/{A}/candles?interval=2m", "parameter", "`interval` must be one of '1s', '1m', '5m', '15m', '1h', '4h', '1d', got '2m'"),
        ("tokens/trending?platform=ok&platform=No_Slug", "parameter", "`platform[1]` must be text of the form ^[a-z0-9-]{1,40}$, got 'No_Slug'"),
        ("wallets/{A}/pnl/daily?from=yesterday", "parameter", f"`from` {MOMENT}, got 'yesterday'"),
        ("tokens/{A}/swaps?to=2149-06-07", "parameter", f"`to` {MOMENT}, got '2149-06-07'"),
        ("tokens/{A}/swaps?from_ms=5", "parameter", "`from_ms` is not a parameter of this path; it accepts `limit`, `cursor`, `from`, `to`"),
        ("tokens/{A}/price?x=1", "parameter", "`x` is not a parameter of this path; it accepts none"),
        ("wallets/abc", "address", f"`wallet` {ADDRESS}, got 'abc'"),
        ("tokens/" + "0" * 40, "address", f"`mint` {ADDRESS} ('0' is not in the base58 alphabet), got '{'0' * 40}'"),
        ("tokens/" + "1" * 44, "address", f"`mint` {ADDRESS} and 32 bytes (this is 44), got '{'1' * 44}'"),
        ("wallets/abc/pnl/{A}/daily?from=x", "address", f"`wallet` {ADDRESS}, got 'abc' (and 1 more)"),
    ],
)  # fmt: skip
async def test_a_parameter(client, path, code, detail):
    problem = (await client.get(f"/api/{path.replace('{A}', A)}")).json()
    assert problem["code"] == f"invalid_{code}", problem
    assert problem["detail"] == detail


@pytest.mark.parametrize(
    ("body", "code", "detail"),
    [
        ({}, "body", f"`mints` is required: a list of 1 to 100 items, each {ADDRESS[8:]}"),
        ({"mints": []}, "body", f"`mints` must be a list of 1 to 100 items, each {ADDRESS[8:]}, got a list of 0 items"),
        ({"mints": [A] * 101}, "body", f"`mints` must be a list of 1 to 100 items, each {ADDRESS[8:]}, got a list of 101 items"),
        ({"mints": {}}, "body", f"`mints` must be a list of 1 to 100 items, each {ADDRESS[8:]}, got an object"),
        ({"mints": [A, 7]}, "body", f"`mints[1]` {ADDRESS}, got 7"),
        ({"mints": [A, None]}, "body", f"`mints[1]` {ADDRESS}, got null"),
        ({"mints": [A, "abc"]}, "address", f"`mints[1]` {ADDRESS}, got 'abc'"),
        ({"mints": [A], "limit": 21}, "body", "`limit` must be an integer from 1 to 20, got 21"),
        ({"mints": [A], "limit": 1.5}, "body", "`limit` must be an integer from 1 to 20, got 1.5"),
        ({"mints": [A], "limt": 1}, "body", "`limt` is not a field of the body; its fields are `mints`, `limit`"),
        ([], "body", "`body` must be an object, got a list of 0 items"),
    ],
)  # fmt: skip
async def test_a_body(client, body, code, detail):
    problem = (await client.post("/api/tokens/leaderboard/batch", json=body)).json()
    assert problem["code"] == f"invalid_{code}", problem
    assert problem["detail"] == detail


async def test_no_body_and_one_that_is_not_json(client):
    path = "/api/tokens/batch"
    needed = "JSON, with content-type application/json"
    nothing = await client.post(path)
    assert nothing.json()["detail"] == f"`body` is required: {needed}"
    text = await client.post(path, content=b"{}", headers={"content-type": "text/plain"})
    assert text.json()["detail"] == f"`body` must be {needed}"
    broken = await client.post(
        path, content=b'{"mints" 1}', headers={"content-type": "application/json"}
    )
    assert broken.json()["detail"].startswith("The body is not valid JSON at character 9: ")


@given(st.text())
def test_of_a_text_only_what_is_plain_is_repeated(text):
    assert re.fullmatch(r"'[A-Za-z0-9._:+-]{0,44}'|[0-9]+ characters?", shown(text))


def test_a_key_is_never_repeated():
    assert shown(new()) == "47 characters"


def test_what_a_later_pydantic_finds_has_a_sentence_too():
    error = {"type": "of_tomorrow", "loc": ("body", "mints"), "input": 5}
    problem = of_validation(RequestValidationError([error]), None)
    assert problem.detail == "`mints` must be of another form, got 5"
