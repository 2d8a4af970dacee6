"""Sessions of users in a real Valkey: what their cookies say, and when they end."""

from __future__ import annotations

import asyncio
from http.cookies import SimpleCookie

import pytest
from starlette.responses import Response

from api.access import user_sessions, users
from api.access.charge import Charges
from api.access.failures import FAILURES, Failures
from api.access.grants import Grant
from api.access.keys import key_id, parse
from api.access.sessions import ticket
from api.access.user_sessions import SIGN_INS, UserSessions
from api.access.users import Identity
from api.mcp import sessions as mcp_sessions
from api.signin import pending
from schemas.redis_keys import USER_KEYS_MADE, USER_SESSIONS, USER_SIGN_INS, tag_of_key
from stream_gateway.admission import Admission, Refusal
from tests.support.waiting import eventually_async

ANN = Identity("https://issuer.example.com", "ann", "ann@example.com")
SECURE = "https://soltape.example.com"
LOCAL = "http://127.0.0.1:8000"
ADDRESS = "192.0.2.1"


@pytest.fixture
async def user(redis):
    return await users.enter(redis, ANN, 10)


async def begun(sessions, user):
    response = Response()
    assert await sessions.begin(user, pending.begin().name, response) is None
    [cookie] = SimpleCookie(response.headers["set-cookie"]).values()
    return cookie


def sent(cookie, name=None):
    return [(b"cookie", f"{name or cookie.key}={cookie.value}".encode())]


async def test_behind_https_a_cookie_is_of_this_host_alone(redis, user):
    cookie = await begun(UserSessions(redis, SECURE, Failures()), user)
    assert cookie.key.startswith("__Host-")
    assert (cookie["secure"], cookie["httponly"], cookie["samesite"]) == (True, True, "strict")
    assert (cookie["path"], cookie["domain"]) == ("/", "")
    assert cookie["max-age"] == str(7 * 86_400)
    plain = await begun(UserSessions(redis, LOCAL, Failures()), user)
    assert (plain.key.startswith("__Host-"), plain["secure"]) == (False, "")


async def test_two_services_of_one_machine_have_two_names(redis, user):
    cookie = await begun(UserSessions(redis, LOCAL, Failures()), user)
    other = UserSessions(redis, "http://127.0.0.1:8001", Failures())
    assert cookie.key != other.cookie
    assert await other.of(sent(cookie), ADDRESS) is None


async def test_a_session_is_known_to_every_process_until_it_ends(redis, user):
    cookie = await begun(UserSessions(redis, SECURE, Failures()), user)
    other = UserSessions(redis, SECURE, Failures())
    session = await other.of(sent(cookie), ADDRESS)
    assert session is not None
    assert session.user == user
    assert session.secret not in f"{session.csrf} {session.digest}"
    assert session.has_sent(session.csrf)
    assert not session.has_sent("")
    assert not session.has_sent("\udcff")
    assert await other.holder(sent(cookie), ADDRESS) == user
    await other.end(session.user, session.digest)
    assert await other.of(sent(cookie), ADDRESS) is None
    assert await other.holder(sent(cookie), ADDRESS) is None


@pytest.mark.parametrize("over", [(0,), (1, 4), (0, 2, 4), ()])
async def test_of_many_sessions_those_that_are_over_are_found_wherever_they_are(
    redis, user, monkeypatch, over
):
    monkeypatch.setattr(user_sessions, "LOOKS_AT_ONCE", 2)
    sessions = UserSessions(redis, SECURE, Failures())
    digests = [sessions.named(sent(await begun(sessions, user))).digest for _ in range(5)]
    for number in over:
        await sessions.end(user, digests[number])
    found = await user_sessions.ended(redis, [(user, digest) for digest in digests])
    assert found == {(user, digests[number]) for number in over}


async def test_a_user_has_ten_sessions_and_a_further_one_ends_the_oldest(redis, user):
    sessions = UserSessions(redis, SECURE, Failures())
    oldest = await begun(sessions, user)
    mine = [await begun(sessions, user) for _ in range(9)]
    name = USER_SESSIONS.make(tag=tag_of_key(user))
    digest = sessions.named(sent(oldest)).digest
    await redis.ask([("ZINCRBY", name, -1, digest)])  # all may begin in one millisecond
    found = [await sessions.holder(sent(each), ADDRESS) for each in (oldest, *mine)]
    assert found == [user] * 10
    mine.append(await begun(sessions, user))
    assert await sessions.holder(sent(oldest), ADDRESS) is None
    assert [await sessions.holder(sent(each), ADDRESS) for each in mine] == [user] * 10


async def test_a_suspended_user_begins_no_session(redis, user):
    sessions = UserSessions(redis, SECURE, Failures())
    cookie = await begun(sessions, user)
    await users.suspend(redis, user)
    assert await sessions.of(sent(cookie), ADDRESS) is None
    response = Response()
    assert await sessions.begin(user, "a", response) == "suspended"
    assert "set-cookie" not in response.headers
    assert await sessions.begin("0" * 64, "a", Response()) == "suspended"  # nobody
    await users.resume(redis, user)
    assert await sessions.of(sent(cookie), ADDRESS) is None
    assert await begun(sessions, user)


