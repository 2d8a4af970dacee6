"""A browser that a one-time link let in, as HTTP sees it: its session, and what that permits."""

from __future__ import annotations

import asyncio
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.cookies import SimpleCookie
from secrets import token_urlsafe

import httpx
import pytest

from api.access import register
from api.access.keys import new, parse
from tests.support.api.served import served
from tests.support.waiting import eventually

ADDRESS = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
REFUSED = "The link is not valid"


def demo_key(served):
    return (served.settings.soltape_data / "demo-key").read_text().strip()


@contextmanager
def let_in(served):
    """A browser that has opened a link."""
    with httpx.Client(base_url=served.url, timeout=240) as client:
        assert client.get(served.link()).status_code == 303
        yield client


@pytest.fixture
def browser(demo):
    with let_in(demo) as client:
        yield client


def test_a_link_lets_in_once_and_leaves_no_token_in_the_address(demo):
    link = demo.link()
    assert re.fullmatch(rf"{demo.url}/\?token=[\w-]{{43}}", link)
    opened = httpx.get(link)
    assert (opened.status_code, opened.headers["location"]) == (303, "/")
    assert opened.headers["referrer-policy"] == "no-referrer"
    assert opened.headers["cache-control"] == "no-store"
    [cookie] = SimpleCookie(opened.headers["set-cookie"]).values()
    assert cookie["path"] == "/"
    assert cookie["samesite"] == "strict"
    assert cookie["httponly"]
    assert not cookie["domain"]
    assert int(cookie["max-age"]) > 7 * 24 * 3_600

    again = httpx.get(link)
    assert again.status_code == 403
    assert REFUSED in again.text
    assert "soltape keys link" in again.text
    assert "set-cookie" not in again.headers
    assert again.headers["content-type"] == "text/html; charset=utf-8"
    usage = httpx.get(f"{demo.url}/api/usage", headers={"cookie": f"{cookie.key}={cookie.value}"})
    assert (usage.status_code, usage.json()["plan"]) == (200, "business")
    eventually(lambda: demo.logged().count('"path":"/"') >= 2, demo.logged)
    assert link.partition("=")[2] not in demo.logged()
    assert cookie.value not in demo.logged()


def test_of_many_browsers_at_once_a_link_lets_in_one(demo):
    link = demo.link()
    with ThreadPoolExecutor(10) as browsers:
        opened = list(browsers.map(lambda _: httpx.get(link, timeout=240), range(20)))
    assert sorted(each.status_code for each in opened) == [303] + [403] * 19
    assert sum("set-cookie" in each.headers for each in opened) == 1


@pytest.mark.parametrize("token", ["", "x", "A" * 43, "..", "soltape_" + "d" * 39])
def test_a_token_that_nobody_made_lets_nobody_in(demo, token):
    opened = httpx.get(f"{demo.url}/", params={"token": token})
    assert (opened.status_code, REFUSED in opened.text) == (403, True)
    assert "set-cookie" not in opened.headers


def test_a_session_has_the_grant_of_the_demo_key_and_never_the_key(demo, browser):
    key = demo_key(demo)
    answers = [
        browser.get("/"),
        browser.get("/dashboard.json"),
        browser.get("/api/usage"),
        browser.get("/api/health"),
        browser.post("/api/tokens/batch", json={"mints": [ADDRESS]}),
        browser.post("/websocket-ticket"),
    ]
    assert [each.status_code for each in answers] == [200] * 6
    assert answers[1].json()["session"] is True
    assert answers[2].json()["key"]["id"] == parse(key)[:12]
    assert "dependencies" in answers[3].json()
    assert answers[4].headers["ratelimit-policy"] == '"minute";q=2000;w=60'
    assert "x-credits-left" in answers[4].headers
    for each in answers:
        assert key not in f"{each.headers} {each.text}"
    spent = int(answers[4].headers["x-credits-left"])
    assert int(answers[5].headers["x-credits-left"]) == spent  # a ticket costs none


