"""Ways into another user's account, and out of its limits: all are refused."""

from __future__ import annotations

import asyncio
import re
import time
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from http.cookies import SimpleCookie
from itertools import count
from random import choice
from urllib.parse import urlencode

import httpx
import pytest
from cryptography.fernet import Fernet
from fastapi import FastAPI

from api.access import register
from api.access.failures import Failures
from api.access.keys import key_id
from api.access.users import Identity
from api.app import create_app
from api.signin import fetching, pending, routes
from api.signin.routes import SignIn
from infra.settings import SettingsError
from schemas.redis_keys import SIGN_IN_SECRETS, USERS
from tests.support.api.issuing import Issuer, issuing
from tests.support.api.served import Served
from tests.support.api.signing_in import Person, query_of
from tests.support.waiting import WITHIN_S, eventually, eventually_async

CALLBACK = "/signin/callback"
_NUMBERS = count()
STALE = "This sign-in was not begun in this browser"


@pytest.fixture(scope="module")
def liar() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def served(liar, serve_signin) -> Iterator[Served]:
    with serve_signin(liar) as running:
        yield running


@pytest.fixture
def mallory(served, liar) -> Iterator[Person]:
    """A user without an account."""
    liar.reset()
    liar.claims = {"sub": f"mallory {next(_NUMBERS)}"}
    with Person(served) as person:
        yield person


def ask(served, work):
    async def connected():
        redis = register.connect(served.settings)
        try:
            return await work(redis)
        finally:
            await redis.aclose()

    return asyncio.run(connected())


def begun(person, liar):
    """Begin a sign-in; return its state, and have the issuer know its nonce."""
    asked = query_of(person.begin())
    liar.nonce = asked["nonce"]
    return asked["state"]


def back(person, state, **more):
    return person.client.get(CALLBACK, params={"code": "code", "state": state, **more})


def signed_in(person, liar):
    answer = back(person, begun(person, liar))
    assert answer.headers.get("location") == "/#/account", answer.text
    return person


def is_refused(answer, words=STALE, status=403):
    assert (answer.status_code, words in answer.text) == (status, True), answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "location" not in answer.headers
    cookies = [SimpleCookie(each) for each in answer.headers.get_list("set-cookie")]
    assert all(morsel["max-age"] == "0" for each in cookies for morsel in each.values())
    return True


def test_a_state_is_of_one_browser_and_one_use(mallory, served, liar):
    state = begun(mallory, liar)
    with Person(served) as victim:
        is_refused(back(victim, state))  # which has begun nothing
        begun(victim, liar)
        is_refused(back(victim, state))  # or something else
    assert back(mallory, begun(mallory, liar)).status_code == 303
    for wrong in ("", "x", "A" * 43, state, "\x00", "x" * 5_000):
        begun(mallory, liar)
        is_refused(back(mallory, wrong))
        assert mallory.client.get("/account.json").status_code == 200  # the one from before


def test_a_callback_is_answered_once(mallory, served, liar):
    state = begun(mallory, liar)
    cookies = dict(mallory.client.cookies)
    assert back(mallory, state).status_code == 303
    with httpx.Client(base_url=served.url, cookies=cookies, headers=mallory.headers) as replay:
        is_refused(replay.get(CALLBACK, params={"code": "code", "state": state}))
    state = begun(mallory, liar)
    cookies = dict(mallory.client.cookies)

    def again(_):
        params = {"code": "code", "state": state}
        return httpx.get(
            f"{served.url}{CALLBACK}",
            params=params,
            cookies=cookies,
            headers=mallory.headers,
            timeout=240,
        )

    with ThreadPoolExecutor(8) as many:
        answers = list(many.map(again, range(8)))
    assert sorted(each.status_code for each in answers) == [303] + [403] * 7


def test_somebody_else_cannot_end_a_sign_in_by_its_state(mallory, served, liar):
    state = begun(mallory, liar)
    with Person(served) as other:
        is_refused(back(other, state))
    assert back(mallory, state).status_code == 303