async def test_a_sign_in_begins_one_session(redis, user):
    """However often it is finished, at whatever process, at once or later."""
    many = [UserSessions(redis, SECURE, Failures()) for _ in range(4)]
    outcomes = await asyncio.gather(*(each.begin(user, "a", Response()) for each in many * 3))
    assert sorted(map(str, outcomes)) == ["None"] + ["finished"] * 11
    assert await many[0].begin(user, "b", Response()) is None
    names = [kind.make(tag=tag_of_key(user)) for kind in (USER_SESSIONS, USER_SIGN_INS)]
    assert await redis.ask([("ZCARD", each) for each in names]) == [2, 2]


async def test_sign_ins_of_a_user_are_bounded_and_forgotten(redis, user):
    sessions = UserSessions(redis, SECURE, Failures())
    for number in range(SIGN_INS):
        assert await sessions.begin(user, str(number), Response()) is None
    assert await sessions.begin(user, "more", Response()) == "often"
    bob = await users.enter(redis, Identity(ANN.issuer, "bob", "bob"), 10)
    assert await sessions.begin(bob, "of bob", Response()) is None
    noted = USER_SIGN_INS.make(tag=tag_of_key(user))
    [left_ms] = await redis.ask([("PTTL", noted)])
    assert 2 * pending.WITHIN_S * 1000 - 60_000 < left_ms <= (USER_SIGN_INS.ttl_s or 0) * 1000
    await redis.ask([("ZADD", noted, 1, "0")])  # its time is over
    assert await sessions.begin(user, "more", Response()) is None


async def test_a_user_is_an_issuer_and_a_subject_together(redis):
    same = Identity(ANN.issuer, ANN.subject, "another name")
    others = [
        Identity("https://other.example.com", ANN.subject, ANN.name),
        Identity(ANN.issuer, "Ann", ANN.name),
        Identity(f"{ANN.issuer}/", ANN.subject, ANN.name),
        Identity('https://issuer.example.com","ann', "", ANN.name),
    ]
    found = [await users.enter(redis, each, 10) for each in (ANN, same, *others)]
    assert found[0] == found[1]
    assert len(set(found)) == len(others) + 1
    user = await users.read(redis, found[0])
    assert user is not None
    assert (user.name, user.plan) == ("another name", "free")


async def test_records_of_revoked_keys_are_bounded_and_what_they_spent_stays(redis, user, charges):
    """Else keys that are made and revoked every day are kept for thirty of them."""
    tag = tag_of_key(user)
    made = []
    for number in range(users.REVOKED + 5):
        if not number % users.KEYS_A_DAY:
            await redis.ask([("DEL", USER_KEYS_MADE.make(tag=tag))])  # another day
        made.append(parse(await users.create_key(redis, user, f"k{number}")))
        assert isinstance(await charges.request(made[-1], 1), Grant)
        assert await users.revoke_key(redis, user, key_id(made[-1]))
    working = parse(await users.create_key(redis, user, "works"))
    outcomes = [(await charges.request(each, 1)).outcome for each in made]
    assert sorted(outcomes) == ["revoked"] * users.REVOKED + ["unknown"] * 5
    assert "unknown" not in outcomes[10:]  # of those revoked in one millisecond any may be older
    assert isinstance(await charges.request(working, 1), Grant)
    [records] = await redis.ask([("KEYS", f"access:{tag}:key:*")])
    assert len(records) == users.REVOKED + 1
    [pointers] = await redis.ask([("KEYS", "access:{*}")])
    assert len(pointers) == users.REVOKED + 2  # the user, too
    found = await users.read(redis, user)
    assert found is not None
    assert sum(found.credits.values()) == len(made) + 1
    await charges.aclose()


async def test_a_plan_outlives_a_sign_in(redis, user):
    await users.set_plan(redis, user, "business")
    await users.enter(redis, ANN, 10)
    found = await users.read(redis, user)
    assert found is not None
    assert found.plan == "business"


async def test_an_unknown_user_is_not_changed(redis, make):
    key = await make.fingerprint()
    for fingerprint in ("0" * 64, key):
        await users.suspend(redis, fingerprint)
        await users.set_plan(redis, fingerprint, "enterprise")
    assert await users.read(redis, "0" * 64) is None
    assert await users.read(redis, key) is None
    assert await users.read_all(redis) == []


async def test_of_too_many_users_those_who_are_known_come_in(redis, user):
    bob = Identity(ANN.issuer, "bob", "bob")
    with pytest.raises(users.Refused, match="no new accounts"):
        await users.enter(redis, bob, 1)
    assert await users.enter(redis, ANN, 1) == user
    assert [each.subject for each in await users.read_all(redis)] == ["ann"]
    assert await users.enter(redis, bob, 2) == bob.fingerprint


