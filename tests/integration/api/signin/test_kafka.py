"""Kafka credentials on an account's page, where Kafka is off, away or silent.

`tests/integration/kafka/test_subscribers.py` has the page with a broker that answers.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from pydantic import SecretStr

from api.access import register as keys
from api.access import users
from api.access.users import Identity
from api.subscribers import register
from api.subscribers.register import KafkaUser
from infra.local.process import free_port
from tests.support.api.issuing import Issuer, issuing
from tests.support.api.served import Served
from tests.support.api.signing_in import Person, query_of
from tests.support.waiting import eventually

PASSWORD = "correct-horse"


@pytest.fixture(scope="module")
def liar() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def off(liar, serve_signin) -> Iterator[Served]:
    """An API without the operator's login, as every API is unless it is given one."""
    with serve_signin(liar) as running:
        yield running


def login(bootstrap: str) -> dict[str, object]:
    return {
        "kafka_bootstrap": bootstrap,
        "kafka_security": "sasl_plaintext",
        "kafka_sasl_mechanism": "PLAIN",
        "kafka_admin_username": "operator",
        "kafka_admin_password": SecretStr(PASSWORD),
        "kafka_public_bootstrap": "kafka.example.com:9094",
    }


@pytest.fixture(scope="module")
def away(serve_signin) -> Iterator[tuple[Served, Issuer]]:
    """An API with the login, and nothing at the broker's address."""
    with issuing() as own, serve_signin(own, **login(f"127.0.0.1:{free_port()}")) as running:
        yield running, own


def person(served, liar, name, plan="business"):
    """A signed-in user with a plan."""
    liar.reset()
    liar.claims = {"sub": name}
    found = Person(served)
    asked = query_of(found.begin())
    liar.nonce = asked["nonce"]
    params = {"code": "c", "state": asked["state"]}
    assert found.client.get("/signin/callback", params=params).status_code == 303
    user = Identity(liar.issuer, name, "").fingerprint
    at_redis(served, lambda redis: users.set_plan(redis, user, plan))
    return found


def of_away(away, name, plan="business"):
    served, own = away
    return person(served, own, name, plan)


def at_redis(served, work):
    async def connected():
        redis = keys.connect(served.settings)
        try:
            return await work(redis)
        finally:
            await redis.aclose()

    return asyncio.run(connected())


def put_down(served, account, name="prod"):
    """Let an account have a user, as far as Redis knows."""
    user = KafkaUser(register.new_user(account), account, "business", name, 1, is_active=True)
    assert at_redis(served, lambda redis: register.reserve(redis, user, 9)) == "reserved"
    return user.user


def code_of(answer):
    return answer.status_code, answer.json()["code"]


def test_without_the_login_the_page_says_why_and_issues_nothing(off, liar):
    ann = person(off, liar, "off1")
    section = ann.account()["kafka"]
    assert (section["is_issued"], section["credentials"]) == (False, [])
    assert "a broker with SCRAM" in section["why_off"]
    assert "embedded broker is on loopback only" in section["why_off"]
    for path, body in (("", {"name": "x"}), ("/revoke", {"user": f"sub-{'0' * 16}-{'0' * 8}"})):
        answer = ann.post(f"/account/kafka{path}", body)
        assert code_of(answer) == (404, "kafka_off")
        assert answer.json()["detail"] == section["why_off"]


def test_a_plan_without_kafka_says_which_has_it(away):
    ann = of_away(away, "plan1", "pro")
    section = ann.account()["kafka"]
    assert (section["is_issued"], section["most"]) == (True, 0)
    assert section["plans"] == ["business", "enterprise"]
    answer = ann.post("/account/kafka", {"name": "x"})
    assert code_of(answer) == (403, "not_in_plan")
    assert "plan pro has no Kafka; business and enterprise have it" in answer.json()["detail"]


