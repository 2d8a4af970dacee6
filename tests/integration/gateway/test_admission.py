"""Who may connect, in a real Valkey: exact for however many gateways ask at once."""

import asyncio
import json
import re
import subprocess
import sys
import time
from secrets import token_urlsafe

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from api.access import register, sessions
from api.access.failures import FAILURES
from api.access.keys import Record, new, parse
from infra.local.process import free_port
from infra.redis.embedded import valkey
from infra.settings import Settings
from schemas.plans import PLANS
from schemas.redis_keys import API_KEY, API_KEY_CONNECTIONS, CONNECTION_LEASE_S, tag_of_key
from stream_gateway.admission import TICKETS_A_MINUTE, Admission, Refusal
from tests.support.systems import Mortal, bound, saved
from tests.support.waiting import without_error_async


class Server(Mortal):
    """A Valkey with the keys, which a test may kill."""

    def __init__(self, folder):
        super().__init__(valkey(folder, "127.0.0.1", free_port()))
        self.settings = Settings(_env_file=None, access_redis_url=self.process.address)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("admission"))
    asyncio.run(server.start())
    yield server
    server.kill()


@pytest.fixture
async def redis(server):
    connection = register.connect(server.settings)
    await connection.ask([("FLUSHALL",)])
    yield connection
    await connection.aclose()


async def made(redis, plan="business", **facts):
    text = new()
    record = Record(parse(text), "test", plan, "", text[-4:], 1, **facts)
    assert await register.put(redis, record)
    return text


async def give(redis, text, plan):
    await redis.ask([("HSET", API_KEY.make(tag=tag_of_key(parse(text))), "plan", plan)])


def leases_key(text):
    return API_KEY_CONNECTIONS.make(tag=tag_of_key(parse(text)))


async def leases(redis, text):
    [found] = await redis.ask([("ZRANGE", leases_key(text), 0, -1)])
    return {each.decode() for each in found}


def admission(redis, revoked=None, replanned=None):
    ended = ([] if each is None else each for each in (revoked, replanned))
    return Admission(redis, *(each.append for each in ended))


async def test_a_key_lets_in_as_many_as_its_plan_has_and_one_that_left_makes_room(redis):
    text = await made(redis)
    one, other = admission(redis), admission(redis)
    inside = [await each.admit(text) for each in (one, other, one, other, one)]
    assert {each.plan for each in inside} == {PLANS["business"]}
    assert {each.key_id for each in inside} == {parse(text)[:12]}
    assert await leases(redis, text) == {each.lease_id for each in inside}
    for each in (one, other):
        with pytest.raises(Refusal, match=r"5 connections at once are in the plan business") as no:
            await each.admit(text)
        assert (no.value.status, no.value.code) == (429, "too_many_connections")
        assert int(no.value.headers["Retry-After"]) > 0
    await other.release(inside[1])
    await one.admit(text)
    with pytest.raises(Refusal):
        await other.admit(text)


async def test_one_key_does_not_touch_another(redis):
    mine, others = await made(redis, "pro"), await made(redis, "pro")
    doors = admission(redis)
    await doors.admit(mine)
    with pytest.raises(Refusal, match="1 connection at once is in the plan pro"):
        await doors.admit(mine)
    await doors.admit(others)


async def commands(redis):
    """Scripts that Redis ran so far."""
    [text] = await redis.ask([("INFO", "commandstats")])
    found = re.findall(rb"cmdstat_(?:evalsha|eval|getdel):calls=([0-9]+)", text)
    return sum(map(int, found))


async def test_guesses_of_an_address_are_not_looked_at_and_others_come_in(redis):
    text = await made(redis, "enterprise")
    doors = admission(redis)
    await doors.admit(text, "203.0.113.9")
    for guess in (new() for _ in range(FAILURES)):
        with pytest.raises(Refusal) as refusal:
            await doors.admit(guess, "203.0.113.9")
        assert refusal.value.status == 401
    before = await commands(redis)
    for guess in (new() for _ in range(200)):
        with pytest.raises(Refusal) as refusal:
            await doors.admit(guess, "203.0.113.9")
        assert (refusal.value.status, refusal.value.code) == (429, "too_many_failures")
    assert await commands(redis) == before
    await doors.admit(text, "203.0.113.9")
    await doors.admit(text, "203.0.113.10")


