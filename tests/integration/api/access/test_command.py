"""`soltape keys` as an operator uses it."""

import asyncio
import os
import re
import stat
import subprocess
import sys
import time

import orjson
import pytest
import redis as sync_redis
from click.testing import CliRunner

from api.access import demo, passes, register, users
from api.access.charge import Charges, Grant, Refusal
from api.access.keys import key_id, new, parse
from api.access.users import Identity
from infra.cli import cli
from infra.local import running
from infra.local.process import free_port
from infra.redis.embedded import valkey
from infra.settings import Settings
from schemas.redis_keys import API_KEY, API_LINK, USER_KEY, USER_SESSIONS, tag_of_key
from stream_gateway.admission import Admission
from tests.support.systems import bound
from tests.support.waiting import without_error

TEXT = re.compile(r"soltape_[0-9A-Za-z]{39}")


@pytest.fixture(autouse=True)
def _folder(folder):
    """Every command runs in an empty folder."""


def keys(*arguments, stdin=None):
    return CliRunner().invoke(cli, ["keys", *arguments], input=stdin)


def created(*options):
    result = keys("create", "--name", "dashboard", *options)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def listed():
    return [orjson.loads(line) for line in keys("list", "--json").stdout.splitlines()]


def charge(text, times=1):
    """Ask with a key, as the API does; return the last answer."""

    async def ask():
        connection = register.connect(Settings())
        try:
            charges = Charges(connection)
            for _ in range(times):
                answer = await charges.request(parse(text), 1)
            return answer
        finally:
            await connection.aclose()

    return asyncio.run(ask())


def test_a_key_is_printed_once_with_a_curl_and_where_it_is_kept(keys_url):
    result = keys("create", "--name", "dashboard", "--plan", "pro", "--owner", "ann@example.com")
    assert result.exit_code == 0
    text = result.stdout.strip()
    assert TEXT.fullmatch(text)
    curl = 'echo "x-api-key: $KEY" | curl -H @- http://127.0.0.1:8000/api/usage'
    assert curl in result.stderr
    assert text not in result.stderr
    assert "It is not shown again" in result.stderr
    place = f"{keys_url.removesuffix('/1')} (database 1)"
    assert f"Redis at {place} has it in its append-only file." in result.stderr
    assert "is set" not in result.stderr
    assert isinstance(charge(text), Grant)
    [one] = listed()
    assert one == {
        "id": parse(text)[:12],
        "key": f"soltape_...{text[-4:]}",
        "name": "dashboard",
        "plan": "pro",
        "owner": "ann@example.com",
        "created_ms": one["created_ms"],
        "last_used_ms": one["last_used_ms"],
        "revoked_ms": None,
        "connections": 0,
    }
    assert abs(one["created_ms"] - time.time() * 1000) < 60_000
    assert one["last_used_ms"] >= one["created_ms"]


def test_nothing_that_redis_keeps_lets_anybody_in(keys_url):
    text = created()
    charge(text)
    with sync_redis.Redis.from_url(keys_url) as client:
        kept = b"".join(name + client.dump(name) for name in client.keys("*"))
    assert text[8:-4].encode() not in kept
    assert parse(text).encode() in kept


def test_the_list_is_a_table_for_people():
    first, second = created("--plan", "business"), created("--owner", "bob")
    charge(second)
    keys("revoke", parse(first)[:12])
    head, one, two = keys("list").stdout.splitlines()
    assert head.split() == [
        "id",
        "key",
        "plan",
        "created",
        "last",
        "used",
        "revoked",
        "open",
        "name",
        "owner",
    ]
    assert re.fullmatch(
        rf"{parse(first)[:12]}  soltape_\.\.\.{first[-4:]}  business  \d{{4}}-\d\d-\d\d \d\d:\d\d  "
        r"never             \d{4}-\d\d-\d\d \d\d:\d\d  -     dashboard",
        one,
    )
    assert two.split()[:3] == [parse(second)[:12], f"soltape_...{second[-4:]}", "free"]
    assert two.endswith("-                 -     dashboard  bob")