def test_no_page_ends_a_sign_in_that_is_under_way(mallory, liar):
    """One can lead a browser to the callback, which sends the cookie along."""
    state = begun(mallory, liar)
    for query in ("", "?state=x&code=c", "?state=x&state=x", "?error=access_denied"):
        answer = mallory.client.get(f"{CALLBACK}{query}")
        assert answer.status_code in (400, 403)
        assert "set-cookie" not in answer.headers
    answer = back(mallory, state)
    assert answer.status_code == 303
    kept = [each for each in mallory.client.cookies if each.endswith("-begun")]
    assert kept == []


def test_an_id_that_is_another_users_is_refused(mallory, served, liar):
    identity = Identity(liar.issuer, "collides", "c")
    id_ = key_id(identity.fingerprint)

    async def take(redis):
        await redis.ask([("HSET", USERS.make(), id_, "0" * 64)])

    async def give_back(redis):
        await redis.ask([("HDEL", USERS.make(), id_)])

    ask(served, take)
    liar.claims = {"sub": "collides"}
    is_refused(back(mallory, begun(mallory, liar)), "takes no new accounts")
    ask(served, give_back)


def test_a_sign_in_is_over_after_its_time(mallory, served, liar):
    state = begun(mallory, liar)

    sealed_ago(served, mallory, pending.WITHIN_S + 1)
    is_refused(back(mallory, state))
    state = begun(mallory, liar)
    sealed_ago(served, mallory, pending.WITHIN_S / 2)
    assert back(mallory, state).status_code == 303


def sealed_ago(served, person, ago_s):
    """Have a browser's sign-in be as if it was begun so long ago."""

    async def work(redis):
        [newest] = await redis.ask([("HGET", SIGN_IN_SECRETS.make(), "newest")])
        seal = Fernet(newest)
        [cookie] = [each for each in person.client.cookies.jar if each.name.endswith("-begun")]
        opened = seal.decrypt(cookie.value.encode())
        cookie.value = seal.encrypt_at_time(opened, int(time.time() - ago_s)).decode()

    ask(served, work)


def test_tokens_of_another_sign_in_or_issuer_are_refused(mallory, liar):
    for claims in ({"nonce": "n" * 43}, {"iss": "https://other.example.com"}, {"aud": "other"}):
        state = begun(mallory, liar)
        liar.claims = claims
        is_refused(back(mallory, state), "could not be verified")
    liar.reset()
    state = begun(mallory, liar)
    is_refused(back(mallory, state, iss="https://other.example.com"), "another identity provider")
    assert mallory.client.get("/account.json").status_code == 401


def test_a_code_that_has_expired_or_was_used_is_refused(mallory, liar):
    state = begun(mallory, liar)
    liar.answers = {"/token": (400, b'{"error":"invalid_grant"}', {})}
    is_refused(back(mallory, state), "no longer accepts the code")


def test_what_the_query_says_is_not_repeated(mallory, liar):
    script = "<script>alert(1)</script>"
    for more in ({"error": script}, {"error": "access_denied", "error_description": script}):
        state = begun(mallory, liar)
        answer = back(mallory, state, **more)
        assert is_refused(answer, "did not let you in")
        assert script not in answer.text
        assert "script-src" not in answer.headers["content-security-policy"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "query",
    [
        "state={state}&state={state}&code=c",
        "state={state}&code=c&code=d",
        "code=c&state={state}&iss=a&iss=b",
        "&".join(f"a{number}=1" for number in range(30)),
        "state={state}&code=" + "c" * 9_000,
        "state=%ff&code=c",
    ],
)
def test_a_query_that_no_provider_sends_is_refused(mallory, liar, query):
    state = begun(mallory, liar)
    answer = mallory.client.get(f"{CALLBACK}?{query.replace('{state}', state)}")
    is_refused(answer, "not one that an identity provider leads to", 400)


