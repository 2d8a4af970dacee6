"""The gate where users sign in: what opens their accounts, and what is counted of their keys."""

from __future__ import annotations

import asyncio
from http.cookies import SimpleCookie

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.responses import PlainTextResponse, Response

from api.access import days, users
from api.access.charge import Charges
from api.access.days import OTHER, Days
from api.access.failures import Failures
from api.access.gate import ACCOUNT_REQUESTS_A_MINUTE, Accounts, Gate
from api.access.keys import key_id, new, parse
from api.access.paces import Pace
from api.access.user_sessions import UserSessions
from api.access.users import Identity
from api.signin import pending
from tests.support.waiting import eventually_async

LOCAL = "http://127.0.0.1:8000"
ACCOUNT = "/account.json"


class House:
    """A gate before a small application that has accounts."""

    def __init__(self, redis, pace=None, most_in_flight=64):
        self.sessions = UserSessions(redis, LOCAL, Failures())
        self.days = Days(redis)
        self.waiting = []  # an event for each request that waits
        more = {} if pace is None else {"pace": pace}
        accounts = Accounts(self.sessions, self.days, frozenset({ACCOUNT}), **more)
        self.gate = Gate(
            self._app(), Charges(redis), (), most_in_flight, Failures(), accounts=accounts
        )

    def _app(self):
        app = FastAPI()

        @app.api_route(ACCOUNT, methods=["GET", "POST", "DELETE"])
        async def account(request: Request):
            return PlainTextResponse(request.scope["state"]["session"].user)

        @app.get("/api/of/{name}")
        async def who(request: Request):
            return PlainTextResponse(request.scope["state"]["grant"].payer)

        @app.get("/api/waits")
        async def waits():
            self.waiting.append(event := asyncio.Event())
            await event.wait()

        return app

    async def __call__(self, scope, receive, send):
        scope["state"] = {"request_id": "the-request"}
        await self.gate(scope, receive, send)

    def client(self):
        transport = httpx.ASGITransport(self)
        return httpx.AsyncClient(transport=transport, base_url="http://localhost")

    async def signed_in(self, user):
        """Begin a session of a user, and return its cookie as a header and its token."""
        response = Response()
        assert await self.sessions.begin(user, pending.begin().name, response) is None
        [cookie] = SimpleCookie(response.headers["set-cookie"]).values()
        sent = {"cookie": f"{cookie.key}={cookie.value}"}
        return sent, self.sessions.named([(b"cookie", sent["cookie"].encode())]).csrf


@pytest.fixture
async def user(redis):
    return await users.enter(redis, Identity("https://issuer.example.com", "ann", "ann"), 10)


def refused(answer, status, code):
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    return answer.headers


async def test_a_session_opens_an_account_and_no_key_does(redis, make, user):
    house = House(redis)
    cookie, _ = await house.signed_in(user)
    theirs = {"x-api-key": await users.create_key(redis, user, "mine")}
    async with house.client() as client:
        assert (await client.get(ACCOUNT, headers=cookie)).text == user
        for key in (theirs, {"x-api-key": await make.text()}, {}):
            headers = refused(await client.get(ACCOUNT, headers=key), 401, "session_missing")
            assert headers["www-authenticate"].startswith("ApiKey ")
        made_up = {"cookie": cookie["cookie"][:-1] + ("a" if cookie["cookie"][-1] != "a" else "b")}
        refused(await client.get(ACCOUNT, headers=made_up), 401, "session_missing")
        answer = await client.get("/api/of/me", headers=theirs)
        assert answer.text == user
        assert answer.headers["x-credits-left"] == "49999"  # the account cost none


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_change_of_an_account_comes_with_the_token_of_its_session(redis, user, method):
    house = House(redis)
    cookie, token = await house.signed_in(user)
    _, other = await house.signed_in(user)
    async with house.client() as client:
        for tokens in ([], [other], ["\xff"], [token, token], [token, other], [other, token]):
            headers = [*cookie.items(), *(("x-csrf-token", each) for each in tokens)]
            raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
            answer = await client.request(method, ACCOUNT, headers=raw)
            refused(answer, 403, "token_missing")
        answer = await client.request(method, ACCOUNT, headers=cookie | {"x-csrf-token": token})
        assert answer.text == user


async def test_an_account_is_asked_for_so_often_and_no_more(redis, user):
    house = House(redis, Pace(2, 60.0))
    cookie, _ = await house.signed_in(user)
    other = await users.enter(redis, Identity("https://issuer.example.com", "bob", "bob"), 10)
    theirs, _ = await house.signed_in(other)
    async with house.client() as client:
        for _ in range(2):
            assert (await client.get(ACCOUNT, headers=cookie)).status_code == 200
        headers = refused(await client.get(ACCOUNT, headers=cookie), 429, "rate_exceeded")
        assert headers["retry-after"] == "60"
        assert (await client.get(ACCOUNT, headers=theirs)).text == other


def test_that_is_120_times_a_minute_unless_it_is_said(redis):
    accounts = Accounts(UserSessions(redis, LOCAL, Failures()), Days(redis), frozenset())
    assert (accounts.pace.most, accounts.pace.window_s) == (120, 60)
    assert ACCOUNT_REQUESTS_A_MINUTE == 120


async def test_a_key_that_takes_all_turns_of_its_user_leaves_the_account_its_own(redis, user):
    house = House(redis, most_in_flight=1)
    cookie, _ = await house.signed_in(user)
    key = {"x-api-key": await users.create_key(redis, user, "mine")}
    async with house.client() as client:
        await client.get("/api/of/me", headers=key)  # from now on it is known whose it is
        waits = asyncio.create_task(client.get("/api/waits", headers=key))
        await eventually_async(lambda: house.waiting)
        refused(await client.get("/api/of/me", headers=key), 429, "concurrency_exceeded")
        for _ in range(2):
            assert (await client.get(ACCOUNT, headers=cookie)).text == user
        house.waiting[0].set()
        assert (await waits).status_code == 200
        assert (await client.get("/api/of/me", headers=key)).text == user


async def test_requests_of_a_users_keys_are_in_their_days_and_no_others(redis, make, user):
    house = House(redis)
    key = {"x-api-key": await users.create_key(redis, user, "mine")}
    async with house.client() as client:
        for path in ("/api/of/me", "/api/of/you", "/api/nothing"):
            await client.get(path, headers=key)
        operators = await make.text()
        assert (await client.get("/api/of/me", headers={"x-api-key": operators})).text
        refused(await client.get("/api/of/me", headers={"x-api-key": new()}), 401, "key_unknown")
    await house.days.write()
    counts = [paths for _, paths in await days.read(redis, user) if paths]
    assert counts == [{"/api/of/{name}": 2, OTHER: 1}]
    [names] = await redis.ask([("KEYS", "*day*")])
    assert len(names) == 1
    assert key_id(parse(operators)) not in str(names)