def test_the_list_shows_how_many_connections_are_open(keys_url):
    first, second = created("--plan", "business"), created()

    async def connect():
        connection = register.connect(Settings())
        try:
            doors = Admission(connection, print, print)
            for _ in range(3):
                await doors.admit(first)
            ended = f"access:{tag_of_key(parse(second))}:connections"
            await connection.ask([("ZADD", ended, 5, "of a gateway that was killed")])
        finally:
            await connection.aclose()

    asyncio.run(connect())
    assert [each["connections"] for each in listed()] == [3, 0]
    _, one, two = keys("list").stdout.splitlines()
    assert one.endswith("-        3     dashboard")
    assert two.endswith("-        -     dashboard")


def test_no_keys_yet():
    result = keys("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "soltape keys create --name" in result.stderr
    assert keys("usage").stderr == "nothing was spent\n"
    assert keys("export").stdout == ""


@pytest.mark.parametrize(
    "command", [["keys", "revoke"], ["keys", "usage"], ["users", "revoke"], ["users", "keys"],
                ["users", "suspend"], ["users", "resume"]],
)  # fmt: skip
def test_no_key_is_taken_where_all_users_of_the_machine_see_it(command):
    text = created()
    result = CliRunner().invoke(cli, [*command, text])
    assert result.exit_code == 2
    assert "give -, and the key on stdin" in result.output
    assert text not in result.output
    assert isinstance(charge(text), Grant)
    result = CliRunner().invoke(cli, [*command, "-"], input="\n")
    assert (result.exit_code, "there is no line on stdin" in result.output) == (2, True)


@pytest.mark.parametrize("how", ["id", "display", "key"])
def test_a_key_is_revoked_by_whatever_names_it(how):
    text, other = created(), created()
    meant = {"id": parse(text)[:12], "display": f"soltape_...{text[-4:]}", "key": "-"}[how]
    result = keys("revoke", meant, stdin=f"{text}\n")
    assert (result.exit_code, "is refused from now on" in result.stdout) == (0, True)
    assert text not in result.output
    assert charge(text) == Refusal("revoked")
    assert isinstance(charge(other), Grant)
    revoked_ms = listed()[0]["revoked_ms"] or listed()[1]["revoked_ms"]
    again = keys("revoke", meant, stdin=f"{text}\n")
    assert again.exit_code == 0
    assert "is revoked since 20" in again.stdout
    assert revoked_ms in [each["revoked_ms"] for each in listed()]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("create",), 2, "Missing option '--name'"),
        (("create", "--name", " "), 2, "it is empty"),
        (("create", "--name", "a\nb"), 2, "cannot be shown"),
        (("create", "--name", "x" * 101), 2, "longer than 100"),
        (("create", "--name", "x", "--plan", "gold"), 2, "'free', 'pro', 'business', 'enterprise'"),
        (("revoke",), 2, "Missing argument 'KEY'"),
        (("revoke", "0123456789ab"), 1, "0123456789ab is not known here; `soltape keys list`"),
        (("usage", "0123456789ab"), 1, "is not known here"),
        (("usage", "--month", "2026-13"), 2, "give it as 2026-11"),
        (("usage", "--month", "November"), 2, "give it as 2026-11"),
        (("import", "nowhere.jsonl"), 2, "No such file"),
        (("export", "nowhere/keys.jsonl"), 1, "nowhere/keys.jsonl: No such file or directory"),
        (("export", "."), 2, "is a directory"),
    ],
)
def test_what_is_wrong_is_said(arguments, code, said):
    result = keys(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_links_that_lead_to_each_other_are_named(folder):
    (folder / "a.jsonl").symlink_to("b.jsonl")
    (folder / "b.jsonl").symlink_to("a.jsonl")
    result = keys("export", "a.jsonl")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "a.jsonl: Too many levels of symbolic links" in result.stderr
    assert (folder / "a.jsonl").is_symlink()


def test_a_link_is_of_the_demo_key_in_the_folder(folder):
    none = keys("link")
    assert (none.exit_code, none.stdout) == (1, "")
    assert "demo-key does not exist. `soltape up` makes a demo key" in none.stderr
    file = folder / ".soltape" / "demo-key"
    text = at_redis(lambda redis: demo.ensure(redis, file))
    place, _, token = keys("link").stdout.strip().partition("/?token=")
    assert place == "http://127.0.0.1:8000"
    assert at_redis(lambda redis: passes.holder(redis, API_LINK, token)) == parse(text)

    at_redis(lambda redis: register.revoke(redis, parse(text), 1))
    revoked = keys("link")
    at_redis(lambda redis: redis.ask([("FLUSHDB",)]))
    lost = keys("link")
    file.write_text("notes")
    for refused, said in (
        (revoked, "demo-key is revoked: start `soltape up` again"),
        (lost, "demo-key is not known here: start `soltape up` again"),
        (keys("link"), "holds something else than a key"),
    ):
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert said in refused.stderr


def test_usage_is_listed_by_key_and_month():
    text, other = created("--plan", "pro"), created()
    charge(text, times=42)
    charge(other)
    head, *rows = keys("usage").stdout.splitlines()
    assert head.split() == ["id", "key", "month", "credits", "of", "plan", "name"]
    usage_by_key = {row.split()[0]: row.split()[3:6] for row in rows}
    assert usage_by_key == {
        parse(text)[:12]: ["42", "1,000,000", "pro"],
        parse(other)[:12]: ["1", "50,000", "free"],
    }
    month = rows[0].split()[2]
    [line] = keys("usage", parse(text)[:12], "--json", "--month", month).stdout.splitlines()
    assert orjson.loads(line) == {
        "id": parse(text)[:12], "plan": "pro", "month": month, "credits": 42
    }  # fmt: skip
    assert keys("usage", "--month", "2020-01").stderr == "nothing was spent in 2020-01\n"


def test_keys_go_into_another_redis_and_work_there(folder, keys_url, monkeypatch):
    text, gone = created("--plan", "pro"), created()
    charge(text, times=5)
    keys("revoke", "-", stdin=gone)
    before = listed()
    result = keys("export", "keys.jsonl")
    assert result.stderr == "2 keys exported; hashes only, no key can be had from them\n"
    file = folder / "keys.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert keys("export").stdout_bytes == file.read_bytes()
    assert text[8:-4] not in file.read_text()

    monkeypatch.setenv("ACCESS_REDIS_URL", keys_url.removesuffix("1") + "2")
    result = keys("import", "keys.jsonl")
    assert result.stdout == "2 keys added, 0 keys were here already\n"
    assert listed() == before
    assert charge(text).credits_spent == 6
    assert charge(gone) == Refusal("revoked")
    # An older file takes nothing back.
    result = keys("import", "-", stdin=file.read_bytes())
    assert result.stdout == "0 keys added, 2 keys were here already\n"
    assert charge(text).credits_spent == 7


def at_redis(work):
    async def connected():
        connection = register.connect(Settings())
        try:
            return await work(connection)
        finally:
            await connection.aclose()

    return asyncio.run(connected())


ANN = Identity("https://issuer.example.com", "ann", "ann@example.com")


def signed_up(*names):
    """Make a user with keys; return their fingerprint, and the keys."""

    async def work(redis):
        user = await users.enter(redis, ANN, 10)
        return user, [await users.create_key(redis, user, name) for name in names]

    return at_redis(work)


def user_revokes(user, text):
    assert at_redis(lambda redis: users.revoke_key(redis, user, key_id(parse(text))))


def test_users_go_into_another_redis_with_all_that_is_theirs(folder, keys_url, monkeypatch):
    text = created()
    user, (first, second, gone) = signed_up("first", "second", "gone")
    charge(first, times=3)
    charge(second)
    user_revokes(user, gone)
    at_redis(lambda redis: users.set_plan(redis, user, "pro"))
    before = at_redis(lambda redis: users.read(redis, user))
    result = keys("export", "all.jsonl")
    assert result.stderr == (
        "1 key and 1 user exported; hashes only, no key can be had from them\n"
    )
    file = (folder / "all.jsonl").read_bytes()
    for each in (text, first, second, gone):
        assert each[8:-4].encode() not in file

    monkeypatch.setenv("ACCESS_REDIS_URL", keys_url.removesuffix("1") + "2")
    result = keys("import", "all.jsonl")
    assert result.stdout == (
        "1 key added, 0 keys were here already\n"
        "1 user added, 0 users were here already\n3 keys of users added\n"
    )
    assert at_redis(lambda redis: users.read(redis, user)) == before
    assert keys("export").stdout_bytes == file
    granted = charge(first)
    assert (granted.user, granted.plan.name, granted.credits_spent) == (user, "pro", 5)
    assert charge(gone) == Refusal("revoked")
    listed_keys = CliRunner().invoke(cli, ["users", "keys", user[:12]]).stdout
    assert "first" in listed_keys
    assert "gone" not in listed_keys
    # An older file takes nothing back, and brings no key back that was revoked since.
    user_revokes(user, second)
    at_redis(lambda redis: users.set_plan(redis, user, "business"))
    result = keys("import", "-", stdin=file)
    assert "0 users added, 1 user was here already\n" in result.stdout
    assert "0 keys of users added" in result.stdout
    assert charge(second) == Refusal("revoked")
    granted = charge(first)
    assert (granted.plan.name, granted.credits_spent) == ("business", 6)
    names = [USER_KEY.make(tag=tag_of_key(user), fingerprint=parse(second)),
             API_KEY.make(tag=tag_of_key(parse(second)))]  # fmt: skip
    at_redis(lambda redis: redis.ask([("DEL", *names[:1]), ("DEL", *names[1:])]))
    keys("import", "-", stdin=file)
    assert charge(second) == Refusal("unknown")


def test_a_user_who_signed_in_before_the_import_gets_all_back(folder, keys_url):
    user, (first,) = signed_up("first")
    charge(first, times=2)
    at_redis(lambda redis: users.set_plan(redis, user, "pro"))
    file = keys("export").stdout_bytes
    created_ms = at_redis(lambda redis: users.read(redis, user)).created_ms
    with sync_redis.Redis.from_url(keys_url) as client:
        client.flushdb()
    _, (later,) = signed_up("later")
    charge(later)
    result = keys("import", "-", stdin=file)
    assert "0 users added, 1 user was here already\n1 key of users added\n" in result.stdout
    granted = charge(first)
    assert (granted.user, granted.plan.name, granted.credits_spent) == (user, "pro", 3)
    assert charge(later).credits_spent == 4
    assert at_redis(lambda redis: users.read(redis, user)).created_ms == created_ms


def test_all_users_are_exported_each_with_their_keys(folder):
    """A key that works leads to its user for ever, one that was revoked for thirty days."""

    async def bob_signs_up(redis):
        user = await users.enter(redis, Identity(ANN.issuer, "bob", "bob"), 10)
        return user, await users.create_key(redis, user, "bobs")

    ann, (works, gone) = signed_up("works", "gone")
    user_revokes(ann, gone)
    bob, bobs = at_redis(bob_signs_up)
    file = keys("export").stdout_bytes
    lines = [orjson.loads(line) for line in file.splitlines()]
    assert {each["user"]: {key["name"] for key in each["keys"]} for each in lines} == {
        ann: {"works", "gone"},
        bob: {"bobs"},
    }
    at_redis(lambda redis: redis.ask([("FLUSHDB",)]))
    assert "3 keys of users added" in keys("import", "-", stdin=file).stdout
    assert (charge(works).user, charge(bobs).user) == (ann, bob)
    pointers = [API_KEY.make(tag=tag_of_key(parse(text))) for text in (works, bobs, gone)]
    left_s = at_redis(lambda redis: redis.ask([("TTL", each) for each in pointers]))
    assert left_s[:2] == [-1, -1]
    assert 29 * 86_400 < left_s[2] <= users.REVOKED_KEPT_S


def line_of(name, *texts, **changed):
    """Return a line of a user with keys that no export would write."""
    identity = Identity("https://issuer.example.com", name, name)
    of_keys = [
        {"fingerprint": parse(text), "name": "x", "last4": text[-4:], "created_ms": 5,
         "last_used_ms": None, "revoked_ms": None}
        for text in texts
    ]  # fmt: skip
    fields = {"user": identity.fingerprint, "name": name, "plan": "free",
              "issuer": identity.issuer, "subject": name, "created_ms": 1, "signed_in_ms": 1,
              "suspended_ms": None, "credits": {}, "keys": of_keys}  # fmt: skip
    return orjson.dumps(fields | changed) + b"\n"


def test_a_file_takes_no_key_from_an_operator_or_another_user(folder):
    text = created("--plan", "enterprise")
    user, (anns,) = signed_up("first")
    result = keys("import", "-", stdin=line_of("bob", text, anns))
    assert "1 user added" in result.stdout
    assert result.stderr == "2 keys of users not added: of somebody else here\n"
    granted = charge(text)
    assert (granted.user, granted.plan.name) == (None, "enterprise")
    assert charge(anns).user == user
    bob = Identity("https://issuer.example.com", "bob", "bob").fingerprint
    assert at_redis(lambda redis: users.read_keys(redis, bob)) == []


def test_a_file_makes_no_operators_key_of_a_user_or_of_a_key_of_theirs(folder):
    user, (anns,) = signed_up("first")
    line = {"fingerprint": "", "name": "x", "plan": "enterprise", "owner": "", "last4": "abcd",
            "created_ms": 1, "last_used_ms": None, "revoked_ms": 1, "credits": {}}  # fmt: skip
    for fingerprint in (user, parse(anns)):
        result = keys("import", "-", stdin=orjson.dumps(line | {"fingerprint": fingerprint}))
        assert result.exit_code == 1
        assert "is a user, or a user's key, here" in result.stderr
    assert charge(anns).plan.name == "free"
    assert at_redis(lambda redis: Charges(redis).look(user)) is None
    assert listed() == []


def test_a_user_with_revoked_keys_here_and_in_a_file_can_be_exported_again(folder, keys_url):
    def revoked():
        for _ in range(users.REVOKED):
            user, (text,) = signed_up("gone")
            user_revokes(user, text)
        return text

    revoked()
    file = keys("export").stdout_bytes
    with sync_redis.Redis.from_url(keys_url) as client:
        client.flushdb()
    last = revoked()
    assert keys("import", "-", stdin=file).exit_code == 0
    [line] = keys("export").stdout_bytes.splitlines()
    kept = {each["fingerprint"] for each in orjson.loads(line)["keys"]}
    assert (len(kept), parse(last) in kept) == (users.REVOKED, True)
    assert keys("import", "-", stdin=line).exit_code == 0
    with sync_redis.Redis.from_url(keys_url) as client:
        left = {*client.scan_iter(API_KEY.make(tag="{*}"), 1_000)}
    assert len(left) == 1 + users.REVOKED  # the user's own, and one of each key


def test_a_suspension_in_a_file_ends_sessions_that_began_since(folder, keys_url):
    user, _ = signed_up()
    at_redis(lambda redis: users.suspend(redis, user))
    file = keys("export").stdout_bytes
    with sync_redis.Redis.from_url(keys_url) as client:
        client.flushdb()
        signed_up()
        name = USER_SESSIONS.make(tag=tag_of_key(user))
        client.zadd(name, {"digest": 1 << 50})
        assert keys("import", "-", stdin=file).exit_code == 0
        assert not client.exists(name)
    assert at_redis(lambda redis: Charges(redis).look(user)) == Refusal("suspended")


def test_a_suspension_that_redis_lost_alone_is_named(folder):
    """A backup of Redis may be older than the file: nobody knows if the user was resumed since."""
    user, _ = signed_up()
    at_redis(lambda redis: users.suspend(redis, user))
    file = keys("export").stdout_bytes
    assert keys("import", "-", stdin=file).stderr == ""
    at_redis(lambda redis: users.resume(redis, user))
    said = f"suspended in the file, and not here: {user[:12]}; unless"
    assert said in keys("import", "-", stdin=file).stderr


def test_a_user_without_times_in_a_file_can_be_listed(folder):
    keys("import", "-", stdin=line_of("bob", created_ms=0, signed_in_ms=0))
    result = CliRunner().invoke(cli, ["users", "list"])
    assert (result.exit_code, "bob" in result.stdout) == (0, True)


def test_users_that_redis_lost_are_not_lost_from_a_file(folder, keys_url):
    signed_up("first")
    assert keys("export", "all.jsonl").exit_code == 0
    with sync_redis.Redis.from_url(keys_url) as client:
        client.flushdb()
    refused = keys("export", "all.jsonl")
    assert (refused.exit_code, "has 1 user that Redis at" in refused.stderr) == (1, True)


def test_a_file_with_a_line_that_is_not_ours_is_refused_whole(folder):
    created()
    lines = keys("export").stdout_bytes
    (folder / "bad.jsonl").write_bytes(lines + b'{"fingerprint": "x"}\n' + lines + b"[1\n")
    with sync_redis.Redis.from_url(Settings().access_redis_url) as client:
        client.flushdb()
    result = keys("import", "bad.jsonl")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "bad.jsonl: line 2: fingerprint: " in result.stderr
    assert "bad.jsonl: line 4: no JSON" in result.stderr
    assert result.stderr.endswith("Error: nothing was imported\n")
    assert listed() == []
    (folder / "worse").write_bytes(b"x\n" * 1000)
    result = keys("import", "worse")
    assert len(result.stderr.splitlines()) == 12
    assert "worse: and 990 more" in result.stderr


def test_an_export_that_fails_leaves_the_file_before(folder):
    created()
    assert keys("export", "keys.jsonl").exit_code == 0
    before = (folder / "keys.jsonl").read_bytes()
    (folder / "keys.jsonl.new").mkdir()
    result = keys("export", "keys.jsonl")
    assert (result.exit_code, "Is a directory" in result.stderr) == (1, True)
    assert (folder / "keys.jsonl").read_bytes() == before


def test_an_export_goes_where_a_link_or_a_pipe_leads(folder):
    created()
    (folder / "elsewhere").mkdir()
    (folder / "keys.jsonl").symlink_to("elsewhere/backup.jsonl")
    for _ in range(2):
        assert keys("export", "keys.jsonl").exit_code == 0
    assert (folder / "keys.jsonl").is_symlink()
    lines = (folder / "elsewhere" / "backup.jsonl").read_bytes()
    assert len(lines.splitlines()) == 1

    pipe = folder / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert keys("export", "pipe").exit_code == 0
        assert os.read(reader, 4_096) == lines
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_an_export_does_not_replace_keys_that_redis_has_not(folder, keys_url):
    for _ in range(3):
        created()
    assert keys("export", "keys.jsonl").exit_code == 0
    file = folder / "keys.jsonl"
    before = file.read_bytes()
    with sync_redis.Redis.from_url(keys_url) as client:
        client.flushdb()
    created()
    result = keys("export", "keys.jsonl")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "keys.jsonl has 3 keys that Redis at redis://127.0.0.1:" in result.stderr
    assert "--force" in result.stderr
    assert file.read_bytes() == before
    assert [*folder.iterdir()] == [file]
    assert len(keys("export").stdout.splitlines()) == 1  # to stdout nothing is lost

    assert keys("import", "keys.jsonl").exit_code == 0
    result = keys("export", "keys.jsonl")
    assert result.stderr.startswith("4 keys exported")
    assert len(file.read_bytes().splitlines()) == 4

    with sync_redis.Redis.from_url(keys_url) as client:
        client.flushdb()
    result = keys("export", "--force", "keys.jsonl")
    assert (result.exit_code, file.read_bytes()) == (0, b"")


def test_an_export_does_not_replace_what_is_no_export(folder):
    created()
    assert keys("export", "keys.jsonl").exit_code == 0
    file = folder / "keys.jsonl"
    file.write_bytes(file.read_bytes() + b'{"fingerprint": "01\n01')  # copied in part
    result = keys("export", "keys.jsonl")
    assert (result.exit_code, "no export of keys (line 2: " in result.stderr) == (1, True)
    assert file.read_bytes().endswith(b"01\n01")
    assert keys("export", "keys.jsonl", "--force").exit_code == 0
    assert len(file.read_bytes().splitlines()) == 1


def test_where_nothing_says_where_the_keys_are_a_warning_does(folder, keys_url, monkeypatch):
    there, connect = Settings(), register.connect  # nobody's Redis at the default address
    monkeypatch.setattr(register, "connect", lambda _, **options: connect(there, **options))
    monkeypatch.delenv("ACCESS_REDIS_URL")
    said = "Neither ACCESS_REDIS_URL nor REDIS_URL is set"
    (folder / "none.jsonl").write_bytes(b"")
    for arguments in (["create", "--name", "x"], ["list"], ["export"], ["import", "none.jsonl"]):
        result = keys(*arguments)
        assert result.exit_code == 0, result.stderr
        assert result.stderr.count(said) == 1
        assert "this is Redis at redis://127.0.0.1:6379 (database 0)." in result.stderr
        assert said not in result.stdout
    (folder / ".env").write_text("REDIS_URL=\n")
    assert said in keys("list").stderr
    (folder / ".env").write_text(f"REDIS_URL={keys_url}\n")
    assert said not in keys("list").stderr
    (folder / ".env").unlink()
    monkeypatch.setenv("ACCESS_REDIS_URL", keys_url)
    assert said not in keys("list").stderr


def test_beside_a_stack_its_keys_are_found_without_a_warning(folder, keys_url, monkeypatch):
    monkeypatch.delenv("ACCESS_REDIS_URL")
    data = folder / ".soltape"
    data.mkdir()
    with running.hold(data):
        running.publish(data, {"REDIS_URL": f"{keys_url}0", "ACCESS_REDIS_URL": keys_url})
        result = keys("create", "--name", "x")
    assert result.exit_code == 0, result.stderr
    assert "is set" not in result.stderr
    assert "(database 1) has it" in result.stderr


def test_without_redis_it_is_said_where_and_what_to_do(monkeypatch):
    monkeypatch.setenv("ACCESS_REDIS_URL", f"redis://me:s3cret@127.0.0.1:{free_port()}")
    for arguments in (["list"], ["create", "--name", "x"], ["revoke", "0" * 12], ["export"]):
        result = keys(*arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "redis://127.0.0.1:" in result.stderr
        assert "(database 0)" in result.stderr
        assert "set ACCESS_REDIS_URL or REDIS_URL" in result.stderr
        assert "s3cret" not in result.stderr


@pytest.mark.parametrize(
    ("options", "doubts"),
    [
        (("--appendfsync", "always"), []),
        (("--appendfsync", "no"), ["its append-only file was not on disk within 2 s"]),
        (("--appendonly", "no", "--save", ""), ["it keeps nothing on disk: all keys are lost"]),
        (("--appendonly", "no", "--save", "3600 1"), ["it keeps snapshots only (save 3600 1)"]),
        (("--maxmemory-policy", "allkeys-lru"), ["it forgets keys as it likes"]),
        (("--maxmemory-policy", "volatile-lru"), []),
        (
            ("--appendonly", "no", "--rename-command", "CONFIG", ""),
            ["it keeps no append-only file"],
        ),
        (("--rename-command", "INFO", ""), ["it does not say whether it keeps anything"]),
        (
            ("--rename-command", "INFO", "", "--rename-command", "ECHO", "INFO"),  # with less in it
            ["it does not say whether it keeps anything"],
        ),
        (("--rename-command", "WAITAOF", ""), []),
    ],
)
def test_a_redis_that_may_lose_keys_gets_a_warning(folder, monkeypatch, options, doubts):
    process = valkey(folder / "redis", "127.0.0.1", free_port())
    child = subprocess.Popen(bound([*process.command, *options]), stdout=subprocess.DEVNULL)
    try:
        monkeypatch.setenv("ACCESS_REDIS_URL", process.address)
        with sync_redis.Redis.from_url(process.address) as client:
            until_it_answers(client)
        result = keys("create", "--name", "x")
        assert result.exit_code == 0, result.stderr
        assert TEXT.fullmatch(result.stdout.strip())
        for doubt in doubts:
            assert doubt in result.stderr
        assert ("soltape keys export" in result.stderr) == bool(doubts)
        assert ("has it in its append-only file" in result.stderr) == (not doubts)
    finally:
        child.kill()
        child.wait()


def until_it_answers(client):
    without_error(client.ping, sync_redis.RedisError)


def test_every_command_teaches():
    for command in ([], ["create"], ["list"], ["revoke"], ["usage"], ["export"], ["import"]):
        result = keys(*command, "--help")
        assert result.exit_code == 0
        assert len(result.stdout.splitlines()) > 5
    plans = keys("create", "--help").stdout
    assert "[default: free]" in plans
    assert re.search(r"business +\$799 +20,000,000 +2,000 +5\n", plans)


def test_it_is_on_the_command_line():
    command = [sys.executable, "-m", "infra.cli", "keys", "create", "--name", "from a script"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert TEXT.fullmatch(done.stdout.strip())
    assert done.stdout.strip() != new()
    assert isinstance(charge(done.stdout.strip()), Grant)
