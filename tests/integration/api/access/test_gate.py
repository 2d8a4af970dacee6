"""The gate before a small application: who comes in, what he is told, and what it costs."""

import asyncio
import random
import re
import socket

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from api.access import gate, register
from api.access.charge import NOT_GIVEN_BACK, Charges, charge_items
from api.access.gate import Gate
from api.access.keys import new, parse
from api.app import create_app
from api.errors import BUSY, STORE_UNAVAILABLE, UNKNOWN_TOKEN, Problem
from api.problems import on_problem
from api.stores import FAILURES
from infra.process import free_port
from infra.settings import Settings
from schemas.redis_keys import API_KEY_CREDITS, tag_of_key

ADDRESS = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"


class Shell:
    """What is around the gate: gives requests an id, and remembers what became of them."""

    def __init__(self, app):
        self.app = app
        self.states = []

    async def __call__(self, scope, receive, send):
        scope["state"] = {"request_id": "the-request"}
        self.states.append(scope["state"])
        await self.app(scope, receive, send)


async def who(request: Request):
    grant = request.scope["state"].get("grant")
    return PlainTextResponse(grant.key_id if grant else "nobody")


async def batch(request: Request):
    await charge_items(request, int(request.query_params["items"]))
    if "fails" in request.query_params:
        raise Problem(BUSY, "as asked")
    return PlainTextResponse("paid")


async def fails(request: Request):
    raise RuntimeError("a fault")


async def is_missing(request: Request):
    raise Problem(UNKNOWN_TOKEN, "as asked")


async def hangs(request: Request):
    await asyncio.sleep(60)


def around(charges):
    app = Starlette(
        routes=[
            Route("/api/who", who, methods=["GET", "POST"]),
            Route("/api/usage", who),
            Route("/api/health", who),
            Route("/api/health/live", who),
            Route("/docs", who),
            Route("/api/batch", batch, methods=["POST"]),
            Route("/api/fails", fails),
            Route("/api/missing", is_missing),
            Route("/api/hangs", hangs),
        ],
        exception_handlers={Problem: on_problem},
    )
    return Shell(Gate(app, charges))


@pytest.fixture
def shell(charges):
    return around(charges)