def test_without_a_link_nobody_has_a_session(demo):
    """Whatever headers say, which a proxy or a program may write."""
    name = f"soltape-{parse(demo_key(demo))[:12]}"
    for headers in (
        {},
        {"host": "127.0.0.1:8000"},
        {"host": "localhost", "origin": "http://localhost", "sec-fetch-site": "same-origin"},
        {"x-forwarded-for": "127.0.0.1", "forwarded": "for=127.0.0.1", "x-real-ip": "::1"},
        {"cookie": f"{name}={'A' * 43}"},
        {"cookie": f"{name}="},
        {"cookie": f"{name}={demo_key(demo)}"},
        {"cookie": f"x-api-key={demo_key(demo)}"},
        {"cookie": b"\xff=;;=;"},
    ):
        with httpx.Client(base_url=demo.url, headers=headers) as client:
            assert client.get("/api/usage").json()["code"] == "key_missing"
            assert client.post("/websocket-ticket").status_code == 401
            answer = client.get("/dashboard.json")
            assert answer.json()["session"] is False
            assert demo_key(demo) not in answer.text
            health = client.get("/api/health")  # public things stay so
            assert health.status_code == 200
            assert "dependencies" not in health.json()


@pytest.mark.parametrize(
    ("site", "status"),
    [("same-origin", 200), ("none", 200), ("same-site", 401), ("cross-site", 401), ("", 401)],
)
def test_a_browser_on_behalf_of_another_page_has_no_session(browser, site, status):
    headers = {"sec-fetch-site": site}
    body = {"mints": [ADDRESS]}
    assert browser.get("/api/usage", headers=headers).status_code == status
    assert browser.post("/api/tokens/batch", headers=headers, json=body).status_code == status
    assert browser.post("/websocket-ticket", headers=headers).status_code == status
    session = browser.get("/dashboard.json", headers=headers).json()["session"]
    assert session is (status == 200)


def test_of_two_cookies_of_its_name_none_counts(demo, browser):
    [(name, value)] = browser.cookies.items()
    for cookie in (f"{name}={'A' * 43}; {name}={value}", f"{name}={value};{name}={value}"):
        answer = httpx.get(f"{demo.url}/api/usage", headers={"cookie": cookie})
        assert answer.status_code == 401
    others = {"cookie": f"a=b; x{name}=c;{name}={value}; {name}x=d"}
    assert httpx.get(f"{demo.url}/api/usage", headers=others).status_code == 200


def test_a_key_that_is_sent_counts_before_the_session(demo, browser):
    usage = browser.get("/api/usage", headers={"x-api-key": demo.key})
    assert usage.json()["plan"] == "enterprise"
    assert browser.get("/api/usage", headers={"x-api-key": "x"}).status_code == 401


def test_a_session_outlives_the_process_and_is_known_to_others(demo, browser, tmp_path):
    file = demo.settings.soltape_data / "demo-key"
    with served(demo.settings, tmp_path, "--demo-key", str(file)) as another:
        usage = httpx.get(f"{another.url}/api/usage", headers=browser.get("/").request.headers)
        assert (usage.status_code, usage.json()["plan"]) == (200, "business")


def test_an_api_without_a_demo_key_knows_no_sessions(demo, browser, tmp_path):
    with served(demo.settings, tmp_path) as another:
        headers = browser.get("/").request.headers
        assert httpx.get(f"{another.url}/api/usage", headers=headers).status_code == 401
        answer = httpx.get(f"{another.url}/dashboard.json", headers=headers)
        assert answer.json()["session"] is None


def test_an_address_of_tokens_that_were_made_up_is_refused_without_a_look(demo, tmp_path):
    """In an API of the test's own: what comes from its address is refused for a minute."""
    own = demo.settings.model_copy(
        update={"access_redis_url": database(demo, 10), "trusted_proxies": "127.0.0.1"}
    )
    option = "--demo-key", str(tmp_path / "demo-key")
    with served(own, tmp_path, *option) as api, httpx.Client(base_url=api.url, timeout=240) as page:

        def guess(**headers):
            return page.get("/", params={"token": token_urlsafe(32)}, headers=headers)

        # A minute of a slow machine may be over before so many were sent.
        eventually(lambda: guess().status_code == 429)
        refused = guess()
        assert refused.json()["code"] == "too_many_failures"
        assert int(refused.headers["retry-after"]) > 0
        assert page.get(api.link()).status_code == 429  # not spent
        elsewhere = {"x-forwarded-for": "203.0.113.77"}
        assert guess(**elsewhere).status_code == 403
        assert page.get(api.link(), headers=elsewhere).status_code == 303
        assert page.get("/").status_code == 200  # the page itself asks nobody