def test_nothing_that_is_sent_leads_elsewhere(mallory, served, liar):
    """No parameter, header or name decides where a browser goes."""
    evil = "https://evil.example.com/"
    names = ("next", "redirect_uri", "return_to", "url", "continue", "redirect", "to")
    wanted = {"redirect_uri": f"{liar.base_url}{CALLBACK}"}
    headers = {
        "x-forwarded-host": "evil.example.com",
        "x-forwarded-proto": "https",
        "forwarded": "host=evil.example.com",
        "referer": evil,
        "origin": evil,
    }
    query = urlencode(dict.fromkeys(names, evil))
    for target in ("/signin", f"/signin?{query}"):
        answer = mallory.client.get(target, headers=headers)
        assert answer.headers["location"].startswith(f"{liar.issuer}/authorize?")
        asked = query_of(answer.headers["location"])
        assert asked["redirect_uri"] == wanted["redirect_uri"]
        assert "evil" not in answer.headers["location"]
    state = begun(mallory, liar)
    answer = mallory.client.get(f"{CALLBACK}?code=c&state={state}&{query}", headers=headers)
    assert answer.headers["location"] == "/#/account"
    strange = httpx.get(f"{served.url}/signin", headers={"host": "evil.example.com"})
    assert (strange.status_code, strange.json()["code"]) == (421, "misdirected")
    for target in ("//evil.example.com/", "/signin//evil.example.com", "/signin/../../evil"):
        answer = httpx.get(f"{served.url}{target}")
        assert answer.status_code == 401
        assert "location" not in answer.headers


def test_a_session_is_never_one_that_was_there_before(mallory, served, liar):
    """Session fixation: what an attacker plants in a browser is worth nothing after sign-in."""
    signed_in(mallory, liar)
    planted = dict(mallory.client.cookies)
    [name] = planted
    with Person(served) as victim:
        victim.client.cookies.update(planted)
        state = begun(victim, liar)
        liar.claims = {"sub": "victim", "email": "victim@example.com"}
        answer = back(victim, state)
        assert answer.status_code == 303
        [made] = [
            morsel.value
            for each in answer.headers.get_list("set-cookie")
            for cookie, morsel in SimpleCookie(each).items()
            if cookie == name
        ]
        assert made != planted[name]
        account = httpx.get(f"{served.url}/account.json", cookies={name: made}).json()
        assert account["user"]["name"] == "victim@example.com"
        # And the planted one has ended with it.
        assert mallory.client.get("/account.json").status_code == 401


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x",
        "{user}",
        "{user}.",
        "{user}." + "A" * 43,
        "{other}.{secret}",
        "{user}.{digest}",
        "{user}.{secret}x",
        "{USER}.{secret}",
        "*.{secret}",
    ],
)
def test_a_cookie_that_nobody_made_is_nobodys(mallory, served, liar, value):
    signed_in(mallory, liar)
    [(name, real)] = mallory.client.cookies.items()
    user, secret = real.split(".")
    forged = value.format(
        user=user,
        USER=user.upper(),
        secret=secret,
        other="0" * 64,
        digest=sha256(secret.encode()).hexdigest()[:43],
    )
    for cookie in (f"{name}={forged}", f"{name}={forged}; {name}={real}", f"x{name}={real}"):
        for path in ("/account.json", "/api/usage"):
            answer = httpx.get(f"{served.url}{path}", headers={"cookie": cookie})
            assert answer.status_code == 401, (path, cookie)


def test_other_pages_change_nothing(mallory, served, liar):
    """CSRF: of other sites, other ports, without the token, with another user's."""
    signed_in(mallory, liar)
    csrf = mallory.account()["csrf"]
    with Person(served) as other:
        signed_in(other, liar)
        theirs = other.account()["csrf"]
    body = {"name": "stolen"}
    changes = ("/account/keys", "/account/keys/revoke", "/account/kafka", "/account/kafka/revoke")
    for path in (*changes, "/signout"):
        for token in (None, "", "x", theirs, csrf[:-1], csrf.upper()):
            headers = {} if token is None else {"x-csrf-token": token}
            answer = mallory.client.post(path, json=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "token_missing"), path
        for site in ("cross-site", "same-site", "", "none;"):
            headers = {"x-csrf-token": csrf, "sec-fetch-site": site}
            answer = mallory.client.post(path, json=body, headers=headers)
            assert answer.json()["code"] == "session_missing"
        assert mallory.client.get(path).status_code == 405
    preflight = mallory.client.options(
        "/account/keys",
        headers={
            "origin": "https://evil.example.com",
            "access-control-request-method": "POST",
            "access-control-request-headers": "x-csrf-token",
        },
    )
    assert "access-control-allow-origin" not in preflight.headers
    twice = [("x-csrf-token", csrf), ("x-csrf-token", csrf)]
    assert mallory.client.post("/account/keys", json=body, headers=twice).status_code == 403
    assert mallory.account()["keys"] == []