def guessed():
    return f"ticket_{token_urlsafe(32)}"


async def refusal_of(doors, text, address):
    with pytest.raises(Refusal) as refusal:
        await doors.admit(text, address)
    return refusal.value.code


async def test_a_bad_key_bars_no_ticket_behind_the_same_address(redis):
    text = await made(redis, "enterprise")
    doors = admission(redis)
    bad = new()
    codes = [await refusal_of(doors, bad, "203.0.113.9") for _ in range(FAILURES + 1)]
    assert codes[-1] == "too_many_failures"
    for _ in range(3):
        await doors.admit(await sessions.ticket(redis, parse(text)), "203.0.113.9")
    await register.revoke(redis, parse(text), 1)
    used = await sessions.ticket(redis, parse(text))
    assert await refusal_of(doors, used, "203.0.113.9") == "key_revoked"
    assert await refusal_of(doors, used, "203.0.113.9") == "key_malformed"


async def test_guessed_tickets_are_bounded_and_bar_no_key_and_no_good_ticket_before(redis):
    text = await made(redis, "enterprise")
    doors = admission(redis)
    for number in range(TICKETS_A_MINUTE):
        if number % 100 == 0:  # good ones do not count
            await doors.admit(await sessions.ticket(redis, parse(text)), "2001:db8::1")
        assert await refusal_of(doors, guessed(), f"2001:db8::{number:x}") == "key_malformed"
    before = await commands(redis)
    for _ in range(20):
        assert await refusal_of(doors, guessed(), "2001:db8::2") == "too_many_failures"
        assert await refusal_of(doors, "ticket_no", "2001:db8::2") == "key_malformed"
    assert await commands(redis) == before
    await doors.admit(await made(redis), "2001:db8::2")  # a key is no ticket
    await doors.admit(await sessions.ticket(redis, parse(text)), "2001:db8:0:1::2")


async def test_a_ticket_that_is_retried_costs_no_look_and_bars_no_other(redis):
    text = await made(redis, "enterprise")
    doors = admission(redis)
    spent = await sessions.ticket(redis, parse(text))
    await doors.admit(spent, "203.0.113.9")
    made_up = guessed()
    assert await refusal_of(doors, made_up, "203.0.113.9") == "key_malformed"
    before = await commands(redis)
    for retried in (spent, made_up):
        for _ in range(TICKETS_A_MINUTE + 1):
            assert await refusal_of(doors, retried, "203.0.113.9") == "key_malformed"
    assert await commands(redis) == before
    await doors.admit(await sessions.ticket(redis, parse(text)), "203.0.113.9")


async def test_handshakes_that_time_out_use_up_no_tickets_of_their_address(redis):
    text = await made(redis, "enterprise")

    class Silent:
        """Redis, once it answers again."""

        is_silent = True

        async def ask(self, commands):
            if self.is_silent:
                await asyncio.Event().wait()
            return await redis.ask(commands)

    silent = Silent()
    doors = admission(silent)

    async def enters():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await doors.admit(guessed(), "203.0.113.9")

    await asyncio.gather(*(enters() for _ in range(TICKETS_A_MINUTE)))
    silent.is_silent = False
    await doors.admit(await sessions.ticket(redis, parse(text)), "203.0.113.9")


async def test_a_plan_without_limit_has_none_and_is_counted_all_the_same(redis):
    text = await made(redis, "enterprise")
    doors = admission(redis)
    inside = await asyncio.gather(*(doors.admit(text) for _ in range(2_500)))
    assert len(await leases(redis, text)) == 2_500
    await redis.ask([("ZREM", leases_key(text), *(each.lease_id for each in inside[:2_400]))])
    await doors.look()
    assert await leases(redis, text) == {each.lease_id for each in inside}
    await doors.aclose()
    assert await leases(redis, text) == set()


@pytest.mark.parametrize(
    ("facts", "status", "code"),
    [
        ({"plan": "free", "revoked_ms": 5}, 403, "key_revoked"),
        ({"plan": "platinum"}, 403, "not_in_plan"),
    ],
)
async def test_a_key_that_may_not_is_refused_and_leaves_nothing(redis, facts, status, code):
    text = await made(redis, **facts)
    with pytest.raises(Refusal) as refusal:
        await admission(redis).admit(text)
    assert (refusal.value.status, refusal.value.code) == (status, code)
    assert await leases(redis, text) == set()
    assert (await register.read(redis, parse(text))).last_used_ms is None


