"""Ten thousand requests that nobody should send, and what they must not bring about.

Nothing but 4xx, or 2xx where a request was valid after all; no connection that hangs, no word of
ours that is not for callers, no word of theirs in a store, and the stores as they were.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import httpx
import orjson
import psutil
import pytest
from hiredis import Reader

from infra.redis.client import connect as connect_redis
from infra.settings import Settings
from pipeline.chaos import stores
from tests.support.api.hostile_texts import BROKEN_BODY, MARK
from tests.support.api.hostility import Hostility, Operation
from tests.support.api.oracle import Known, known
from tests.support.api.simulation import Simulation
from tests.support.api.wire import Answer, Ear, Wire
from tests.support.systems import running_valkey

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

REQUESTS = 10_000
CONNECTIONS = 8
SEED = 4

HERE = Path(__file__).parents[3]
# What none of our answers may reveal: code, files, SQL, stores, addresses inside.
LEAKS = re.compile(
    rb"Traceback|File \"|line \d+, in |site-packages|\.py\b"
    rb"|/(?:[\w.-]+/)+[\w.-]+\.(?:lua|proto|sock|so|sql)\b"
    rb"|/(?:etc|home|opt|proc|root|tmp|usr|var)/|" + re.escape(os.fsencode(HERE)) + rb"|"
    rb"\bSELECT\b|\bFROM\b|\bWHERE\b|\bDROP\b|\bUNION\b|DB::|Code: \d|system\.tables"
    rb"|WRONGTYPE|NOAUTH|EVALSHA|HGETALL|HMGET|127\.0\.0\.1|localhost|pydantic|starlette|fastapi"
    rb"|uvicorn|Exception|KeyError|ValueError|TypeError|0x[0-9a-f]{6,}"
)
SLOW = re.compile(rb'"reasons":\["\w+ does not answer within')
OF_KEYS = re.compile(
    r"access:(keys|\{[0-9a-f]{64}\}(:credits|:minute|:given_back)?|\{\d{4}-\d\d\}:\w+)( |$)"
)
# What the API says to Redis; the scripts are those that charge a key.
READS = frozenset(
    {
        *(b"HELLO", b"CLIENT", b"SELECT", b"PING", b"INFO", b"MULTI", b"EXEC"),
        *(b"EVALSHA", b"EVAL"),
        *(b"SCRIPT", b"GET", b"MGET", b"HGET", b"HMGET", b"HGETALL", b"HLEN", b"ZRANGE", b"ZCARD"),
        *(b"SISMEMBER", b"SMISMEMBER", b"XREVRANGE", b"ZSCORE", b"ZMSCORE", b"ZREVRANGE"),
        *(
            b"HKEYS",
            b"EXISTS",
            b"SCARD",
            b"BITFIELD_RO",
            b"GETBIT",
            b"HSCAN",
            b"HSTRLEN",
            b"EXISTS",
            b"TIME",
            b"XINFO",
            b"SMEMBERS",
            b"SRANDMEMBER",
            b"ZREVRANGEBYSCORE",
            b"LRANGE",
        ),
        *(b"SETBIT", b"EXPIRE"),  # of a minute that availability could not note in time
    }
)


@pytest.fixture(scope="module")
def truth(simulation: Simulation) -> Known:
    return known(simulation.truth, simulation.first_slot, simulation.last_slot)


@dataclass(slots=True)
class Overheard:
    """An API whose words to its stores are heard."""

    api: Any
    operations: list[Operation]
    redis: Ear
    clickhouse: Ear


@pytest.fixture
def one_valkey(tmp_path: Path) -> Iterator[int]:
    with running_valkey(tmp_path / "redis") as port:
        yield port


@pytest.fixture
async def one_redis(simulation: Simulation, one_valkey: int) -> Settings:
    """What leads to the stores, with a Redis of one server: its words can be heard."""
    redis_url = f"redis://127.0.0.1:{one_valkey}/0"
    settings = simulation.settings.model_copy(update={"redis_url": redis_url})
    source, copy = connect_redis(simulation.settings), connect_redis(settings)
    async for name in source.scan_iter(count=1_000):
        if (value := await source.dump(name)) is not None:
            await copy.restore(name, max(await source.pttl(name), 0), value)
    await source.aclose()
    await copy.aclose()
    return settings


@pytest.fixture
async def overheard(
    simulation: Simulation, one_redis: Settings, serve_simulation: Any
) -> AsyncIterator[Overheard]:
    redis_port = urlsplit(one_redis.redis_url).port
    clickhouse_port = urlsplit(simulation.settings.clickhouse_url).port
    assert redis_port
    assert clickhouse_port
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(Ear(redis_port).listening())
        clickhouse = await stack.enter_async_context(Ear(clickhouse_port).listening())
        serving = serve_simulation(
            redis_url=f"redis://127.0.0.1:{redis.port}/0",
            clickhouse_url=f"http://127.0.0.1:{clickhouse.port}",
        )
        api = await asyncio.to_thread(serving.__enter__)
        try:
            async with httpx.AsyncClient(base_url=api.url, timeout=120) as client:
                document = (await client.get("/openapi.json")).json()
            yield Overheard(api, operations_of(document), redis, clickhouse)
        finally:
            await asyncio.to_thread(serving.__exit__, None, None, None)


def operations_of(document: dict) -> list[Operation]:
    """Return the operations of a document."""
    found = []
    for template, methods in document["paths"].items():
        for method, operation in methods.items():
            named = [p for p in operation.get("parameters", []) if p.get("in") == "query"]
            body = operation.get("requestBody", {}).get("content", {})
            schema = body.get("application/json", {}).get("schema", {})
            name = schema.get("$ref", "").rpartition("/")[2]
            schema = document["components"]["schemas"].get(name, schema)
            found.append(
                Operation(
                    method.upper(),
                    template,
                    tuple(parameter["name"] for parameter in named),
                    tuple(schema.get("properties", {})),
                )
            )
    return found


async def test_ten_thousand_hostile_requests(overheard, one_redis, truth):
    random = Random(SEED)
    values = {"wallet": truth.wallets, "mint": truth.mints}
    hostility = Hostility(
        SEED,
        overheard.operations,
        lambda name: random.choice(values.get(name, ["positions"])),
        overheard.api.key,
    )
    before = await state_of_stores(one_redis)
    for ear in (overheard.redis, overheard.clickhouse):
        ear.forget()
    memory = psutil.Process(overheard.api.process.pid)
    injections = list(hostility.injections())
    assert len(injections) > REQUESTS / 5
    waiting = iter([*injections, *hostility.requests(REQUESTS - len(injections))])
    statuses: Counter[int] = Counter()
    wrong: list[object] = []

    async def send() -> None:
        async with Wire(overheard.api.port) as wire:
            for request in waiting:
                answer = await wire.exchange(request)
                statuses[answer.status] += 1
                if problem := problem_of(request, answer):
                    wrong.append((problem, request[:600], answer.status, answer.body[:600]))

    await asyncio.gather(*(send() for _ in range(CONNECTIONS)))
    assert not wrong, (len(wrong), wrong[:5])
    assert statuses.total() == REQUESTS
    assert {400, 401, 404, 405, 422} <= statuses.keys(), statuses
    assert statuses[422] > REQUESTS / 10
    # Alive, the same process, not swollen, and as quick to answer as before.
    assert overheard.api.process.poll() is None
    assert memory.memory_info().rss < 500e6
    async with httpx.AsyncClient(base_url=overheard.api.url, timeout=240) as client:
        sane = await client.get("/api/health")
    assert sane.json().keys() == {"status", "timestamp", "chain"}
    after = await state_of_stores(one_redis)
    assert [
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    ] == []
    said = overheard.api.logged()
    assert "Traceback" not in said
    assert overheard.api.key not in said
    heard_of_redis(overheard)
    heard_of_clickhouse(overheard)


def problem_of(request: bytes, answer: Answer) -> str:
    """Say what is wrong with an answer; empty where nothing is."""
    if answer.status == 0:
        # Amid a broken body an answer may be on its way already: another would be taken for it.
        return "" if BROKEN_BODY in request else "hung up without an answer"
    if answer.status == 503 and SLOW.search(answer.body):  # health, however it was spelled
        return ""  # the machine is busy with other tests, and health says so
    if answer.status >= 500 or answer.status < 200:
        return "status"
    if answer.status in (301, 302, 303, 307, 308):
        return "" if answer.headers["location"] == "/docs" else "redirect"
    if "x-injected" in answer.headers or "set-cookie" in answer.headers:
        return "a header of the caller's"
    echoed = unquote_to_bytes(request)
    for leak in LEAKS.finditer(answer.body):
        if answer.status >= 400 and leak.group() not in echoed:
            return f"reveals {leak.group()!r}"
    if answer.status >= 400 and answer.body and "content-type" in answer.headers:
        kind = answer.headers["content-type"]
        if kind == "application/problem+json":
            body = orjson.loads(answer.body)
            if body["status"] != answer.status or not body["code"] or not body["request_id"]:
                return "a problem that is none"
            if answer.headers.get("x-content-type-options") != "nosniff":
                return "a problem that may be taken for something else"
        else:
            return f"an error as {kind}"
    return ""


async def state_of_stores(settings: Settings) -> dict[str, bytes]:
    """Return all that the stores hold, but for keys: other tests make and use theirs."""
    redis = connect_redis(settings)
    try:
        found = await stores.contents(redis)
    finally:
        await redis.aclose()
    tables = await asyncio.to_thread(stores.read_tables, settings)
    # A merge in the background changes the order of rows, and nothing else.
    found |= {name: repr(sorted(map(repr, rows))).encode() for name, rows in tables.items()}
    return {name: value for name, value in found.items() if not OF_KEYS.match(name)}


def heard_of_redis(overheard: Overheard) -> None:
    """Nothing of the callers' own words, and no command but reads and the scripts of keys."""
    commands: Counter[bytes] = Counter()
    for heard in overheard.redis.heard:
        assert MARK.encode() not in heard
        assert overheard.api.key.encode() not in heard
        reader = Reader()
        reader.feed(bytes(heard))
        while command := reader.gets():
            commands[command[0].upper()] += 1
    assert commands[b"EVALSHA"] > REQUESTS / 4
    assert commands.keys() <= READS, commands


