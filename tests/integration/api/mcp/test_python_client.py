"""The tools as the Python SDK's client sees them, over both transports, of four processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson
import pytest
from httpx2 import AsyncClient
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from redis import Redis

from api.access import register
from api.access.keys import new, parse
from api.mcp.cutting import cut
from schemas.plans import FREE as FREE_PLAN
from schemas.redis_keys import API_KEY_CREDITS, tag_of_key

WALLET = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
NAMES = {
    "analyze_wallet",
    "get_all_lending",
    "get_all_perps",
    "get_all_staking",
    "get_all_governance",
    "get_all_lp",
    "get_all_yield",
    "get_all_rewards",
    "get_all_dex",
    "get_holdings",
}
FREE = {"get_holdings", "get_all_dex", "analyze_wallet"}
AS_OF = ("as_of_slot", "as_of_ms")


@asynccontextmanager
async def session_of(url: str, key: str, transport: str) -> AsyncIterator[ClientSession]:
    headers = {"x-api-key": key}
    if transport == "sse":
        async with (
            sse_client(f"{url}/mcp/sse", headers=headers) as (read, write),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            yield session
        return
    async with (
        AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(f"{url}/mcp", http_client=http) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


def content_of(result: Any) -> Any:
    [content] = result.content
    return orjson.loads(content.text)


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_the_ten_tools_take_a_wallet_and_have_a_schema(four, transport) -> None:
    async with session_of(four[0].url, four[0].key, transport) as session:
        tools = (await session.list_tools()).tools
    assert {tool.name for tool in tools} == NAMES
    for tool in tools:
        assert list(tool.input_schema["properties"]) == tool.input_schema["required"] == ["wallet"]
        assert tool.input_schema["additionalProperties"] is False
        assert {"answer", "cut", "rest"} == set(tool.output_schema["properties"])
        assert tool.annotations.read_only_hint is True
        for word in ("Freshness", "Cost: one credit", "null means", "cut"):
            assert word.lower() in tool.description.lower()


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_answers_are_those_of_rest(four, transport) -> None:
    url, key = four[0].url, four[0].key
    async with session_of(url, key, transport) as session:
        for tool in sorted(NAMES):
            result = await session.call_tool(tool, {"wallet": WALLET})
            assert not result.is_error, result
            assert result.structured_content == content_of(result)
            found = result.structured_content
            method, path = found["rest"].split()
            async with httpx.AsyncClient(timeout=60) as http:
                rest = await http.request(method, f"{url}{path}", headers={"x-api-key": key})
            whole, shortened = cut(rest.content)
            assert found["cut"] == shortened
            assert without_time(found["answer"]) == without_time(whole)


def without_time(answer: Any) -> Any:
    return {name: value for name, value in answer.items() if name not in AS_OF}


async def test_resources_say_what_words_mean_and_what_is_covered(four) -> None:
    async with session_of(four[0].url, four[0].key, "http") as session:
        listed = (await session.list_resources()).resources
        assert {str(each.uri) for each in listed} == {"soltape://glossary", "soltape://covered"}
        [content] = (await session.read_resource("soltape://covered")).contents
    assert {each["tool"] for each in orjson.loads(content.text)["tools"]} == NAMES


async def credits_left(url: str, key: str) -> int:
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{url}/api/usage", headers={"x-api-key": key})
    return int(answer.headers["x-credits-left"])


async def test_a_call_costs_one_credit_and_other_methods_none(four, make_key) -> None:
    key = await asyncio.to_thread(make_key, "pro")
    before = await credits_left(four[0].url, key)
    for transport in ("http", "sse"):
        async with session_of(four[0].url, key, transport) as session:
            await session.list_tools()
            await session.read_resource("soltape://glossary")
            await session.call_tool("get_holdings", {"wallet": WALLET})
            before -= 1
            assert await credits_left(four[0].url, key) == before


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_the_free_plan_has_three_tools(four, transport, make_key) -> None:
    key = await asyncio.to_thread(make_key, "free")
    async with session_of(four[0].url, key, transport) as session:
        for name in sorted(FREE):
            assert not (await session.call_tool(name, {"wallet": WALLET})).is_error, name
        for name in sorted(NAMES - FREE):
            result = await session.call_tool(name, {"wallet": WALLET})
            assert (result.is_error, content_of(result)["code"]) == (True, "not_in_plan"), name


async def test_the_plan_pro_has_all_tools(four, make_key) -> None:
    key = await asyncio.to_thread(make_key, "pro")
    async with session_of(four[0].url, key, "http") as session:
        for name in sorted(NAMES):
            assert not (await session.call_tool(name, {"wallet": WALLET})).is_error, name


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_wrong_wallet_is_an_error_of_the_tool(four, transport) -> None:
    async with session_of(four[0].url, four[0].key, transport) as session:
        for wallet in ("", "nobody", "0" * 44, WALLET + "x"):
            result = await session.call_tool("get_holdings", {"wallet": wallet})
            assert (result.is_error, content_of(result)["code"]) == (True, "invalid_address")


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_calls_over_the_rate_are_errors_of_the_tool(four, transport, make_key) -> None:
    key = await asyncio.to_thread(make_key, "free")
    async with session_of(four[0].url, key, transport) as session:
        results = [await session.call_tool("get_holdings", {"wallet": WALLET}) for _ in range(61)]
    refused = [content_of(each) for each in results if each.is_error]
    assert refused
    assert {each["code"] for each in refused} == {"rate_exceeded"}
    assert "retry in" in refused[0]["detail"]


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_calls_beyond_the_credits_are_errors_of_the_tool(
    four, make_key, stores, transport
) -> None:
    key = await asyncio.to_thread(make_key, "free")
    assert await credits_left(four[0].url, key) == FREE_PLAN.credits_a_month
    async with session_of(four[0].url, key, transport) as session:
        assert not (await session.call_tool("get_holdings", {"wallet": WALLET})).is_error
        with Redis.from_url(stores.access_redis_url or stores.redis_url) as redis:
            spent = API_KEY_CREDITS.make(tag=tag_of_key(parse(key)))
            [month] = redis.hkeys(spent)
            redis.hset(spent, month, FREE_PLAN.credits_a_month)
        result = await session.call_tool("get_holdings", {"wallet": WALLET})
        assert (result.is_error, content_of(result)["code"]) == (True, "credits_spent")
        assert len((await session.list_tools()).tools) == len(NAMES)  # which costs none


async def test_a_key_that_is_revoked_in_a_session_is_an_error_of_the_tool(
    four, make_key, stores
) -> None:
    key = await asyncio.to_thread(make_key, "free")
    redis = register.connect(stores)
    try:
        async with session_of(four[0].url, key, "http") as session:
            assert not (await session.call_tool("get_holdings", {"wallet": WALLET})).is_error
            await register.revoke(redis, parse(key), await register.now_ms(redis))
            result = await session.call_tool("get_holdings", {"wallet": WALLET})
            refused = content_of(result)
            assert (result.is_error, refused["status"], refused["code"]) == (
                True,
                403,
                "key_revoked",
            )
    finally:
        await redis.aclose()


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_no_connection_without_a_key(four, transport) -> None:
    came_in = []
    for key in ("wrong", new()):
        with contextlib.suppress(Exception):
            async with session_of(four[0].url, key, transport):
                came_in.append(key)
    assert came_in == []
    path, method = ("/mcp/sse", "GET") if transport == "sse" else ("/mcp", "POST")
    async with httpx.AsyncClient(timeout=60) as http:
        answer = await http.request(method, f"{four[0].url}{path}")
    assert (answer.status_code, answer.json()["code"]) == (401, "key_missing")


async def test_many_sessions_at_once_reach_whichever_process_has_them(four) -> None:
    async def one(number: int) -> None:
        async with session_of(four[0].url, four[0].key, "sse") as session:
            for _ in range(3):
                result = await session.call_tool("get_holdings", {"wallet": WALLET})
                assert result.structured_content["answer"]["wallet"] == WALLET, number

    await asyncio.gather(*(one(number) for number in range(12)))
