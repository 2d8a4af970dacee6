"""`soltape users` as an operator uses it, on users in a real Valkey."""

from __future__ import annotations

import asyncio
import re

import orjson
import pytest
from click.testing import CliRunner

from api.access import register, restoring, users
from api.access.charge import Refusal
from api.access.keys import key_id, new, parse
from api.access.restoring import Account
from api.access.users import Identity, User
from api.subscribers import register as subscribers
from api.subscribers.register import KafkaUser, new_user
from infra.cli import cli

ANN = Identity("https://issuer.example.com", "ann", "ann@example.com")
ID = key_id(ANN.fingerprint)


@pytest.fixture(autouse=True)
def _folder(folder):
    """Every command runs in an empty folder."""


@pytest.fixture
async def user(redis):
    return await users.enter(redis, ANN, 10)


async def done(*arguments, stdin=None):
    """Run a command; beside this loop, as it has one of its own."""
    command = ["users", *arguments]
    return await asyncio.to_thread(CliRunner().invoke, cli, command, input=stdin)


async def good(*arguments, stdin=None):
    """Return what a command that succeeds prints."""
    result = await done(*arguments, stdin=stdin)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


async def refused(*arguments, stdin=None, code=1):
    """Return what a command that fails says."""
    result = await done(*arguments, stdin=stdin)
    assert (result.exit_code, result.stdout) == (code, "")
    assert "Traceback" not in result.stderr
    return result.stderr


async def test_where_nobody_signed_in_scripts_read_nothing():
    for arguments, said in (([], "nobody has signed in yet\n"), (["--json"], "")):
        result = await done("list", *arguments)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", said)


async def test_users_are_a_table_for_people_and_lines_for_programs(redis, user):
    month = register.month_of(await register.now_ms(redis))
    bob = Identity(ANN.issuer, "bob", "bob")
    facts = User(bob.fingerprint, "bob", "pro", bob.issuer, "bob", 1_763_700_000_000,
                 1_763_700_060_000, 1_763_786_400_000, {month: 1_234})  # fmt: skip
    await restoring.put(redis, Account(facts, ()))
    head, first, second = (re.split(r" {2,}", line) for line in (await good("list")).splitlines())
    assert head == [*("id", "plan", month, "created", "signed in", "suspended", "name", "issuer")]
    assert first == [
        *(key_id(bob.fingerprint), "pro", "1,234", "2025-11-21 04:40", "2025-11-21 04:41"),
        *("2025-11-22 04:40", "bob", ANN.issuer),
    ]
    assert (second[:3], second[5:]) == ([ID, "free", "0"], ["-", ANN.name, ANN.issuer])

    one, two = (orjson.loads(line) for line in (await good("list", "--json")).splitlines())
    assert one == {
        "id": key_id(bob.fingerprint),
        "name": "bob",
        "plan": "pro",
        "issuer": ANN.issuer,
        "subject": "bob",
        "created_ms": 1_763_700_000_000,
        "signed_in_ms": 1_763_700_060_000,
        "suspended_ms": 1_763_786_400_000,
        "credits": {month: 1_234},
    }
    assert (two["id"], two["suspended_ms"], two["credits"]) == (ID, None, {})


async def test_a_plan_is_given_and_the_one_before_is_said(redis, user):
    said = await good("plan", ID, "pro")
    assert said == f"{ID} (ann@example.com) has the plan pro; before, free\n"
    found = await users.read(redis, user)
    assert found is not None
    assert found.plan == "pro"
    assert "'free', 'pro', 'business'" in await refused("plan", ID, "gold", code=2)
    assert "Missing argument" in await refused("plan", ID, code=2)


async def test_a_suspension_refuses_all_keys_until_it_ends(redis, user, charges):
    keys = [parse(await users.create_key(redis, user, name)) for name in ("first", "second")]
    said = await good("suspend", ID)
    assert said == f"{ID} (ann@example.com) is suspended: all of their keys are refused\n"
    assert [await charges.look(each) for each in keys] == [Refusal("suspended")] * 2
    assert await good("resume", ID) == f"{ID} (ann@example.com) is not suspended\n"
    assert [await charges.look(each) for each in keys] == [None] * 2


async def test_keys_of_a_user_are_listed_and_end_one_by_one(redis, user, charges):
    result = await done("keys", ID)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "the user has no keys\n"
    texts = [await users.create_key(redis, user, name) for name in ("first", "second")]
    first, second = (key_id(parse(text)) for text in texts)
    for meant, stdin in ((ID, None), ("-", texts[1])):
        head, *rows = (await good("keys", meant, stdin=stdin)).splitlines()
        assert re.split(r" {2,}", head) == ["id", "key", "created", "last used", "name"]
        rows = [re.split(r" {2,}", row) for row in rows]
        assert {(row[0], *row[3:]) for row in rows} == {
            (first, "never", "first"),
            (second, "never", "second"),
        }

    said = await good("revoke", "-", stdin=texts[0])
    assert said == f"{first}, a key of {ID} (ann@example.com), is refused from now on\n"
    assert await charges.look(parse(texts[0])) == Refusal("revoked")
    assert await charges.look(parse(texts[1])) is None
    assert f"has no key {first} that works" in await refused("revoke", first, "--user", ID)
    said = await good("revoke", second, "--user", ID)
    assert said.startswith(f"{second}, a key of {ID}")
    assert await charges.look(parse(texts[1])) == Refusal("revoked")
    assert "the user has no keys" in (await done("keys", ID)).stderr


async def test_the_text_of_a_key_is_never_repeated(redis, user, charges, make):
    text = await users.create_key(redis, user, "first")
    said = await refused("revoke", "-", "--user", ID, stdin=await make.text())
    assert "soltape_" not in said
    said = await good("revoke", "-", "--user", ID, stdin=text)
    assert said.startswith(f"{key_id(parse(text))}, a key of {ID}")
    assert await charges.look(parse(text)) == Refusal("revoked")


async def test_nobody_is_meant_by_what_is_not_theirs(user, make):
    assert "0123456789ab is no user's here" in await refused("suspend", "0123456789ab")
    operators = await make.text()
    for text in (operators, new()):
        assert "this key is no user's here" in await refused("revoke", "-", stdin=text)
    assert "say whose it is, with --user" in await refused("revoke", "0123456789ab")


@pytest.mark.parametrize(
    ("arguments", "change"),
    [(("plan", ID, "pro"), "has the plan pro"), (("suspend", ID), "is suspended")],
)
async def test_credentials_that_do_not_follow_are_a_failure_after_the_change(
    redis, user, arguments, change
):
    kafka_user = KafkaUser(new_user(ID), ID, "free", "first", 1)
    assert await subscribers.reserve(redis, kafka_user, 2) == "reserved"
    result = await done(*arguments)
    assert (result.exit_code, change in result.stdout) == (1, True)
    assert f"Kafka credentials of {ID} may be as before (1 are listed)" in result.stderr
    assert "Traceback" not in result.stderr