def test_a_broker_that_is_away_leaves_something_to_revoke_and_no_password(away):
    served, _ = away
    ann = of_away(away, "away1")
    answer = ann.post("/account/kafka", {"name": "my <b>first</b>"})
    assert code_of(answer) == (503, "kafka_failed")
    assert "Try again" in answer.json()["detail"]
    [left] = ann.account()["kafka"]["credentials"]
    assert (left["name"], left["is_active"]) == ("my <b>first</b>", False)
    eventually(lambda: "Kafka did not do it" in served.logged(), served.logged)
    assert PASSWORD not in served.logged()
    assert "sasl.password" not in served.logged()


def test_credentials_of_others_are_nobodys_here(away):
    served, _ = away
    ann, bob = of_away(away, "mine"), of_away(away, "theirs")
    theirs = put_down(served, bob.account()["user"]["id"])
    assert ann.account()["kafka"]["credentials"] == []
    assert [each["user"] for each in bob.account()["kafka"]["credentials"]] == [theirs]
    for user in (theirs, f"sub-{'0' * 16}-{'0' * 8}"):
        answer = ann.post("/account/kafka/revoke", {"user": user})
        assert code_of(answer) == (404, "no_such_credentials")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("", {}),
        ("", {"name": " "}),
        ("", {"name": "x" * 101}),
        ("", {"name": "a\nb"}),
        ("", {"name": "a", "plan": "enterprise"}),
        ("/revoke", {"user": "soltape-ingest"}),
        ("/revoke", {"user": "operator"}),
        ("/revoke", {"user": f"sub-{'0' * 16}-{'0' * 8}\n"}),
        ("/revoke", {"user": f"sub-{'0' * 16}-{'0' * 8}", "account": "acme"}),
    ],
)
def test_what_is_no_request_asks_nothing_of_kafka(away, path, body):
    ann = of_away(away, "bodies")
    answer = ann.post(f"/account/kafka{path}", body)
    assert code_of(answer) == (422, "invalid_body")
    assert ann.account()["kafka"]["credentials"] == []


def test_while_kafka_is_silent_one_change_waits_and_all_else_is_answered(serve_signin):
    with socket.create_server(("127.0.0.1", 0)) as silent, issuing() as own:
        settings = login(f"127.0.0.1:{silent.getsockname()[1]}")
        with serve_signin(own, api_timeout_s=5.0, **settings) as served:
            ann, bob = person(served, own, "slow1"), person(served, own, "slow2")
            csrf = {"x-csrf-token": ann.account()["csrf"]}

            def issue(name):
                body = {"name": name}
                return ann.client.post("/account/kafka", json=body, headers=csrf)

            with ThreadPoolExecutor(1) as pool:
                first = pool.submit(issue, "first")
                eventually(lambda: at_redis(served, register.read_all))
                second = issue("second")
                assert code_of(second) == (409, "kafka_busy")
                assert second.headers["retry-after"] == "5"
                assert bob.account()["kafka"]["credentials"] == []
                assert httpx.get(f"{served.url}/api/health/live").status_code == 200
                assert not first.done()
                assert code_of(first.result()) == (503, "kafka_failed")
            # It is under way until Kafka's own time is over, also when nobody waits for it.
            eventually(lambda: "ended unseen" in served.logged(), served.logged)
            [left] = ann.account()["kafka"]["credentials"]
            assert not left["is_active"]


def test_the_operator_hears_of_credentials_that_do_not_follow(off, liar):
    ann = person(off, liar, "follow1")
    id_ = ann.account()["user"]["id"]
    assert off.run("users", "plan", id_, "enterprise").returncode == 0
    put_down(off, id_)
    for command, change in (
        (("plan", id_, "pro"), "has the plan pro"),
        (("suspend", id_), "suspended"),
    ):
        done = off.run("users", *command)
        assert done.returncode == 1
        assert change in done.stdout
        assert f"credentials of {id_} may be as before (1 are listed)" in done.stderr
        assert "set KAFKA_ADMIN_USERNAME" in done.stderr
        assert "Traceback" not in done.stderr
    assert off.run("users", "resume", id_).returncode == 0
    assert "KAFKA_ADMIN_USERNAME" in off.run("users", "--help").stdout
