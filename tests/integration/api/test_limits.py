"""Limits hold exactly, however many callers and processes there are."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import ExitStack

import httpx
import pytest
import redis as sync_redis

from api.access import register
from api.access.keys import Record, new, parse
from infra.local.process import free_port
from schemas.redis_keys import API_KEY, tag_of_key
from tests.support.waiting import eventually

CLIENTS = 50
WINDOW_S = 60
PATH = "/api/wallets/5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"


@pytest.fixture(scope="module", params=["two ports", "one port"])
def processes(request, serve):
    """Two API processes over one Redis, each on its own port or sharing one."""
    same = {"api_reuse_port": True, "api_port": free_port()} if request.param == "one port" else {}
    with ExitStack() as stack:
        yield [stack.enter_context(serve(**same)) for _ in range(2)]


def made(settings, plan, **facts):
    """Make a key of a plan and return its text."""
    text = new()
    record = Record(parse(text), "limits", plan, "", text[-4:], int(time.time() * 1000), **facts)

    async def put():
        redis = register.connect(settings)
        await register.put(redis, record)
        await redis.aclose()

    asyncio.run(put())
    return text


def asked_at_once(processes, key, each, path=PATH):
    """Let 50 clients, each with a connection of its own, ask `each` times; return the answers."""

    async def client(number):
        url = processes[number % len(processes)].url
        async with httpx.AsyncClient(base_url=url, headers={"x-api-key": key}) as http:
            return [await http.get(path) for _ in range(each)]

    async def together():
        return await asyncio.gather(*(client(number) for number in range(CLIENTS)))

    return [answer for answers in asyncio.run(together()) for answer in answers]


def counted_by(process, key):
    """Return how many requests of a key a process has logged."""
    return process.logged().count(f'"key":"{parse(key)[:12]}"')


def test_fifty_clients_on_two_processes_have_sixty_requests_a_minute(processes):
    key = made(processes[0].settings, "free")
    answers = asked_at_once(processes, key, each=2)
    assert Counter(answer.status_code for answer in answers) == {200: 60, 429: 40}
    eventually(lambda: all(counted_by(each, key) for each in processes))  # each answered some
    accepted = [answer for answer in answers if answer.status_code == 200]
    # Each of them got another number that is left: nothing was counted twice or not at all.
    left = [int(answer.headers["ratelimit"].split("r=")[1].split(";")[0]) for answer in accepted]
    assert sorted(left) == list(range(60))
    credits_left = [int(answer.headers["x-credits-left"]) for answer in accepted]
    assert sorted(credits_left) == list(range(49_940, 50_000))
    for answer in answers:
        assert answer.headers["ratelimit-policy"] == '"minute";q=60;w=60'
        if answer.status_code == 429:
            assert answer.json()["code"] == "rate_exceeded"
            assert 0 < int(answer.headers["retry-after"]) <= WINDOW_S
            assert answer.headers["x-credits-left"] == "49940"


def test_the_last_credits_are_spent_once(processes):
    settings = processes[0].settings
    month = time.strftime("%Y-%m", time.gmtime())
    key = made(settings, "business", credits={month: 20_000_000 - 100})
    answers = asked_at_once(processes, key, each=4)
    assert Counter(answer.status_code for answer in answers) == {200: 100, 429: 100}
    refused = [answer.json()["code"] for answer in answers if answer.status_code == 429]
    assert set(refused) == {"credits_spent"}


def test_every_answer_to_a_key_costs_but_refusals_at_the_door(processes):
    process = processes[0]
    headers = {"x-api-key": made(process.settings, "free")}
    with httpx.Client(base_url=process.url, headers=headers) as client:
        etag = client.get(PATH).headers["etag"]
        for left, (status, method, path) in enumerate(
            [
                (304, "GET", PATH),
                (404, "GET", "/api/nowhere"),
                (405, "DELETE", PATH),
                (422, "GET", f"{PATH}?limit=0"),
                (400, "POST", "/api/wallets/batch"),
                (422, "POST", "/api/wallets/batch"),
            ],
            start=2,
        ):
            body = "{" if status == 400 else "{}" if method == "POST" else None
            asked = {"if-none-match": etag, "content-type": "application/json"}
            answer = client.request(method, path, headers=asked, content=body)
            assert answer.status_code == status
            assert answer.headers["x-credits-left"] == str(50_000 - left)
        assert client.get(PATH, headers={"x-api-key": "x"}).status_code == 401
        usage = client.get("/api/usage")
        assert usage.headers["x-credits-left"] == str(50_000 - left)
    guide = httpx.get(f"{process.url}/openapi.json").json()["info"]["description"]
    assert "304, 400, 404, 405, 408 and 422 cost a credit" in " ".join(guide.split())


def test_a_key_that_is_revoked_amid_its_requests_is_refused_by_every_process(processes):
    settings = processes[0].settings
    key = made(settings, "enterprise")
    for each in processes:
        assert httpx.get(each.url + PATH, headers={"x-api-key": key}).status_code == 200
    with sync_redis.Redis.from_url(settings.access_redis_url or settings.redis_url) as client:
        client.hset(API_KEY.make(tag=tag_of_key(parse(key))), "revoked_ms", 1)
    # So few that even one of the processes does not refuse the address for it.
    answers = asked_at_once(processes, key, each=1)
    assert {answer.status_code for answer in answers} == {403}
    assert {answer.json()["code"] for answer in answers} == {"key_revoked"}


def test_usage_is_ones_own(processes):
    settings = processes[0].settings
    mine, other = made(settings, "pro"), made(settings, "free")
    for each in processes * 2:
        assert httpx.get(each.url + PATH, headers={"x-api-key": mine}).status_code == 200
    usage = httpx.get(processes[0].url + "/api/usage", headers={"x-api-key": mine}).json()
    assert usage["plan"] == "pro"
    assert usage["key"]["id"] == parse(mine)[:12]
    assert usage["key"]["name"] == "limits"
    assert usage["credits"]["used"] == 4
    assert usage["credits"]["left"] == 999_996
    assert usage["rate"]["left"] == 595
    assert 0 < usage["rate"]["frees_in_ms"] <= 60_000
    assert usage["credits"]["renews_ms"] / 1000 > time.time()
    # Nothing that is sent beside the key shows another's.
    for asked in (f"/api/usage?key={parse(mine)[:12]}", f"/api/usage?x-api-key={mine}"):
        answer = httpx.get(processes[1].url + asked, headers={"x-api-key": other})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_parameter")
        assert mine[8:] not in answer.text
    answer = httpx.get(
        processes[1].url + "/api/usage", headers={"x-api-key": other, "cookie": f"x-api-key={mine}"}
    )
    assert answer.json()["key"]["id"] == parse(other)[:12]
    assert answer.json()["credits"]["used"] == 0
    assert mine[8:] not in answer.text
