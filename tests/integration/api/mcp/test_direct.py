"""A plain call and one that is not are paid, refused and answered alike."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from redis import Redis

from api.access.keys import parse
from api.mcp.sessions import PROCESS_DIGITS, SECRET_DIGITS
from api.system.availability import AvailabilityWatch
from schemas.redis_keys import (
    API_KEY_CREDITS,
    API_KEY_GIVEN_BACK,
    MCP_ANSWERS,
    MCP_SESSIONS,
    WALLET_TOTALS,
    tag_of_key,
    wallet_tag,
)
from schemas.solana.base58 import decode, encode
from tests.integration.api.mcp.test_attacks import ACCEPT, WALLET, call
from tests.integration.api.mcp.test_python_client import credits_left, without_time
from tests.support.api.in_process import asked, new_key
from tests.support.waiting import eventually_async

# The package takes these headers as well; to us such a call is not plain.
WAYS = (ACCEPT, {**ACCEPT, "content-type": "application/json; charset=utf-8"})


async def results(url: str, key: str, name: str, wallet: str = WALLET) -> list[dict[str, Any]]:
    """Return what a tool answers on both ways."""
    found = []
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        for headers in WAYS:
            answer = await http.post(
                "/mcp", headers={**headers, "x-api-key": key}, json=call(name, wallet)
            )
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/json"
            found.append(answer.json()["result"])
    return found


def code_of(result: dict[str, Any]) -> str:
    assert result["isError"]
    assert "structuredContent" not in result
    code: str = httpx.Response(200, text=result["content"][0]["text"]).json()["code"]
    return code


@pytest.mark.parametrize("name", ["get_holdings", "get_all_dex", "analyze_wallet"])
async def test_both_ways_answer_the_same_and_cost_a_credit(four, make_key, name) -> None:
    key = await asyncio.to_thread(make_key, "pro")
    short, whole = [each["structuredContent"] for each in await results(four[0].url, key, name)]
    assert without_time(short.pop("answer")) == without_time(whole.pop("answer"))
    assert short == whole
    assert await credits_left(four[0].url, key) == 1_000_000 - len(WAYS)


async def test_both_ways_refuse_what_the_plan_has_not(four, make_key) -> None:
    key = await asyncio.to_thread(make_key, "free")
    for result in await results(four[0].url, key, "get_all_lp"):
        assert code_of(result) == "not_in_plan"


async def test_both_ways_refuse_calls_over_the_rate(four, make_key) -> None:
    key = await asyncio.to_thread(make_key, "free")

    async def refused() -> list[dict[str, Any]] | None:
        found = await results(four[0].url, key, "get_holdings")
        return found if all(each["isError"] for each in found) else None

    assert {code_of(each) for each in await eventually_async(refused)} == {"rate_exceeded"}


async def test_a_failure_of_ours_has_a_name_and_costs_nothing(four, make_key, stores) -> None:
    key = await asyncio.to_thread(make_key, "pro")
    wallet = encode(b"cut".rjust(32, b"\2"))
    totals = WALLET_TOTALS.make(tag=wallet_tag(wallet))
    with Redis.from_url(stores.redis_url) as redis:
        redis.hset(totals, decode(wallet), b"cut")
        found = await results(four[0].url, key, "get_holdings", wallet)
        redis.hdel(totals, decode(wallet))
    assert [code_of(each) for each in found] == ["quarantined"] * len(WAYS)

    async def is_given_back() -> bool:  # behind the answer
        return await credits_left(four[0].url, key) == 1_000_000

    await eventually_async(is_given_back)


async def test_a_failed_call_gives_its_credit_back_once(stores) -> None:
    """Also where its answer cannot be sent on to the session."""
    process, wallet = "0" * PROCESS_DIGITS, encode(b"cut twice".rjust(32, b"\2"))
    session = process + "1" * SECRET_DIGITS
    key = await new_key(stores, "pro")
    tag = tag_of_key(parse(key))
    totals = WALLET_TOTALS.make(tag=wallet_tag(wallet))
    answers = MCP_ANSWERS.make(tag=f"{{{process}}}")
    assert stores.access_redis_url is not None
    with Redis.from_url(stores.redis_url) as redis, Redis.from_url(stores.access_redis_url) as keys:
        redis.hset(totals, decode(wallet), b"cut")
        keys.hset(MCP_SESSIONS.make(tag=f"{{{process}}}"), session, parse(key))
        keys.set(answers, "no list")
        async with asked(stores, key) as (http, _):  # it ends when all is given back
            for name, left in ((WALLET, 999_999), (WALLET, 999_998), (wallet, 999_998)):
                answer = await http.post("/mcp", headers=ACCEPT, json=call(wallet=name))
                assert answer.headers["x-credits-left"] == str(left)
            for headers in WAYS:
                answer = await http.post(
                    f"/mcp/messages?session_id={session}", headers=headers, json=call(wallet=wallet)
                )
                assert answer.status_code == 503
        given_back = keys.get(API_KEY_GIVEN_BACK.make(tag=tag))
        spent = [int(each) for each in keys.hvals(API_KEY_CREDITS.make(tag=tag))]
        redis.hdel(totals, decode(wallet))
        keys.delete(answers)
    assert (int(given_back or 0), spent) == (3, [2])


async def test_availability_counts_a_call_that_we_failed_and_none_that_the_caller_did(
    stores, monkeypatch
) -> None:
    """Both ways, and to a session of another process: the status is 200 or 202 all the same."""
    process, broken = "2" * PROCESS_DIGITS, encode(b"cut for all".rjust(32, b"\2"))
    session = process + "1" * SECRET_DIGITS
    key = await new_key(stores, "pro")
    totals = WALLET_TOTALS.make(tag=wallet_tag(broken))
    counted: list[int] = []
    monkeypatch.setattr(AvailabilityWatch, "count", lambda _, status: counted.append(status))
    assert stores.access_redis_url is not None
    with Redis.from_url(stores.redis_url) as redis, Redis.from_url(stores.access_redis_url) as keys:
        redis.hset(totals, decode(broken), b"cut")
        keys.hset(MCP_SESSIONS.make(tag=f"{{{process}}}"), session, parse(key))
        async with asked(stores, key) as (http, _):
            for headers in WAYS:
                for path, status in (("/mcp", 200), (f"/mcp/messages?session_id={session}", 202)):
                    for wallet in (WALLET, "no wallet", broken):
                        answer = await http.post(path, headers=headers, json=call(wallet=wallet))
                        assert answer.status_code == status
                    assert counted == [status, status, 500]
                    counted.clear()
        redis.hdel(totals, decode(broken))