def heard_of_clickhouse(overheard: Overheard) -> None:
    """Nothing of the callers' own words."""
    whole = b"".join(overheard.clickhouse.heard)
    assert whole.count(b"POST /") > REQUESTS / 250  # few operations read it
    assert MARK.encode() not in whole
    assert b"FLUSHALL" not in whole
    assert b"etc/passwd" not in whole


# Whose key it is.


def test_a_key_sees_and_spends_its_own(simulated):
    mine, others = simulated.new_key("mine"), simulated.new_key("others")
    for _ in range(3):
        assert ask(simulated, "/api/tokens/trending", mine).status_code == 200
    usage = ask(simulated, "/api/usage", mine).json()
    assert usage["key"]["name"] == "mine"
    spent = usage["credits"]["used"]
    assert ask(simulated, "/api/usage", others).json()["credits"]["used"] < spent
    refused = ask(simulated, "/api/usage", mine, key=others)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_parameter")
    assert others not in refused.text


def test_a_revoked_key_is_refused_and_no_other(simulated):
    gone, stays = simulated.new_key("gone"), simulated.new_key("stays")
    assert ask(simulated, "/api/tokens/trending", gone).status_code == 200
    subprocess.run(
        [sys.executable, "-m", "infra.cli", "keys", "revoke", "-"],
        env={**os.environ, "REDIS_URL": simulated.settings.redis_url},
        input=gone.encode(),
        check=True,
        timeout=240,
    )
    refused = ask(simulated, "/api/tokens/trending", gone)
    assert (refused.status_code, refused.json()["code"]) == (403, "key_revoked")
    assert ask(simulated, "/api/tokens/trending", stays).status_code == 200