@pytest.mark.parametrize(
    ("text", "code"),
    [(None, "key_missing"), ("", "key_missing"), ("secret", "key_malformed")],
)
async def test_what_is_no_key_is_refused_without_asking_redis(text, code):
    class Nobody:
        async def ask(self, commands):
            raise AssertionError(commands)

    with pytest.raises(Refusal) as refused:
        await admission(Nobody()).admit(text)
    refusal = refused.value
    assert (refusal.status, refusal.code) == (401, code)
    assert refusal.headers["WWW-Authenticate"].startswith("ApiKey ")
    body = json.loads(refusal.body("1-a", "/ws"))
    assert body.keys() == {"type", "title", "status", "detail", "instance", "code", "request_id"}
    assert body["instance"] == "/ws"
    assert "secret" not in str(body)


async def test_a_ticket_lets_one_connection_of_its_key_in(redis):
    text = await made(redis, "pro")
    ticket = await sessions.ticket(redis, parse(text))
    doors = admission(redis)
    inside = await doors.admit(ticket)
    assert (inside.holder.fingerprint, inside.plan.name) == (parse(text), "pro")
    for used in (ticket, "ticket_", "ticket_" + "A" * 43):
        with pytest.raises(Refusal, match="The ticket was used before") as refusal:
            await doors.admit(used)
        assert (refusal.value.status, refusal.value.code) == (401, "key_malformed")
    second = await sessions.ticket(redis, parse(text))
    with pytest.raises(Refusal, match="1 connection at once"):
        await doors.admit(second)
    await register.revoke(redis, parse(text), 1)
    third = await sessions.ticket(redis, parse(text))
    with pytest.raises(Refusal) as refusal:
        await doors.admit(third)
    assert refusal.value.code == "key_revoked"


async def test_a_key_that_was_never_made_is_refused_and_not_made(redis):
    text = new()
    with pytest.raises(Refusal) as refusal:
        await admission(redis).admit(text)
    assert (refusal.value.status, refusal.value.code) == (401, "key_unknown")
    assert await redis.ask([("DBSIZE",)]) == [0]


async def test_using_a_key_is_noted_when_it_lets_in_and_while_it_is_in(redis):
    text = await made(redis)
    doors = admission(redis)
    await doors.admit(text)
    first = (await register.read(redis, parse(text))).last_used_ms
    assert abs(first - await register.now_ms(redis)) < 60_000
    name = f"access:{tag_of_key(parse(text))}"
    await redis.ask([("HSET", name, "last_used_ms", first - 70_000)])
    await doors.look()
    assert (await register.read(redis, parse(text))).last_used_ms >= first


async def test_a_lease_that_is_not_renewed_ends_and_one_that_is_does_not(redis, monkeypatch):
    monkeypatch.setattr("stream_gateway.admission.CONNECTION_LEASE_S", 1)
    text = await made(redis, "pro")
    dead, living = admission(redis), admission(redis)
    await dead.admit(text)
    assert await redis.ask([("PTTL", leases_key(text))]) <= [1_000]
    admitted = await without_error_async(lambda: living.admit(text), Refusal)
    assert await leases(redis, text) == {admitted.lease_id}
    [before] = await redis.ask([("ZSCORE", leases_key(text), admitted.lease_id)])
    await asyncio.sleep(0.01)
    await living.look()
    [after] = await redis.ask([("ZSCORE", leases_key(text), admitted.lease_id)])
    assert after > before


async def test_clients_kept_out_by_a_killed_gateway_are_asked_to_retry(redis):
    text = await made(redis)
    dead, living = admission(redis), admission(redis)
    lost = [await dead.admit(text) for _ in range(2)]
    for _ in range(3):
        await living.admit(text)
    now_ms = await register.now_ms(redis)
    ends_ms = (now_ms + 7_000, now_ms + 7_500)  # half of their time they were not renewed
    for end_ms, each in zip(ends_ms, lost, strict=True):
        await redis.ask([("ZADD", leases_key(text), end_ms, each.lease_id)])
    with pytest.raises(Refusal) as ending:
        await living.admit(text)
    assert (ending.value.status, ending.value.code) == (503, "connection_ending")
    assert 0 < int(ending.value.headers["Retry-After"]) <= 7
    await dead.look()  # it was slow, and lives
    with pytest.raises(Refusal, match="too_many_connections"):
        await living.admit(text)