async def test_nobody_comes_in_while_a_place_is_taken_back(redis, user):
    """Two sign-ins of one new user at once, where there is no room for another."""
    bob = Identity(ANN.issuer, "bob", "bob")

    class Meanwhile:
        came = False

        async def ask(self, commands):
            answers = await redis.ask(commands)
            if not self.came:
                self.came = True
                with pytest.raises(users.Refused, match="no new accounts"):
                    await users.enter(redis, bob, 1)
            return answers

    with pytest.raises(users.Refused, match="no new accounts"):
        await users.enter(Meanwhile(), bob, 1)
    assert await users.read(redis, bob.fingerprint) is None


async def test_a_websocket_ends_with_its_session(redis, user):
    sessions = UserSessions(redis, SECURE, Failures())
    mine, other = [await sessions.of(sent(await begun(sessions, user)), ADDRESS) for _ in range(2)]
    await users.set_plan(redis, user, "business")
    ended = []
    gateway = Admission(redis, ended.append, ended.append)
    tickets = [await ticket(redis, user, each.digest) for each in (mine, other, mine)]
    inside, elsewhere = [await gateway.admit(text) for text in tickets[:2]]
    by_key = await gateway.admit(await users.create_key(redis, user, "first"))
    await gateway.look()
    assert ended == []
    await sessions.end(user, mine.digest)
    with pytest.raises(Refusal) as refusal:
        await gateway.admit(tickets[2])
    assert refusal.value.code == "session_missing"
    await gateway.look()
    assert ended == [inside]
    await users.suspend(redis, user)
    await gateway.look()
    assert ended[1:] == [elsewhere, by_key]
    await gateway.aclose()


async def test_the_gateway_says_that_a_user_is_suspended_of_keys_and_sessions(redis, user):
    sessions = UserSessions(redis, SECURE, Failures())
    session = await sessions.of(sent(await begun(sessions, user)), ADDRESS)
    await users.set_plan(redis, user, "business")
    revoked, suspended = [], []
    gateway = Admission(redis, revoked.append, revoked.append, suspended.append)
    key = await users.create_key(redis, user, "first")
    inside = [
        await gateway.admit(text) for text in (key, await ticket(redis, user, session.digest))
    ]
    late = await ticket(redis, user, session.digest)
    await users.suspend(redis, user)
    for text in (key, late):
        with pytest.raises(Refusal) as refusal:
            await gateway.admit(text)
        assert (refusal.value.status, refusal.value.code) == (403, "user_suspended")
    await gateway.look()
    await gateway.look()
    assert (revoked, suspended) == ([], inside)
    await gateway.aclose()


async def test_a_suspended_user_is_not_looked_up_at_each_request(redis, user):
    """At the gateway as at the API: an address has so many refused keys a minute."""
    gateway = Admission(redis, lambda _: None, lambda _: None)
    text = await users.create_key(redis, user, "first")
    await users.suspend(redis, user)
    codes = []
    for _ in range(FAILURES + 1):
        with pytest.raises(Refusal) as refusal:
            await gateway.admit(text, ADDRESS)
        codes.append(refusal.value.code)
    assert codes == ["user_suspended"] * FAILURES + ["too_many_failures"]


async def test_of_many_new_users_at_once_there_are_no_more_than_there_is_room_for(redis):
    many = [Identity(ANN.issuer, f"user {number}", "name") for number in range(20)]
    came = await asyncio.gather(
        *(users.enter(redis, each, 5) for each in many for _ in range(2)), return_exceptions=True
    )
    inside = {each for each in came if isinstance(each, str)}
    assert len(inside) == 5
    assert {each.fingerprint for each in await users.read_all(redis)} == inside


async def test_a_stream_of_mcp_lasts_no_longer_than_the_session_that_opened_it(
    redis, settings, user, monkeypatch
):
    """Signed out, or over by its time; those of another browser and of a key go on."""
    monkeypatch.setattr(mcp_sessions, "LOOK_EVERY_S", 0.01)
    of_users = UserSessions(redis, SECURE, Failures())
    browsers = [await of_users.of(sent(await begun(of_users, user)), ADDRESS) for _ in range(3)]
    key = parse(await users.create_key(redis, user, "first"))
    streams = mcp_sessions.Sessions(settings, redis)
    left, over, stays = [await streams.open(user, user, each.digest) for each in browsers]
    of_key = await streams.open(key, user)
    watching = asyncio.create_task(streams.watch(Charges(redis).refused))
    try:
        await of_users.end(user, left.browser)
        await eventually_async(lambda: left.is_ended)
        name = USER_SESSIONS.make(tag=tag_of_key(user))
        await redis.ask([("ZADD", name, "XX", 1, over.browser)])
        await eventually_async(lambda: over.is_ended)
        assert (stays.is_ended, of_key.is_ended, streams.count) == (False, False, 2)
        await users.suspend(redis, user)
        await eventually_async(lambda: stays.is_ended and of_key.is_ended)
    finally:
        watching.cancel()
