"""Browsers that a link lets in, in a real Valkey: what sets a cookie, and what a cookie opens."""

from __future__ import annotations

from http.cookies import SimpleCookie

import pytest
from starlette.responses import Response

from api.access import passes, register
from api.access.failures import Failures
from api.access.keys import key_id, new, parse
from api.access.refusals import Problem
from api.access.sessions import Sessions, ticket
from infra.local.process import free_port
from infra.settings import Settings
from schemas.redis_keys import API_LINK

ADDRESS = "192.0.2.1"
KEY = new()


@pytest.fixture
def sessions(redis):
    return Sessions(redis, KEY, Failures())


async def test_a_link_begins_one_session_which_every_process_knows(redis, sessions):
    link = await passes.issue(redis, API_LINK, parse(KEY))
    response = Response()
    assert await sessions.begin(link, response, ADDRESS) is True
    [cookie] = SimpleCookie(response.headers["set-cookie"]).values()
    assert cookie.key == sessions.cookie == f"soltape-{key_id(parse(KEY))}"
    assert (cookie["httponly"], cookie["samesite"]) == (True, "strict")
    assert (cookie["path"], cookie["max-age"]) == ("/", str(30 * 86_400))
    sent = [(b"cookie", f"{cookie.key}={cookie.value}".encode())]
    for process in (sessions, Sessions(redis, KEY, Failures())):
        assert await process.holder(sent, ADDRESS) == parse(KEY)
    again = Response()
    assert await sessions.begin(link, again, ADDRESS) is False
    assert "set-cookie" not in again.headers


@pytest.mark.parametrize(
    "secret", [None, "", "x", "A" * 43, KEY], ids=["none", "empty", "short", "long", "a key"]
)
async def test_what_nobody_issued_lets_nobody_in(sessions, secret):
    headers = [] if secret is None else [(b"cookie", f"{sessions.cookie}={secret}".encode())]
    assert await sessions.holder(headers, ADDRESS) is None
    response = Response()
    assert await sessions.begin(secret or "", response, ADDRESS) is False
    assert "set-cookie" not in response.headers


async def test_while_redis_is_away_nobody_comes_in_and_it_is_said():
    away = register.connect(
        Settings(_env_file=None, access_redis_url=f"redis://127.0.0.1:{free_port()}/1")
    )
    sessions = Sessions(away, KEY, Failures())
    secret = "A" * 43
    response = Response()
    for attempt in (
        sessions.begin(secret, response, ADDRESS),
        sessions.holder([(b"cookie", f"{sessions.cookie}={secret}".encode())], ADDRESS),
        ticket(away, parse(KEY)),
    ):
        with pytest.raises(Problem) as refused:
            await attempt
        assert (refused.value.kind.status, refused.value.kind.code) == (503, "store_unavailable")
    assert "set-cookie" not in response.headers
    await away.aclose()