async def test_a_revoked_key_is_reported_once_for_each_of_its_connections(redis):
    text, others = await made(redis), await made(redis)
    revoked = []
    doors = admission(redis, revoked)
    mine = [await doors.admit(text) for _ in range(3)]
    left = await doors.admit(text)
    await doors.release(left)
    kept = await doors.admit(others)
    await doors.look()
    assert revoked == []
    await register.revoke(redis, parse(text), await register.now_ms(redis))
    await doors.look()
    await doors.look()
    assert revoked == mine
    for each in mine:  # as its connection ends
        await doors.release(each)
    assert await leases(redis, text) == set()
    assert await leases(redis, others) == {kept.lease_id}


async def test_with_another_plan_connections_are_reported_once_and_come_in_under_it(redis):
    text, others = await made(redis), await made(redis)
    revoked, replanned = [], []
    doors = admission(redis, revoked, replanned)
    former = [await doors.admit(text) for _ in range(3)]
    kept = await doors.admit(others)
    await doors.look()
    assert replanned == []
    await give(redis, text, "enterprise")
    new = await doors.admit(text)
    await doors.look()
    await doors.look()
    assert (replanned, revoked) == (former, [])
    for each in former:  # as its connection ends
        await doors.release(each)
    await doors.look()
    assert new.plan.name == "enterprise"
    assert await leases(redis, text) == {new.lease_id}
    assert await leases(redis, others) == {kept.lease_id}


class Between:
    """The keys' Redis; does something once, after the next trip that renews leases."""

    def __init__(self, redis):
        self._redis = redis
        self.then = None

    async def ask(self, commands):
        answers = await self._redis.ask(commands)
        then, self.then = self.then, None
        if then is not None:
            await then()
        return answers


async def test_a_client_that_enters_under_a_new_plan_while_leases_are_renewed_stays(redis):
    text, crowd = await made(redis), await made(redis, "enterprise")
    between, replanned = Between(redis), []
    doors = admission(between, replanned=replanned)
    former = await doors.admit(text)
    await asyncio.gather(*(doors.admit(crowd) for _ in range(1_500)))  # some trips to renew them
    admitted = []

    async def change():
        await give(redis, text, "enterprise")
        admitted.append(await doors.admit(text))

    between.then = change
    await doors.look()
    assert admitted
    assert replanned == []
    await doors.look()
    assert replanned == [former]


async def test_no_lease_of_many_is_renewed_after_it_was_given_back_for_another_plan(redis):
    text = await made(redis, "enterprise")
    ended = []
    doors = Admission(
        redis, ended.append, lambda each: ended.append(asyncio.ensure_future(doors.release(each)))
    )
    await asyncio.gather(*(doors.admit(text) for _ in range(2_500)))  # some trips to renew them
    await give(redis, text, "free")
    await doors.look()
    await asyncio.gather(*ended)
    assert len(ended) == 2_500
    assert await leases(redis, text) == set()
    await admission(redis).admit(text)


async def test_looks_come_by_themselves(redis, monkeypatch):
    monkeypatch.setattr("stream_gateway.admission.LOOK_EVERY_S", 0.01)
    text = await made(redis)
    revoked = asyncio.Queue()
    doors = Admission(redis, revoked.put_nowait, revoked.put_nowait)
    running = asyncio.create_task(doors.run())
    admitted = await doors.admit(text)
    await register.revoke(redis, parse(text), await register.now_ms(redis))
    async with asyncio.timeout(60):
        assert await revoked.get() == admitted
    running.cancel()


async def test_leases_that_redis_has_lost_are_made_again(redis):
    text = await made(redis, "pro")
    doors = admission(redis)
    admitted = await doors.admit(text)
    record = await register.read(redis, parse(text))
    await redis.ask([("FLUSHALL",), ("SCRIPT", "FLUSH")])
    await doors.look()  # neither key nor script is there
    assert await leases(redis, text) == {admitted.lease_id}
    assert await register.read(redis, parse(text)) is None
    await register.put(redis, record)
    with pytest.raises(Refusal, match="too_many"):
        await admission(redis).admit(text)


