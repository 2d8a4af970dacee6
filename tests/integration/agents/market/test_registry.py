"""The token registry against the RPC of a local chain, over real HTTP."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web
from redis.asyncio import Redis

from infra.chain.market import Knobs, Market
from infra.chain.server import LocalChain, ServerOptions
from infra.settings import Settings
from pipeline.agents.market import registry as agent_registry
from pipeline.agents.market.registry import MINTS_A_CALL, Known, Registry
from schemas.redis_keys import MARKET, METADATA, mint_tag
from schemas.rows import TOKEN_METADATA
from schemas.solana import base58
from schemas.times import DAY_S
from tests.support.waiting import eventually_async


class Rows:
    """A stand-in for ClickHouse's sink that keeps what it is given."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    async def insert(self, table: str, rows: Sequence[tuple[Any, ...]], token: str) -> None:
        assert table == TOKEN_METADATA.name
        assert token
        assert all(len(row) == len(TOKEN_METADATA.columns) for row in rows)
        self.rows += rows


@pytest.fixture(scope="module")
def market() -> Market:
    market = Market(Knobs(seed=21, rate=200))
    for _ in market.generate(20):
        pass
    return market


@pytest.fixture
async def chain(market: Market) -> AsyncIterator[LocalChain]:
    async with LocalChain(
        market, ServerOptions(grpc_port=0, rpc_port=0, await_subscriber=True)
    ) as served:
        yield served


def registry_of(redis: Redis, rows: Rows, port: int) -> Registry:
    endpoint = f"http://127.0.0.1:{port}"
    return Registry(Settings(_env_file=None, rpc_endpoint=endpoint), redis, rows)


@asynccontextmanager
async def working(registry: Registry) -> AsyncIterator[None]:
    failed: list[str] = []
    registry.start(failed.append)
    yield
    registry.close()
    assert not failed


