"""Signing in with the certified provider of another make, from the link to the account."""

from __future__ import annotations

import time
from http.cookies import SimpleCookie
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import SecretStr

from tests.support.api.signing_in import Person, certified, query_of

pytestmark = pytest.mark.node
CODE_S = 2


def test_a_sign_in_leads_to_an_account_on_the_plan_free(person, api, provider):
    page = person.client.get("/dashboard.json").json()
    assert (page["account"], page["account_id"]) == (False, None)
    address = person.begin()
    asked = query_of(address)
    assert address.startswith(f"{provider.issuer}/auth?")
    assert asked["response_type"] == "code"
    assert asked["redirect_uri"] == f"{provider.base_url}/signin/callback"
    assert asked["code_challenge_method"] == "S256"
    assert len(asked["code_challenge"]) == 43
    assert min(len(asked["state"]), len(asked["nonce"])) == 43

    answer = person.finish(person.agree(address, "grace"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/#/account")
    assert answer.headers["cache-control"] == "no-store"
    account = person.account()
    assert account["user"]["name"] == "grace@example.com"
    assert account["plan"]["name"] == "free"
    assert account["credits"]["limit"] == 50_000
    assert (account["credits"]["used"], account["keys"]) == (0, [])
    page = person.client.get("/dashboard.json").json()
    assert (page["account"], page["account_id"]) == (True, account["user"]["id"])
    assert person.client.get("/api/usage").json()["key"]["key"] == "session"


def test_cookies_are_for_this_site_and_no_script(person):
    begun = person.client.get("/signin")
    [cookie] = SimpleCookie(begun.headers["set-cookie"]).values()
    assert (cookie["samesite"], cookie["path"], cookie["max-age"]) == ("lax", "/", "600")
    assert cookie["httponly"]
    assert not cookie["domain"]
    answer = person.finish(person.agree(begun.headers["location"]))
    session, gone = answer.headers.get_list("set-cookie")
    [made] = SimpleCookie(session).values()
    assert (made["samesite"], made["path"], made["httponly"]) == ("strict", "/", True)
    assert not made["domain"]
    assert not made["secure"]  # its address is http, on this machine
    [removed] = SimpleCookie(gone).values()
    assert (removed.key, removed["max-age"]) == (cookie.key, "0")


def test_signing_in_again_gives_the_same_account_and_another_session(ann, api):
    key = ann.new_key()
    before = ann.account()
    cookies = dict(ann.client.cookies)
    assert ann.sign_in().status_code == 303
    after = ann.account()
    assert after["user"] == before["user"]
    assert after["csrf"] != before["csrf"]
    assert dict(ann.client.cookies) != cookies
    with httpx.Client(base_url=api.url, cookies=cookies) as old:
        assert old.get("/account.json").json()["code"] == "session_missing"
    assert ann.ask(key).status_code == 200


def test_a_sign_out_ends_the_session_and_no_other(ann, api):
    with Person(api) as other:
        other.sign_in()
        cookies = dict(ann.client.cookies)
        done = ann.post("/signout")
        assert (done.status_code, done.json()) == (200, {})
        assert dict(ann.client.cookies) == {}
        assert ann.client.get("/account.json").status_code == 401
        with httpx.Client(base_url=api.url, cookies=cookies) as old:
            assert old.get("/account.json").status_code == 401
            assert old.get("/api/usage").status_code == 401
        assert other.account()["user"]["name"] == "ann@example.com"


@pytest.mark.parametrize("client", ["public", "posts"])
def test_clients_without_a_secret_or_with_it_in_the_form_sign_in(
    serve_signin, provider_folder, tmp_path, client
):
    secret = SecretStr("secret") if client == "posts" else None
    with (
        certified(provider_folder, tmp_path / "log") as own,
        serve_signin(own, signin_client_id=client, signin_client_secret=secret) as api,
        Person(api) as person,
    ):
        assert person.sign_in().status_code == 303
        assert person.account()["plan"]["name"] == "free"


def test_another_user_has_another_account(ann, api):
    with Person(api) as bob:
        bob.sign_in("bob")
        assert bob.account()["user"]["id"] != ann.account()["user"]["id"]
        key = ann.new_key("of ann")
        ids = [each["id"] for each in ann.account()["keys"]]
        refused = bob.post("/account/keys/revoke", {"id": ids[-1]})
        assert (refused.status_code, refused.json()["code"]) == (404, "no_such_key")
        assert ann.ask(key).status_code == 200


def test_pages_lead_to_where_browsers_reach_the_service(api, provider):
    config = httpx.get(f"{api.url}/dashboard.json").json()
    assert config["sign_in_url"] == f"{provider.base_url}/signin"
    assert urlsplit(config["sign_in_url"]).port == api.port


def test_a_code_that_has_expired_signs_nobody_in(serve_signin, provider_folder, tmp_path):
    with (
        certified(provider_folder, tmp_path / "log", code_s=CODE_S) as own,
        serve_signin(own) as api,
        Person(api) as person,
    ):
        address = person.agree(person.begin())
        time.sleep(CODE_S + 1)  # the provider counts whole seconds
        is_refused(person, person.finish(address))


def test_a_code_that_was_used_signs_nobody_in(person, api):
    """It comes with the state of another sign-in, which is good."""
    with Person(api) as thief:
        address = person.agree(person.begin())
        assert person.finish(address).status_code == 303
        stolen = {**query_of(address), "state": query_of(thief.begin())["state"]}
        is_refused(thief, thief.client.get("/signin/callback", params=stolen))


def is_refused(person, answer):
    """The page says why, and nobody is signed in."""
    assert answer.status_code == 403, answer.text
    assert "no longer accepts the code" in answer.text
    assert person.client.get("/account.json").json()["code"] == "session_missing"