def test_an_address_of_cookies_that_were_made_up_is_refused_without_a_look(demo, tmp_path):
    """In an API of the test's own: what comes from its address is refused for a minute."""
    own = demo.settings.model_copy(
        update={"access_redis_url": database(demo, 9), "trusted_proxies": "127.0.0.1"}
    )
    option = "--demo-key", str(tmp_path / "demo-key")
    with (
        served(own, tmp_path, *option) as api,
        let_in(api) as client,
        httpx.Client(base_url=api.url, timeout=240) as guesser,
    ):
        [cookie] = [each for each in client.cookies if each.startswith("soltape-")]

        def code(path, **sent):
            headers = sent or {"cookie": f"{cookie}={token_urlsafe(32)}"}
            return guesser.get(path, headers=headers).json().get("code")

        # A minute of a slow machine may be over before so many were sent.
        for path in ("/api/usage", "/dashboard.json", "/no/such/path"):
            eventually(lambda path=path: code(path) == "too_many_failures")
        assert client.get("/api/usage").status_code == 200  # who is inside stays so
        eventually(lambda: code("/api/usage", **{"x-api-key": new()}) == "too_many_failures")
        elsewhere = {"x-forwarded-for": "203.0.113.77", "cookie": f"{cookie}={token_urlsafe(32)}"}
        assert code("/api/usage", **elsewhere) == "key_missing"
        assert guesser.get(api.link()).status_code == 429  # a link of the address is not spent


def test_it_ends_with_the_key(demo, tmp_path):
    own = demo.settings.model_copy(update={"access_redis_url": database(demo, 6)})
    file = str(tmp_path / "demo-key")
    with served(own, tmp_path, "--demo-key", file) as first, let_in(first) as client:
        revoked = parse(demo_key(first))
        ask(first, lambda redis: register.revoke(redis, revoked, 1))
        assert client.get("/api/usage").json()["code"] == "key_revoked"
        refused = first.run("keys", "link")
        assert refused.returncode == 1
        assert "revoked: start `soltape up` again" in refused.stderr
    with served(own, tmp_path, "--demo-key", file) as second, let_in(second) as other:
        assert other.get("/api/usage").status_code == 200
        assert parse(demo_key(second)) != revoked


def test_it_ends_where_redis_has_lost_it(demo, tmp_path):
    own = demo.settings.model_copy(update={"access_redis_url": database(demo, 7)})
    file = str(tmp_path / "demo-key")
    with served(own, tmp_path, "--demo-key", file) as first, let_in(first) as client:
        key = demo_key(first)
        ask(first, lambda redis: redis.ask([("FLUSHDB",)]))
        assert client.get("/api/usage").json()["code"] == "key_missing"
        assert client.get("/dashboard.json").json()["session"] is False
        refused = first.run("keys", "link")
        assert "not known here: start `soltape up` again" in refused.stderr
    with served(own, tmp_path, "--demo-key", file) as second, let_in(second) as other:
        assert demo_key(second) == key
        assert other.get("/api/usage").status_code == 200


def test_a_link_wants_the_file_of_the_key(demo, tmp_path):
    def linked(folder):
        settings = demo.settings.model_copy(update={"soltape_data": folder})
        return type(demo)(settings, "", demo.log, demo.process).run("keys", "link")

    assert stat.S_IMODE((demo.settings.soltape_data / "demo-key").stat().st_mode) == 0o600
    done = linked(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "demo-key does not exist" in done.stderr
    assert "soltape keys create" in done.stderr
    (tmp_path / "demo-key").write_text("notes")
    done = linked(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "holds something else than a key" in done.stderr


def database(served, number):
    return f"{served.settings.redis_url.rpartition('/')[0]}/{number}"


def ask(served, work):
    async def connected():
        redis = register.connect(served.settings)
        try:
            return await work(redis)
        finally:
            await redis.aclose()

    return asyncio.run(connected())