@asynccontextmanager
async def server(handler: Any) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_post("/", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def test_every_mint_of_the_chain_is_known_as_the_chain_has_it(
    redis: Redis, market: Market, chain: LocalChain
) -> None:
    mints = list(market.world.ledger.mints.values())
    assert len(mints) > MINTS_A_CALL // 2
    rows = Rows()
    registry = registry_of(redis, rows, chain.rpc_port)
    async with working(registry):
        for mint in mints:
            registry.ask(mint.text)
        await eventually_async(lambda: all(registry.known(mint.text) for mint in mints))
    named = 0
    for mint in mints:
        known = registry.known(mint.text)
        assert known is not None
        assert (known.status, known.decimals, known.supply_raw) == (
            "found", mint.decimals, mint.supply_raw,
        )  # fmt: skip
        assert known.token_program == base58.encode(mint.program.address)
        assert (known.name, known.symbol, known.uri) == (mint.name, mint.symbol, mint.uri)
        named += bool(mint.name)
    assert named > 5
    assert {base58.encode(mint.program.address) for mint in mints if mint.name} == {
        "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
        "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
    }
    await eventually_async(lambda: len(rows.rows) == len(mints))
    text = await redis.get(METADATA.make(tag=mint_tag(mints[0].text), mint=mints[0].text))
    assert orjson.loads(text)["decimals"] == mints[0].decimals


async def test_what_has_been_asked_once_is_not_asked_again(redis: Redis, market: Market) -> None:
    mint = next(mint.text for mint in market.world.ledger.mints.values() if mint.name)
    nobody = base58.encode(b"\7" * 32)
    calls = 0

    async def empty(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        count = len((await request.json())["params"][0])
        return web.json_response({"id": 1, "result": {"value": [None] * count}})

    async with server(empty) as port:
        for _ in range(2):  # another life knows it from Redis
            registry = registry_of(redis, Rows(), port)
            async with working(registry):
                for _ in range(3):
                    registry.ask(nobody)
                    registry.ask(mint)
                await eventually_async(lambda r=registry: r.known(nobody) and r.known(mint))
                known = registry.known(nobody)
                assert known is not None
                assert known.status == "absent"
    assert calls == 1


async def test_what_was_forgotten_is_read_from_redis_and_else_asked_of_rpc(redis: Redis) -> None:
    mint = base58.encode(b"\x08" * 32)
    calls = 0

    async def empty(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.json_response({"id": 1, "result": {"value": [None, None]}})

    async with server(empty) as port:
        registry = registry_of(redis, Rows(), port)
        async with working(registry):
            for gone_from_redis in (False, False, True):
                if gone_from_redis:
                    await redis.delete(METADATA.make(tag=mint_tag(mint), mint=mint))
                registry.woken(mint, None)
                registry.ask(mint)
                # private `_waiting`: an idle registry says so nowhere else.
                await eventually_async(lambda: registry.known(mint) and not registry._waiting)
    assert calls == 2


async def test_an_answer_without_a_market_in_redis_does_not_stay_there(redis: Redis) -> None:
    here, gone = (base58.encode(bytes([n]) * 32) for n in (10, 11))
    await redis.hset(MARKET.make(tag=mint_tag(here), mint=here), "head", b"")

    async def empty(request: web.Request) -> web.Response:
        count = len((await request.json())["params"][0])
        return web.json_response({"id": 1, "result": {"value": [None] * count}})

    async with server(empty) as port:
        registry = registry_of(redis, Rows(), port)
        async with working(registry):
            registry.ask(here)
            registry.ask(gone)
            await eventually_async(lambda: not registry._waiting)
    keys = [METADATA.make(tag=mint_tag(mint), mint=mint) for mint in (here, gone)]
    assert await redis.ttl(keys[0]) == -1
    assert 0 < await redis.ttl(keys[1]) <= METADATA.ttl_s


async def test_what_clickhouse_has_of_a_woken_token_is_asked_again_when_it_is_old(
    redis: Redis,
) -> None:
    mints = [base58.encode(bytes([n]) * 32) for n in (12, 13)]
    asked: list[str] = []

    async def empty(request: web.Request) -> web.Response:
        accounts = (await request.json())["params"][0]
        asked.extend(mint for mint in mints if mint in accounts)
        return web.json_response({"id": 1, "result": {"value": [None] * len(accounts)}})

    now_ms = time.time_ns() // 1_000_000
    async with server(empty) as port:
        registry = registry_of(redis, Rows(), port)
        async with working(registry):
            for mint, days in zip(mints, (10, 100), strict=True):
                asked_ms = now_ms - days * DAY_S * 1000
                registry.woken(mint, Known("Name", "", "", 6, 1, "", "found", asked_ms))
                registry.ask(mint)
            await eventually_async(lambda: asked and not registry._waiting)
    assert asked == mints[1:]


async def test_failures_are_repeated_and_nobody_waits(redis: Redis) -> None:
    mint = base58.encode(b"\5" * 32)
    answers = [
        web.Response(status=429, text="slow down"),
        web.Response(text="<html>"),
        web.json_response({"id": 1, "result": {"value": [None]}}),  # two were asked for
        web.json_response({"id": 1, "result": {"value": [None, None]}}),
    ]

    async def flaky(_: web.Request) -> web.Response:
        return answers.pop(0)

    async with server(flaky) as port:
        registry = registry_of(redis, Rows(), port)
        async with working(registry):
            registry.ask(mint)
            assert registry.known(mint) is None  # asking is over at once
            await eventually_async(lambda: registry.known(mint), 20)
    assert not answers


async def test_what_rpc_refuses_is_asked_again_after_a_pause(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    mint, other = (base58.encode(bytes([n]) * 32) for n in (14, 15))
    asked: list[list[str]] = []

    async def refuses(request: web.Request) -> web.Response:
        asked.append((await request.json())["params"][0])
        return web.json_response({"id": 1, "error": {"code": -32602, "message": "no"}})

    async def ask(registry: Registry, *mints: str) -> None:
        for each in mints:
            registry.ask(each)
        # private `_waiting`: an idle registry says so nowhere else.
        await eventually_async(lambda: not registry._waiting)

    async with server(refuses) as port:
        registry = registry_of(redis, Rows(), port)
        async with working(registry):
            for _ in range(3):
                await ask(registry, mint)
            await ask(registry, mint, other)  # another one is asked at once
        assert [accounts[0] for accounts in asked] == [mint, other]
        monkeypatch.setattr(agent_registry, "REFUSED_FOR_S", 0.0)
        registry = registry_of(redis, Rows(), port)
        async with working(registry):
            for _ in range(2):
                await ask(registry, mint)
    assert [accounts[0] for accounts in asked] == [mint, other, mint, mint]


async def test_wrong_bytes_are_counted_with_a_reason(
    redis: Redis, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    mint = base58.encode(b"\6" * 32)
    token = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"

    async def wrong(_: web.Request) -> web.Response:
        account = {"owner": token, "data": ["AAAA", "base64"], "lamports": 1}
        return web.json_response({"id": 1, "result": {"value": [account, None]}})

    async with server(wrong) as port:
        registry = registry_of(redis, Rows(), port)
        async with working(registry):
            registry.ask(mint)
            await eventually_async(lambda: registry.known(mint))
    assert "3 bytes are no mint" in capsys.readouterr().out + caplog.text


async def test_without_rpc_it_says_once_what_stays_unknown(
    redis: Redis, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry(Settings(_env_file=None, rpc_endpoint=None), redis, Rows())
    for at in range(5):
        registry.ask(base58.encode(bytes([at]) * 32))
    # On the terminal, or where a test before this one has configured the logging.
    said = capsys.readouterr().out or caplog.text
    assert said.count("RPC_ENDPOINT") == 1
