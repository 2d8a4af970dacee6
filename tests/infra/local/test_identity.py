"""The provider for trying: what it gives out, once, and to which client."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from api.signin.failures import Failed
from api.signin.fetching import Fetcher
from api.signin.provider import Provider as Client
from infra.local import identity
from infra.local.identity import CLIENT_ID, Provider
from infra.local.process import free_port

BASE = "http://127.0.0.1:8000"
CALLBACK = f"{BASE}/signin/callback"
VERIFIER = "v" * 43
ASKED = {
    "client_id": CLIENT_ID,
    "redirect_uri": CALLBACK,
    "response_type": "code",
    "code_challenge_method": "S256",
    "code_challenge": urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode(),
    "state": "state",
    "nonce": "nonce",
}


@pytest.fixture
async def http() -> AsyncIterator[TestClient]:
    port = free_port()
    server = TestServer(
        Provider(f"http://127.0.0.1:{port}", BASE).application(), host="127.0.0.1", port=port
    )
    async with TestClient(server, cookie_jar=aiohttp.DummyCookieJar()) as client:
        yield client


async def code(http: TestClient, **changed: str) -> str:
    sent = {**ASKED, "name": "ann", **changed}
    answer = await http.post("/authorize", data=sent, allow_redirects=False)
    assert answer.status == 303, await answer.text()
    location = answer.headers["location"]
    assert location.startswith(f"{CALLBACK}?")
    query = dict(parse_qsl(urlsplit(location).query))
    assert query["state"] == "state"
    return query["code"]


async def token(http: TestClient, text: str, **changed: str) -> tuple[int, dict[str, object]]:
    form = {
        "grant_type": "authorization_code",
        "client_id": CLIENT_ID,
        "redirect_uri": CALLBACK,
        "code": text,
        "code_verifier": VERIFIER,
        **changed,
    }
    answer = await http.post("/token", data=form)
    return answer.status, await answer.json()


async def test_our_client_is_led_through_it(http):
    issuer = f"http://127.0.0.1:{http.port}"
    client = Client(issuer, CLIENT_ID, None, CALLBACK, Fetcher(issuer))
    address = await client.address("a state", "a nonce", VERIFIER)
    page = await http.get(urlsplit(address).path, params=dict(parse_qsl(urlsplit(address).query)))
    text = await page.text()
    assert "Sign in for trying" in text
    hidden = re.findall(r'name="([^"]+)" value="([^"]*)">', text)
    form = {name: unescape(value) for name, value in hidden if name != "name"} | {"name": "ann"}
    answer = await http.post("/authorize", data=form, allow_redirects=False)
    query = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
    await client.check_issuer(query["iss"])
    found = await client.identity(query["code"], "a nonce", VERIFIER)
    assert (found.issuer, found.subject, found.name) == (issuer, "ann", "ann")
    with pytest.raises(Failed, match="code"):
        await client.identity(query["code"], "a nonce", VERIFIER)


@pytest.mark.parametrize(
    "changed",
    [
        {"code_verifier": "w" * 43},
        {"code_verifier": ""},
        {"redirect_uri": f"{CALLBACK}/"},
        {"client_id": "another"},
        {"grant_type": "password"},
        {"code": "x"},
    ],
)
async def test_a_code_is_valid_only_for_the_client_it_was_issued_to(http, changed):
    text = await code(http)
    status, body = await token(http, text, **changed)
    assert (status, body) == (400, {"error": "invalid_grant"})


async def test_a_code_is_spent_once_and_within_its_time(http, monkeypatch):
    text = await code(http)
    assert (await token(http, text))[0] == 200
    assert (await token(http, text))[0] == 400
    monkeypatch.setattr(identity, "CODE_S", 0.0)
    assert (await token(http, await code(http)))[0] == 400


async def test_codes_are_bounded(http, monkeypatch):
    monkeypatch.setattr(identity, "MOST_CODES", 2)
    codes = [await code(http) for _ in range(3)]
    assert [(await token(http, each))[0] for each in codes] == [400, 200, 200]


@pytest.mark.parametrize(
    "changed",
    [
        {"redirect_uri": "https://evil.example.com/"},
        {"client_id": "another"},
        {"response_type": "token"},
        {"code_challenge_method": "plain"},
        {"code_challenge": ""},
        {"state": ""},
        {"nonce": "n" * 600},
        {"name": ""},
        {"name": "a\nb"},
        {"name": "n" * 65},
    ],
)
async def test_it_leads_nowhere_else(http, changed):
    answer = await http.post(
        "/authorize", data={**ASKED, "name": "ann", **changed}, allow_redirects=False
    )
    assert answer.status == 400
    assert "location" not in answer.headers
    if "name" not in changed:
        page = await http.get("/authorize", params={**ASKED, **changed})
        assert page.status == 400


async def test_its_page_holds_what_it_was_asked_and_no_script(http):
    page = await http.get("/authorize", params={**ASKED, "state": '"><script>alert(1)</script>'})
    text = await page.text()
    assert "<script>" not in text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


async def test_it_answers_to_its_own_name_alone(http):
    for host in ("evil.example.com", "evil.example.com:80"):
        answer = await http.get("/authorize", params=ASKED, headers={"host": host})
        assert answer.status == 421


async def test_a_challenge_that_is_no_ascii_is_met_by_no_verifier(http):
    text = await code(http, code_challenge="\u00e9" * 43)
    assert await token(http, text) == (400, {"error": "invalid_grant"})