def test_a_key_of_another_hand_is_refused(simulated):
    key = simulated.new_key("real")
    tampered = {
        "": "key_missing",
        key[:-1]: "key_malformed",
        key + "0": "key_malformed",
        key.replace("soltape_", "soltype_"): "key_malformed",
        key.upper(): "key_malformed",
        key[:20] + ("a" if key[20] != "a" else "b") + key[21:]: "key_malformed",
        key.removeprefix("soltape_"): "key_malformed",
    }
    for text, code in tampered.items():
        refused = ask(simulated, "/api/tokens/trending", text)
        assert (refused.status_code, refused.json()["code"]) == (401, code), text
        assert key not in refused.text
    twice = httpx.get(
        f"{simulated.url}/api/usage",
        headers=[("x-api-key", key), ("x-api-key", simulated.new_key("second"))],
    )
    assert twice.status_code == 401


@pytest.mark.parametrize("place", ["query", "bearer", "cookie"])
def test_a_key_counts_in_its_header_alone(simulated, place):
    key = simulated.new_key("elsewhere")
    asked = {
        "query": {"params": {"api_key": key, "x-api-key": key}},
        "bearer": {"headers": {"authorization": f"Bearer {key}"}},
        "cookie": {"headers": {"cookie": f"x-api-key={key}"}},
    }[place]
    refused = httpx.get(f"{simulated.url}/api/usage", **asked)
    assert (refused.status_code, refused.json()["code"]) == (401, "key_missing")
    assert key not in simulated.logged()


def ask(api: Any, path: str, header: str, **query: str) -> httpx.Response:
    headers = {"x-api-key": header} if header else {}
    return httpx.get(f"{api.url}{path}", headers=headers, params=query, timeout=120)