def test_a_key_opens_no_account(mallory, served, liar):
    key = signed_in(mallory, liar).new_key()
    for path in sorted(routes.PATHS):
        for headers in ({"x-api-key": key}, {"x-api-key": served.key}, {}):
            for method in ("GET", "POST", "PUT", "DELETE"):
                answer = httpx.request(method, f"{served.url}{path}", headers=headers)
                assert answer.status_code == 401, (method, path)
    for path in ("/account", "/account/", "/account/keys/", "/ACCOUNT.JSON", "/account/keys/x"):
        assert httpx.get(f"{served.url}{path}").status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "   "},
        {"name": "x" * 101},
        {"name": "a\nb"},
        {"name": "\u202ea"},
        {"name": 7},
        {"name": "a", "plan": "enterprise"},
        {"name": "a", "user": "0" * 64},
        [],
        "x",
    ],
)
def test_a_name_that_is_none_makes_no_key(mallory, liar, body):
    signed_in(mallory, liar)
    answer = mallory.post("/account/keys", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_body")
    assert mallory.account()["keys"] == []


def test_nothing_secret_is_logged_or_kept(mallory, served, liar):
    state = begun(mallory, liar)
    answer = back(mallory, state)
    key = mallory.new_key("logged?")
    [session] = mallory.client.cookies.values()
    csrf = mallory.account()["csrf"]
    eventually(lambda: '"path":"/account/keys"' in served.logged(), served.logged)
    secrets = (state, key, session, session.split(".")[1], csrf, answer.headers["set-cookie"])
    for secret in secrets:
        assert secret not in served.logged()

    async def everything(redis):
        [names] = await redis.ask([("KEYS", "*")])
        kinds = await redis.ask([("TYPE", name) for name in names])
        reads = {
            b"string": lambda name: ("GET", name),
            b"hash": lambda name: ("HGETALL", name),
            b"zset": lambda name: ("ZRANGE", name, 0, -1),
            b"list": lambda name: ("LRANGE", name, 0, -1),
            b"set": lambda name: ("SMEMBERS", name),
        }
        kinds = [each if isinstance(each, bytes) else each.encode() for each in kinds]
        values = await redis.ask(
            [reads[kind](name) for kind, name in zip(kinds, names, strict=True)]
        )
        return repr((names, values))

    kept = ask(served, everything)
    for secret in (state, key, session.split(".")[1], csrf):
        assert secret not in kept


@pytest.mark.parametrize("lacking", ["signin_client_id", "signin_base_url"])
def test_a_service_that_lacks_a_setting_does_not_start(served, lacking):
    settings = served.settings.model_copy(update={lacking: None})
    with pytest.raises(SettingsError, match="SIGNIN_ISSUER needs"):
        create_app(settings)
    off = served.settings.model_copy(update={"api_dashboard": False})
    with pytest.raises(SettingsError, match="API_DASHBOARD"):
        create_app(off)


def test_pages_say_what_is_wrong_while_the_provider_is_away(mallory, served, serve_signin, liar):
    liar.answers = {"/token": (500, b"", {})}
    state = begun(mallory, liar)
    is_refused(back(mallory, state), "does not answer as it should", 503)
    assert re.search(r'<a href="/signin">', mallory.client.get(CALLBACK).text)


def test_cookies_of_users_that_were_made_up_are_bounded(served, mallory, liar):
    signed_in(mallory, liar)
    [(name, value)] = mallory.client.cookies.items()
    user = value.partition(".")[0]
    with Person(served) as guesser, httpx.Client(base_url=served.url, timeout=240) as client:
        client.headers = guesser.headers

        def code(path):
            other = sha256(pending.secret().encode()).hexdigest()
            made_up = f"{choice([user, other])}.{pending.secret()}"
            return client.get(path, headers={"cookie": f"{name}={made_up}"}).json().get("code")

        assert code("/account.json") == "session_missing"
        # A minute of a slow machine may be over before so many were sent.
        for path in ("/account.json", "/api/usage", "/dashboard.json"):
            eventually(lambda path=path: code(path) == "too_many_failures")
        # Who shares the address signs in, and is let in at once.
        answer = back(guesser, begun(guesser, liar))
        assert answer.headers.get("location") == "/#/account", answer.text
        assert guesser.client.get("/account.json").status_code == 200
    assert mallory.client.get("/account.json").status_code == 200


def test_an_address_begins_so_many_sign_ins_a_minute(served, liar):
    with Person(served) as hasty:
        answers = [hasty.client.get("/signin") for _ in range(routes.ATTEMPTS_A_MINUTE + 5)]
        assert {each.status_code for each in answers[: routes.ATTEMPTS_A_MINUTE]} == {303}
        for each in answers[routes.ATTEMPTS_A_MINUTE :]:
            is_refused(each, "Too many sign-ins", 429)
    with Person(served) as other:
        assert other.begin()


@pytest.mark.parametrize("path", ["/signin", CALLBACK])
def test_a_page_of_others_uses_up_no_sign_ins_of_its_visitors(served, liar, path):
    with Person(served) as visitor:
        kept = begun(visitor, liar)
        for number in range(routes.ATTEMPTS_A_MINUTE + 5):
            destination = ("image", "iframe", "script", "empty")[number % 4]
            answer = visitor.client.get(path, headers={"sec-fetch-dest": destination})
            is_refused(answer, "a page of its own")
            assert "set-cookie" not in answer.headers  # what is under way goes on
        ahead = {"sec-fetch-dest": "document", "sec-purpose": "prefetch;prerender"}
        is_refused(visitor.client.get(path, headers=ahead), "a page of its own")
        assert back(visitor, kept).headers.get("location") == "/#/account"
        opened = visitor.client.get("/signin", headers={"sec-fetch-dest": "document"})
        assert opened.status_code == 303


async def test_a_provider_that_is_slow_takes_no_more_than_a_share(served, liar, monkeypatch):
    monkeypatch.setattr(fetching, "WITHIN_S", WITHIN_S)
    redis = register.connect(served.settings)
    few = served.settings.model_copy(update={"api_max_concurrent": 2 * routes.SHARE})
    app = FastAPI()
    app.include_router(SignIn(few, redis, Failures()).router())
    liar.reset()
    liar.is_open.clear()
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=liar.base_url) as client:
        waiting = [asyncio.create_task(client.get("/signin")) for _ in range(2)]
        await eventually_async(lambda: liar.asked)
        is_refused(await client.get("/signin"), "Too many people", 503)
        is_refused(await client.get(CALLBACK), "Too many people", 503)
        liar.is_open.set()
        assert [(await each).status_code for each in waiting] == [303, 303]
        assert (await client.get("/signin")).status_code == 303
    await redis.aclose()