async def test_a_client_that_left_during_admission_does_not_count(redis):
    text = await made(redis, "pro")
    doors = admission(redis)
    entering = asyncio.create_task(doors.admit(text))
    # private `_link`: cancels while the connection is being made; nothing else shows that moment.
    while not entering.done() and not redis._link:  # noqa: ASYNC110 - connecting
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    await doors.look()
    assert await leases(redis, text) == set()
    await doors.admit(text)


async def test_while_redis_is_away_open_connections_stay_and_no_client_is_admitted(server, redis):
    text = await made(redis, "business")
    revoked = []
    doors = admission(redis, revoked)
    stays, leaves = [await doors.admit(text) for _ in range(2)]
    async with Redis.from_url(server.process.address) as client:
        await saved(client)
    server.kill()
    with pytest.raises(Refusal) as refusal:
        await doors.admit(text)
    assert (refusal.value.status, refusal.value.code) == (503, "store_unavailable")
    assert refusal.value.headers["Retry-After"]
    await doors.release(leaves)
    await doors.look()
    assert revoked == []
    await server.start()
    await register.revoke(await back(redis), parse(text), 5)
    await doors.look()
    assert revoked == [stays]
    await doors.release(stays)
    assert await leases(redis, text) == set()


async def back(redis):
    await without_error_async(lambda: redis.ask([("PING",)]), RedisError)
    return redis


RUSH = """
import asyncio, sys
from api.access import register
from infra.settings import Settings
from infra.telemetry import configure_logging
from stream_gateway.admission import Admission, Refusal

async def main(url, key):
    settings = Settings(_env_file=None, access_redis_url=url, log_level="error")
    configure_logging(settings, "gateway")
    doors = Admission(register.connect(settings), lambda admitted: None, lambda admitted: None)
    renewing = asyncio.create_task(doors.run())
    inside, most, refused = [], 0, 0
    async def enter():
        nonlocal refused
        try:
            inside.append(await doors.admit(key))
        except Refusal as refusal:
            assert refusal.code == "too_many_connections", refusal
            refused += 1
    for _ in range(40):
        await asyncio.gather(*(enter() for _ in range(25)))
        for each in inside[:2]:
            inside.remove(each)
            await doors.release(each)
    while len(inside) < 5:
        before = len(inside)
        await enter()
        if len(inside) == before:
            break
    print(len(inside), refused, flush=True)
    await asyncio.to_thread(sys.stdin.readline)  # stays until it is killed
asyncio.run(main(*sys.argv[1:]))
"""


async def test_several_processes_together_let_in_exactly_as_many(server, redis):
    text = await made(redis)
    children = [
        subprocess.Popen(  # noqa: ASYNC220 - an instant
            bound([sys.executable, "-c", RUSH, server.process.address, text]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    try:
        lines = [await asyncio.to_thread(child.stdout.readline) for child in children]
        inside, refused = zip(*(map(int, line.split()) for line in lines), strict=True)
        assert sum(inside) == 5 == len(await leases(redis, text))
        assert all(refused)
        with pytest.raises(Refusal):
            await admission(redis).admit(text)
    finally:
        for child in children:
            child.kill()
            child.wait()
    # Nobody gave anything back: the leases end by themselves, within their time.
    now_ms = await register.now_ms(redis)
    [ends] = await redis.ask([("ZRANGE", leases_key(text), 0, -1, "WITHSCORES")])
    assert all(end_ms - now_ms <= CONNECTION_LEASE_S * 1000 for _, end_ms in ends)


async def test_no_more_than_the_plan_at_any_moment(redis):
    """Many doors, entering and leaving at random: never more inside than five, and always five
    when all of them want to."""
    text = await made(redis)
    doors = [admission(redis) for _ in range(8)]
    inside = 0
    until = time.monotonic() + 1.0

    async def coming_and_going(door):
        nonlocal inside
        while time.monotonic() < until:
            try:
                admitted = await door.admit(text)
            except Refusal:
                await asyncio.sleep(0)
                continue
            inside += 1
            assert inside <= 5
            await asyncio.sleep(0)
            inside -= 1  # from here on it may count no more
            await door.release(admitted)

    await asyncio.gather(*(coming_and_going(door) for door in doors for _ in range(3)))
    assert await leases(redis, text) == set()
    assert len([await door.admit(text) for door in doors[:5]]) == 5