@pytest.fixture
async def client(shell):
    transport = httpx.ASGITransport(shell, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        yield client


async def spent(redis, key):
    """Credits that a key has spent, in all months."""
    return sum((await register.read(redis, parse(key))).credits.values())


def refused(answer, status, code):
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert (told["status"], told["code"], told["request_id"]) == (status, code, "the-request")
    if status != 429:  # nothing is told of the plan of whom is not let in
        assert {"ratelimit", "ratelimit-policy", "x-credits-left"}.isdisjoint(answer.headers)
    return told["detail"]


async def test_a_good_key_comes_in_and_is_told_what_is_left(client, shell, make):
    key = await make.text("pro")
    answer = await client.get("/api/who", headers={"x-api-key": key})
    assert (answer.status_code, answer.text) == (200, parse(key)[:12])
    assert answer.headers["ratelimit-policy"] == '"minute";q=600;w=60'
    assert answer.headers["ratelimit"] == '"minute";r=599;t=60'
    assert answer.headers["x-credits-left"] == "999999"
    assert shell.states[-1]["key_id"] == parse(key)[:12]


async def test_of_what_has_no_limit_nothing_is_said(client, make):
    key = await make.text("enterprise")
    answer = await client.get("/api/who", headers={"x-api-key": key})
    assert answer.status_code == 200
    assert {"ratelimit", "ratelimit-policy", "x-credits-left"}.isdisjoint(answer.headers)


@pytest.mark.parametrize("path", ["/api/who", "/api/usage", "/api/nothing", "/api/", "/api//who"])
async def test_without_a_key_nobody_comes_in(client, path):
    answer = await client.get(path)
    assert "x-api-key" in refused(answer, 401, "key_missing")
    assert answer.headers["www-authenticate"].startswith("ApiKey ")


async def test_a_key_anywhere_else_is_none(client, make):
    key = await make.text()
    for request in (
        {"url": f"/api/who?api_key={key}"},
        {"url": f"/api/who?x-api-key={key}"},
        {"url": "/api/who", "headers": {"authorization": f"Bearer {key}"}},
        {"url": "/api/who", "headers": {"cookie": f"x-api-key={key}"}},
    ):
        refused(await client.get(**request), 401, "key_missing")


async def test_what_is_no_key_of_ours_costs_no_trip_and_is_not_repeated(make):
    class NoRedis:
        async def ask(self, commands):
            raise AssertionError("asked")

    shell = around(Charges(NoRedis()))
    transport = httpx.ASGITransport(shell)
    key = await make.text()
    changed = key[:20] + ("a" if key[20] != "a" else "b") + key[21:]
    hostile = ["", " ", "x" * 100_000, "soltape_", key[:-1], changed, key.upper(), "*", "\x00",
               "soltape_" + "*" * 39, f"{key}, {key}", f" {key}x", "{" + key + "}"]  # fmt: skip
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        for sent in hostile:
            answer = await client.get("/api/who", headers={"x-api-key": sent})
            refused(answer, 401, "key_malformed")
            assert key[8:20] not in answer.text
            assert "key_id" not in shell.states[-1]
        headers = [(b"x-api-key", b"\xff\xfe"), (b"x-api-key", "soltape_é".encode())]
        for each in headers:
            answer = await client.get("/api/who", headers=[each])
            refused(answer, 401, "key_malformed")
        answer = await client.get("/api/who", headers=[("x-api-key", key)] * 2)
        assert "more than once" in refused(answer, 401, "key_malformed")


async def test_made_up_keys_with_a_good_checksum_are_unknown(client, redis, make):
    await make.text()
    [before] = await redis.ask([("DBSIZE",)])
    for _ in range(20):
        answer = await client.get("/api/who", headers={"x-api-key": new()})
        refused(answer, 401, "key_unknown")
    assert await redis.ask([("DBSIZE",)]) == [before]


async def test_a_revoked_key_is_refused_at_once(client, redis, make):
    key = await make.text()
    headers = {"x-api-key": key}
    assert (await client.get("/api/who", headers=headers)).status_code == 200
    await register.revoke(redis, parse(key), 1)
    for path in ("/api/who", "/api/usage", "/api/health"):
        refused(await client.get(path, headers=headers), 403, "key_revoked")


async def test_a_plan_that_is_not_sold_any_more_lets_nobody_in(client, make):
    answer = await client.get("/api/who", headers={"x-api-key": await make.text("platinum")})
    assert refused(answer, 403, "not_in_plan") == "there is no plan platinum any more"


async def test_the_rate_is_refused_with_the_time_to_wait(client, make, clock):
    headers = {"x-api-key": await make.text("free")}
    for left in range(59, -1, -1):
        answer = await client.get("/api/who", headers=headers)
        assert answer.headers["ratelimit"].startswith(f'"minute";r={left};')
        await clock.forward(500)
    answer = await client.get("/api/who", headers=headers)
    policy = '"minute";q=60;w=60'
    assert refused_with_rate(answer) == ("30", '"minute";r=0;t=30', policy, "49940")
    await clock.forward(29_999)
    refused_with_rate(await client.get("/api/usage", headers=headers))
    await clock.forward(1)
    assert (await client.get("/api/who", headers=headers)).status_code == 200


def refused_with_rate(answer):
    assert answer.status_code == 429
    assert answer.json()["code"] == "rate_exceeded"
    names = ("retry-after", "ratelimit", "ratelimit-policy", "x-credits-left")
    return tuple(answer.headers[name] for name in names)


async def test_spent_credits_have_a_code_of_their_own_and_the_end_of_the_month(client, make, clock):
    headers = {"x-api-key": await make.text("free", credits={"2025-11": 49_999})}
    last = await client.get("/api/who", headers=headers)
    assert (last.status_code, last.headers["x-credits-left"]) == (200, "0")
    await clock.forward(10_000)
    answer = await client.get("/api/who", headers=headers)
    assert "50,000 credits of this month are spent" in refused(answer, 429, "credits_spent")
    assert answer.headers["x-credits-left"] == "0"
    assert answer.headers["ratelimit-policy"] == '"minute";q=60;w=60'
    assert answer.headers["ratelimit"] == '"minute";r=59;t=50'
    until_december_s = 1_764_547_200 - clock.ms // 1000
    assert answer.headers["retry-after"] == str(until_december_s)
    assert (await client.get("/api/usage", headers=headers)).status_code == 200
    await clock.forward(until_december_s * 1000)
    after = await client.get("/api/who", headers=headers)
    assert (after.status_code, after.headers["x-credits-left"]) == (200, "49999")


async def test_usage_and_health_cost_nothing_and_count_for_the_rate(client, redis, make):
    key = await make.text()
    for path in ("/api/usage", "/api/health"):
        answer = await client.get(path, headers={"x-api-key": key})
        assert answer.headers["x-credits-left"] == "50000"
    assert answer.headers["ratelimit"].startswith('"minute";r=58;')
    assert await spent(redis, key) == 0


async def test_open_doors(client, make):
    for path in ("/api/health", "/api/health/live", "/docs"):
        assert (await client.get(path)).text == "nobody"
    answer = await client.get("/api/health/live", headers={"x-api-key": "nonsense"})
    assert answer.text == "nobody"
    refused(await client.get("/api/health", headers={"x-api-key": "x"}), 401, "key_malformed")
    key = await make.text()
    health = await client.get("/api/health", headers={"x-api-key": key})
    assert health.text == parse(key)[:12]
    assert (await client.options("/api/who")).status_code == 405  # of the route: it came in
    for path in ("/api/health/", "/api/health/x", "/api/health/live/", "/api/Health"):
        refused(await client.get(path), 401, "key_missing")


async def test_what_ends_with_a_fault_of_ours_costs_nothing(client, redis, make):
    key = await make.text()
    headers = {"x-api-key": key}
    answer = await client.post("/api/batch?items=10&fails=1", headers=headers)
    assert (answer.status_code, answer.headers["x-credits-left"]) == (503, "50000")
    answer = await client.get("/api/fails", headers=headers)
    assert answer.status_code == 500
    await settled(lambda: spent(redis, key), 0)
    answer = await client.get("/api/missing", headers=headers)  # an answer like others
    assert (answer.status_code, answer.headers["x-credits-left"]) == (404, "49999")


async def settled(read, wanted):
    async with asyncio.timeout(60):
        while await read() != wanted:  # noqa: ASYNC110 - Redis tells when asked
            await asyncio.sleep(0.01)


async def test_what_was_cut_off_costs_nothing(shell, redis, make):
    key = await make.text()
    transport = httpx.ASGITransport(shell)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.get("/api/hangs", headers={"x-api-key": key})
    await settled(lambda: spent(redis, key), 0)
    assert (await register.read(redis, parse(key))).credits  # it was charged before


@pytest.mark.parametrize(("kind", "cost"), [(UNKNOWN_TOKEN, 1), (BUSY, 0)])
async def test_a_problem_that_is_answered_outside_costs_what_its_status_says(
    charges, redis, make, kind, cost
):
    async def app(scope, receive, send):
        raise Problem(kind, "as asked")

    key = await make.text()
    transport = httpx.ASGITransport(Shell(Gate(app, charges)))
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        with pytest.raises(Problem):
            await client.get("/api/who", headers={"x-api-key": key})
    await charges.aclose()
    assert await spent(redis, key) == cost


async def test_a_batch_costs_a_credit_an_item(client, redis, make):
    key = await make.text()
    headers = {"x-api-key": key}
    for items, left in ((0, 49_999), (1, 49_998), (2, 49_996), (100, 49_896)):
        answer = await client.post(f"/api/batch?items={items}", headers=headers)
        assert answer.headers["x-credits-left"] == str(left)
    assert answer.headers["ratelimit"].startswith('"minute";r=56;')
    assert await spent(redis, key) == 104


async def test_a_batch_that_cannot_be_paid_is_refused_and_costs_nothing(client, redis, make):
    key = await make.text("free")
    month = (await Charges(redis).request(parse(key), 0)).month
    credits_name = API_KEY_CREDITS.make(tag=tag_of_key(parse(key)))
    await redis.ask([("HSET", credits_name, month, 49_991)])
    answer = await client.post("/api/batch?items=10", headers={"x-api-key": key})
    assert answer.status_code == 429
    assert answer.json()["code"] == "credits_spent"
    assert answer.json()["detail"] == "this batch costs 10 credits, 9 are left this month"
    assert int(answer.headers["retry-after"]) > 0
    assert answer.headers["x-credits-left"] == "9"
    assert await spent(redis, key) == 49_991


async def test_without_redis_nobody_comes_in_and_it_is_counted(make):
    settings = Settings(_env_file=None, redis_url=f"redis://127.0.0.1:{free_port()}/0")
    connection = register.connect(settings)
    shell = around(Charges(connection))
    before = FAILURES.labels("keys")._value.get()
    transport = httpx.ASGITransport(shell)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        for _ in range(3):
            answer = await client.get("/api/who", headers={"x-api-key": new()})
            detail = refused(answer, 503, STORE_UNAVAILABLE.code)
            assert "127.0.0.1" not in detail
            assert answer.headers["retry-after"] == "2"
        health = await client.get("/api/health", headers={"x-api-key": new()})
        assert health.text == "nobody"
        answer = await client.get("/api/usage", headers={"x-api-key": new()})
        refused(answer, 503, "store_unavailable")
    assert FAILURES.labels("keys")._value.get() == before + 4
    await connection.aclose()


async def test_a_redis_that_hangs_is_waited_for_two_seconds(make):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
        settings = Settings(
            _env_file=None, access_redis_url=f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        )
        connection = register.connect(settings)
        transport = httpx.ASGITransport(around(Charges(connection)))
        async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
            async with asyncio.timeout(30):
                answer = await client.get("/api/who", headers={"x-api-key": new()})
            refused(answer, 503, "store_unavailable")
        await connection.aclose()


async def test_credits_that_cannot_be_given_back_are_counted(redis, make, settings):
    class GoesAway:
        """Redis, until it is told to go."""

        def __init__(self):
            self.is_away = False

        async def ask(self, commands):
            if self.is_away:
                raise ConnectionResetError
            return await redis.ask(commands)

    goes = GoesAway()
    charges = Charges(goes)
    grant = await charges.request(parse(await make.text()), 1)
    await charges.more(grant, 4)
    goes.is_away = True
    before = NOT_GIVEN_BACK._value.get()
    await charges.give_back(grant)
    assert NOT_GIVEN_BACK._value.get() == before + 5


async def test_random_keys_and_paths_never_come_in(client, make):
    rng = random.Random(11)
    key = await make.text()
    for _ in range(500):
        at = rng.randrange(len(key))
        tampered = key[:at] + chr(rng.randrange(33, 127)) + key[at + 1 :]
        tampered = rng.choice((tampered, key[at:], key[:at], key + key[:at], key.swapcase()))
        if tampered != key:
            answer = await client.get("/api/who", headers={"x-api-key": tampered})
            refused(answer, 401, "key_malformed")


async def test_every_path_of_the_api_is_behind_the_gate(settings, redis):
    app = create_app(settings.model_copy(update={"log_level": "warning"}))
    paths = {re.sub(r"{(wallet|mint)}", ADDRESS, path) for path in app.openapi()["paths"]}
    assert {"/api/health", "/api/health/live"} < paths
    paths.remove("/api/health")  # looks at stores, which are away here
    assert len(paths) > 20
    transport = httpx.ASGITransport(app)
    is_open = set()
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        for path in paths:
            assert "{" not in path
            for method in ("GET", "POST", "HEAD", "PUT", "DELETE", "PATCH"):
                answer = await client.request(method, path)
                if answer.status_code != 401:
                    is_open.add(path)
    assert is_open == {"/api/health/live"}


def test_the_open_paths_are_few():
    assert {"/api/health/live"} == gate.OPEN
    assert {"/api/health", "/api/usage"} == gate.FREE
    assert gate.is_open("OPTIONS", "/api/tokens")
    assert gate.is_open("GET", "/docs")
    assert not gate.is_open("GET", "/api/health")
