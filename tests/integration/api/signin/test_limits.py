"""What an account is bounded by: keys, credits, rate, connections, sessions; and the operator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from hashlib import sha256

import httpx
import pytest

from api.access import register, user_sessions, users
from api.access.charge import Charges
from api.access.keys import key_id, parse
from api.access.users import Identity
from infra.settings import Settings
from schemas.plans import FREE
from schemas.redis_keys import API_KEY, API_KEY_CREDITS, USER_KEY, USER_SESSIONS, tag_of_key
from stream_gateway.admission import Admission, Refusal
from tests.support.api.issuing import Issuer, issuing
from tests.support.api.served import Served
from tests.support.api.signing_in import Person, query_of
from tests.support.waiting import eventually

SOON_S = 30.0  # on a busy machine; a ping comes after 15 s, the end of an idle stream much later


@pytest.fixture(scope="module")
def liar() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def served(liar, serve_signin) -> Iterator[Served]:
    with serve_signin(liar) as running:
        yield running


@pytest.fixture
def settings(served) -> Settings:
    return served.settings


def person(served, liar, name):
    """A signed-in user."""
    liar.reset()
    liar.claims = {"sub": name, "email": f"{name}@example.com"}
    found = Person(served)
    asked = query_of(found.begin())
    liar.nonce = asked["nonce"]
    answer = found.client.get("/signin/callback", params={"code": "c", "state": asked["state"]})
    assert answer.headers.get("location") == "/#/account", answer.text
    return found


def at_redis(settings, work):
    async def connected():
        redis = register.connect(settings)
        try:
            return await work(redis)
        finally:
            await redis.aclose()

    return asyncio.run(connected())


def user_of(settings, person):
    [value] = person.client.cookies.values()
    return value.split(".")[0]


def set_credits(settings, user, spent):
    async def work(redis):
        month = register.month_of(await register.now_ms(redis))
        await redis.ask([("HSET", API_KEY_CREDITS.make(tag=tag_of_key(user)), month, spent)])

    at_redis(settings, work)


def test_a_key_is_shown_once_and_works(served, liar):
    ann = person(served, liar, "ann1")
    key = ann.new_key("my first")
    assert ann.ask(key).json()["key"]["name"] == "my first"
    page = ann.client.get("/account.json").text
    assert key not in page
    [shown] = ann.account()["keys"]
    assert (shown["id"], shown["key"]) == (key_id(parse(key)), f"soltape_...{key[-4:]}")
    assert (shown["name"], shown["last_used_ms"] > 0) == ("my first", True)
    assert ann.post("/account/keys/revoke", {"id": shown["id"]}).status_code == 200
    assert ann.ask(key).json()["code"] == "key_revoked"
    assert ann.account()["keys"] == []
    again = ann.post("/account/keys/revoke", {"id": shown["id"]})
    assert again.json()["code"] == "no_such_key"

    async def ttls(redis):
        user = user_of(served.settings, ann)
        record = USER_KEY.make(tag=tag_of_key(user), fingerprint=parse(key))
        pointer = API_KEY.make(tag=tag_of_key(parse(key)))
        return await redis.ask([("TTL", record), ("TTL", pointer)])

    assert all(0 < each <= 30 * 86_400 for each in at_redis(served.settings, ttls))


def test_two_keys_and_the_session_share_rate_and_credits(served, liar):
    ann = person(served, liar, "ann2")
    keys = [ann.new_key("a"), ann.new_key("b")]
    path = "/api/tokens/So11111111111111111111111111111111111111112/price"
    left = [
        int(ann.ask(keys[0], path).headers["x-credits-left"]),
        int(ann.ask(keys[1], path).headers["x-credits-left"]),
        int(ann.client.get(path).headers["x-credits-left"]),
    ]
    assert left[0] - left[2] == 2, left
    user = user_of(served.settings, ann)
    set_credits(served.settings, user, FREE.credits_a_month)
    for answer in (ann.ask(keys[0], path), ann.ask(keys[1], path), ann.client.get(path)):
        assert (answer.status_code, answer.json()["code"]) == (429, "credits_spent")
    assert ann.account()["credits"]["left"] == 0
    # What costs nothing counts for the rate, of all of them together.
    answers = [ann.ask(keys[number % 2]) for number in range(FREE.requests_a_minute + 10)]
    assert sum(each.status_code == 200 for each in answers) <= FREE.requests_a_minute - 3
    assert ann.ask(keys[1]).json()["code"] == "rate_exceeded"
    # The account's own page is no part of it: a key that is misused can be revoked.
    assert ann.account()["credits"]["used"] == FREE.credits_a_month


async def test_of_many_at_once_no_more_than_the_plan_is_charged(settings):
    redis = register.connect(settings)
    try:
        user = await users.enter(redis, Identity("https://i.example.com", "many", "many"), 10**6)
        fingerprints = [parse(await users.create_key(redis, user, f"k{n}")) for n in range(5)]
        charges = [Charges(redis) for _ in range(3)]  # as many processes
        found = await asyncio.gather(
            *(
                charges[number % 3].request([*fingerprints, user][number % 6], 1)
                for number in range(120)
            )
        )
        accepted = [each for each in found if not hasattr(each, "outcome")]
        assert len(accepted) == FREE.requests_a_minute
        assert {each.user for each in accepted} == {user}
        assert max(each.credits_spent for each in accepted) == FREE.requests_a_minute
        given = await charges[0].give_back(accepted[0])
        assert given.credits_spent == FREE.requests_a_minute - 1
        for charge in charges:
            await charge.aclose()
    finally:
        await redis.aclose()


async def test_connections_of_all_keys_are_those_of_the_plan(settings):
    redis = register.connect(settings)
    ended = []
    try:
        user = await users.enter(redis, Identity("https://i.example.com", "socket", "s"), 10**6)
        texts = [await users.create_key(redis, user, f"k{n}") for n in range(2)]
        gates = [Admission(redis, ended.append, ended.append) for _ in range(2)]
        admitted = await gates[0].admit(texts[0])
        for gate in gates:
            with pytest.raises(Refusal) as refusal:
                await gate.admit(texts[1])
            assert refusal.value.code == "too_many_connections"
        await gates[0].look()
        assert ended == []
        await gates[0].release(admitted)
        inside = await gates[1].admit(texts[1])
        await users.revoke_key(redis, user, key_id(parse(texts[1])))
        await gates[1].look()
        assert ended == [inside]
        await gates[1].release(inside)
        again = await gates[0].admit(texts[0])
        await users.suspend(redis, user)
        await gates[0].look()
        assert ended == [inside, again]
        with pytest.raises(Refusal) as refusal:
            await gates[1].admit(texts[0])
        assert refusal.value.code == "user_suspended"
    finally:
        await redis.aclose()


def test_keys_of_an_account_and_of_a_day_are_bounded(served, liar):
    ann = person(served, liar, "ann3")
    for number in range(users.KEYS):
        ann.new_key(f"k{number}")
    refused = ann.post("/account/keys", {"name": "one more"})
    assert (refused.status_code, refused.json()["code"]) == (409, "key_limit")
    assert len(ann.account()["keys"]) == users.KEYS
    for each in ann.account()["keys"]:
        ann.post("/account/keys/revoke", {"id": each["id"]})
    for number in range(users.KEYS_A_DAY - users.KEYS):
        ann.new_key(f"again {number}")
    ann.post("/account/keys/revoke", {"id": ann.account()["keys"][0]["id"]})
    refused = ann.post("/account/keys", {"name": "one more"})
    assert "in a day" in refused.json()["detail"]


def test_of_many_at_once_no_more_keys_are_made(settings):
    async def work(redis):
        user = await users.enter(redis, Identity("https://i.example.com", "burst", "b"), 10**6)

        async def make(number):
            try:
                return await users.create_key(redis, user, f"k{number}")
            except users.Refused:
                return None

        made = await asyncio.gather(*(make(number) for number in range(50)))
        return sum(each is not None for each in made), len(await users.read_keys(redis, user))

    assert at_redis(settings, work) == (users.KEYS, users.KEYS)


def test_sessions_of_a_user_are_bounded_and_end(served, liar):
    people = [person(served, liar, "ann4") for _ in range(user_sessions.SESSIONS + 2)]
    statuses = [each.client.get("/account.json").status_code for each in people]
    assert statuses == [401, 401] + [200] * user_sessions.SESSIONS
    user = user_of(served.settings, people[-1])

    async def age(redis):
        name = USER_SESSIONS.make(tag=tag_of_key(user))
        [members] = await redis.ask([("ZRANGE", name, 0, -1)])
        await redis.ask([("ZADD", name, 1, each) for each in members])

    at_redis(served.settings, age)
    assert people[-1].client.get("/account.json").status_code == 401


def test_requests_are_shown_by_day_and_path(served, liar):
    ann = person(served, liar, "ann5")
    key = ann.new_key()
    path = "/api/tokens/So11111111111111111111111111111111111111112/price"
    for _ in range(3):
        ann.ask(key, path)
    ann.ask(key, "/api/no/such/path")
    ann.ask(key, "/api/usage")

    def counted():
        [*_, today] = ann.client.get("/account/usage.json").json()["days"]
        return today["paths"]

    wanted = {"/api/tokens/{mint}/price": 3, "other": 1, "/api/usage": 1}
    eventually(lambda: counted() == wanted, counted)
    days = ann.client.get("/account/usage.json").json()["days"]
    assert len(days) == 30
    assert all(each["paths"] == {} for each in days[:-1])


def test_the_operator_lists_plans_suspends_and_revokes(served, liar):
    ann = person(served, liar, "ann6")
    key = ann.new_key("of ann6")
    listed = served.run("users", "list")
    id_ = ann.account()["user"]["id"]
    assert f"{id_}  free" in listed.stdout
    assert "ann6@example.com" in listed.stdout
    assert id_ in served.run("users", "list", "--json").stdout

    assert served.run("users", "plan", id_, "pro").returncode == 0
    assert ann.account()["plan"]["name"] == "pro"
    assert ann.ask(key).json()["plan"] == "pro"
    assert "of ann6" in served.run("users", "keys", "-", stdin=key).stdout

    assert "suspended" in served.run("users", "suspend", id_).stdout
    assert ann.ask(key).json()["code"] == "user_suspended"
    assert ann.client.get("/account.json").status_code == 401
    asked = query_of(ann.begin())
    liar.nonce = asked["nonce"]
    again = ann.client.get("/signin/callback", params={"code": "c", "state": asked["state"]})
    assert (again.status_code, "yours is suspended" in again.text) == (403, True)
    assert served.run("users", "resume", id_).returncode == 0
    assert ann.ask(key).status_code == 200

    refused = served.run("keys", "revoke", "-", stdin=key)
    assert f"user {id_}'s: `soltape users revoke`" in refused.stderr
    for command in (["users", "revoke"], ["users", "keys"], ["users", "plan"], ["keys", "revoke"]):
        refused = served.run(*command, key, *(["pro"] if "plan" in command else []))
        assert refused.returncode == 2
        assert "give -, and the key on stdin" in refused.stderr
        assert key not in refused.stderr
    assert ann.ask(key).status_code == 200
    assert served.run("users", "revoke", "-", stdin=f"{key}\n").returncode == 0
    assert ann.ask(key).json()["code"] == "key_revoked"
    second = person(served, liar, "ann6").new_key("second of ann6")  # suspension ended the session
    by_id = ("users", "revoke", key_id(parse(second)))
    assert "--user" in served.run(*by_id).stderr
    assert served.run(*by_id, "--user", id_).returncode == 0
    assert ann.ask(second).json()["code"] == "key_revoked"
    assert "has no key" in served.run(*by_id, "--user", id_).stderr
    for command in (("plan", "0" * 12, "pro"), ("suspend", "ann6@example.com"), ("keys", "x")):
        done = served.run("users", *command)
        assert done.returncode == 1
        assert "no user's here" in done.stderr
        assert "Traceback" not in done.stderr
    assert key_id(parse(key)) not in served.run("keys", "list").stdout


def test_accounts_are_bounded(served, liar, serve_signin):
    person(served, liar, "ann1")
    with issuing() as own, serve_signin(own, signin_max_users=1) as full, Person(full) as late:
        asked = query_of(late.begin())
        own.nonce, own.claims = asked["nonce"], {"sub": "nobody yet"}
        params = {"code": "c", "state": asked["state"]}
        answer = late.client.get("/signin/callback", params=params)
        assert (answer.status_code, "no new accounts" in answer.text) == (403, True)
        assert "nobody yet" not in full.run("users", "list", "--json").stdout


def test_keys_that_an_operator_made_are_as_ever(served):
    answer = httpx.get(f"{served.url}/api/usage", headers={"x-api-key": served.key})
    assert (answer.status_code, answer.json()["plan"]) == (200, "enterprise")
    assert "tests" in served.run("keys", "list").stdout


def test_signing_out_ends_the_websockets_of_the_session(served, liar):
    ann = person(served, liar, "ann of a socket")
    user, key, ended = user_of(served.settings, ann), ann.new_key(), []

    def opened_by(**headers):
        answer = ann.client.post("/websocket-ticket", headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()["ticket"]

    async def work(redis):
        await users.set_plan(redis, user, "business")
        gateway = Admission(redis, ended.append, ended.append)
        of_session, _ = [
            await gateway.admit(await asyncio.to_thread(opened_by, **headers))
            for headers in ({}, {"x-api-key": key})
        ]
        assert (await asyncio.to_thread(ann.post, "/signout")).status_code == 200
        await gateway.look()
        assert ended == [of_session]
        await gateway.aclose()

    at_redis(served.settings, work)


def test_signing_out_ends_the_streams_of_mcp_of_the_session(served, liar):
    """And a session whose time is over its own; those of a key and of another browser stay."""
    ann, again = (person(served, liar, "ann of streams") for _ in range(2))
    user, key = user_of(served.settings, ann), ann.new_key()
    [ended] = [value.split(".")[1] for value in again.client.cookies.values()]

    def opened(client, **headers):
        request = client.build_request("GET", "/mcp/sse", headers=headers)
        answer = client.send(request, stream=True)
        assert answer.status_code == 200, answer.read()
        parts = answer.iter_bytes()
        assert b"endpoint" in next(parts)
        return parts

    def ends(parts):
        """Read to the end; a stream that stays would wait for the client's timeout."""
        assert all(each.startswith(b": ping") for each in parts)

    def is_open(client, endpoint, **headers):
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        usual = {"accept": "application/json, text/event-stream"}
        return client.post(endpoint, json=message, headers={**usual, **headers}).status_code == 202

    def endpoint_of(client, **headers):
        with client.stream("GET", "/mcp/sse", headers=headers) as answer:
            assert answer.status_code == 200
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield line[6:]

    with httpx.Client(base_url=served.url, timeout=240, headers=again.headers) as keyed:
        streams = opened(ann.client)
        others = endpoint_of(again.client), endpoint_of(keyed, **{"x-api-key": key})
        of_browser, of_key = (next(each) for each in others)
        began_s = time.monotonic()
        assert ann.post("/signout").status_code == 200
        ends(streams)
        assert time.monotonic() - began_s < SOON_S
        assert is_open(again.client, of_browser)
        assert is_open(keyed, of_key, **{"x-api-key": key})

        digest = sha256(ended.encode()).hexdigest()
        name = USER_SESSIONS.make(tag=tag_of_key(user))
        at_redis(served.settings, lambda redis: redis.ask([("ZADD", name, "XX", 1, digest)]))
        for _ in others[0]:
            pass
        assert is_open(keyed, of_key, **{"x-api-key": key})
        others[1].close()