def test_no_flood_of_others_ends_a_sign_in_that_is_under_way(mallory, served, liar):
    """What a sign-in needs is in its browser: what others begin takes room nowhere."""

    async def kept(redis):
        [names] = await redis.ask([("KEYS", "access:{signins}*")])
        sizes = await redis.ask([("MEMORY", "USAGE", each, "SAMPLES", 0) for each in names])
        return dict(zip(names, sizes, strict=True))

    state = begun(mallory, liar)
    before = ask(served, kept)
    assert list(before) == [SIGN_IN_SECRETS.make().encode()]
    for _ in range(3):
        with Person(served) as other:
            assert len({query_of(other.begin())["state"] for _ in range(20)}) == 20
    assert ask(served, kept) == before
    assert back(mallory, state).status_code == 303


def test_what_a_browser_keeps_of_a_sign_in_says_nothing_and_cannot_be_changed(mallory, liar):
    asked = query_of(mallory.begin())
    liar.nonce = asked["nonce"]
    [cookie] = [each for each in mallory.client.cookies.jar if each.name.endswith("-begun")]
    sealed = cookie.value
    for each in (asked["state"], asked["nonce"]):
        assert each.encode() not in b64decode(sealed + "==", b"-_")
    for wrong in (
        sealed[:-5] + "AAAA=",
        sealed[:20] + ("A" if sealed[20] != "A" else "B") + sealed[21:],
        Fernet(Fernet.generate_key()).encrypt(b"{}").decode(),
        "x",
    ):
        cookie.value = wrong
        is_refused(back(mallory, asked["state"]))
    cookie.value = sealed
    assert back(mallory, asked["state"]).status_code == 303
