"""`soltape mcp` as a client starts it: six tools, from Redis alone."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import redis as sync_redis
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from api.mcp.local.knowledge import MOST_CHARACTERS
from infra.local.process import free_port
from schemas.redis_keys import SETTLED_PARTITIONS
from tests.support.systems import bound, running_valkey

WALLET = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
NAMES = {
    "get_token_info",
    "get_token_leaderboard",
    "get_wallet_positions",
    "get_wallet_token_position",
    "get_capabilities",
    "search_knowledge",
}


@asynccontextmanager
async def local(
    folder: Path, args: Sequence[str] = ("-m", "infra.cli", "mcp"), **settings: str
) -> AsyncIterator[ClientSession]:
    path = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    server = StdioServerParameters(
        command=sys.executable,
        args=[*args],
        env={**path, **settings},
        cwd=folder,
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def called(session: ClientSession, name: str, **arguments: Any) -> tuple[bool, Any]:
    result = await session.call_tool(name, arguments)
    [content] = result.content
    if result.is_error:
        return False, content.text
    return True, orjson.loads(content.text)


async def test_six_tools_answer_from_redis(stores, tmp_path) -> None:
    async with local(
        tmp_path, REDIS_URL=stores.redis_url, CLICKHOUSE_URL=str(stores.clickhouse_url)
    ) as session:
        tools = (await session.list_tools()).tools
        assert {tool.name for tool in tools} == NAMES
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
        is_answered, found = await called(session, "get_wallet_positions", wallet=WALLET)
        assert is_answered
        assert found["answer"]["wallet"] == WALLET
        is_answered, text = await called(
            session, "get_wallet_token_position", wallet=WALLET, mint=WALLET
        )
        assert not is_answered
        assert text.startswith("no_position: ")
        is_answered, text = await called(session, "get_token_info", mint="nobody")
        assert not is_answered
        assert text.startswith("invalid_address: 'nobody' must be")


async def test_positions_are_those_of_rest(api, tmp_path) -> None:
    async with local(tmp_path, REDIS_URL=api.settings.redis_url) as session:
        _, found = await called(session, "get_wallet_positions", wallet=WALLET)
    async with httpx.AsyncClient(timeout=60) as http:
        rest = await http.get(
            f"{api.url}/api/wallets/{WALLET}?limit=50", headers={"x-api-key": api.key}
        )
    assert found["answer"]["positions"] == rest.json()["positions"]


@pytest.fixture
def raised(tmp_path) -> Iterator[str]:
    """The address of a Redis whose books are of 16 partitions."""
    with running_valkey(tmp_path / "valkey") as port, sync_redis.Redis(port=port) as redis:
        redis.set(SETTLED_PARTITIONS.make(), 16)
        yield f"redis://127.0.0.1:{port}/0"


async def test_of_books_of_another_count_it_says_so_in_place_of_nothing(
    stores, raised, tmp_path
) -> None:
    settings = {"REDIS_URL": raised, "CLICKHOUSE_URL": str(stores.clickhouse_url)}
    asks = (
        ("get_wallet_positions", {"wallet": WALLET}),
        ("get_wallet_token_position", {"wallet": WALLET, "mint": WALLET}),
        ("get_token_info", {"mint": WALLET}),
        ("get_token_leaderboard", {"mint": WALLET}),
    )
    async with local(tmp_path, **settings) as session:
        for name, arguments in asks:
            is_answered, text = await called(session, name, **arguments)
            assert not is_answered
            assert text.startswith("wrong_partitions: SETTLED_PARTITIONS is 8, but"), name
            assert "set SETTLED_PARTITIONS=16" in text
        _, found = await called(session, "get_capabilities")
        assert "set SETTLED_PARTITIONS=16" in found["stores"][0]["missing"]
    env = servers(config(tmp_path, SETTLED_PARTITIONS="16"))["soltape-local"]["env"]
    assert env["SETTLED_PARTITIONS"] == "16"
    async with local(tmp_path, **{**env, **settings}) as session:
        is_answered, found = await called(session, "get_wallet_positions", wallet=WALLET)
        assert is_answered
        assert found["answer"]["wallet"] == WALLET
        _, found = await called(session, "get_capabilities")
        assert "missing" not in found["stores"][0]


async def test_without_any_store_it_searches_and_says_what_is_missing(tmp_path) -> None:
    away = {
        "REDIS_URL": f"redis://127.0.0.1:{free_port()}/0",
        "CLICKHOUSE_URL": f"http://127.0.0.1:{free_port()}",
        "API_PORT": str(free_port()),
    }
    async with local(tmp_path, **away) as session:
        for query, title in (
            ("holdings", "/api/wallets/{wallet}/holdings"),
            ("oldest lot first", "FIFO"),
            ("unmatched", "FIFO"),
            ("kamino obligations", "kamino: "),
            ("subscribe channel prices", "WebSocket"),
            ("win_rate_pct", "win_rate_pct"),
        ):
            _, found = await called(session, "search_knowledge", query=query)
            titles = [each["title"] for each in found["passages"]]
            assert any(title in each for each in titles), (query, titles)
        for query, title, words in (
            ("solana-dex-swaps", "Kafka for subscribers", "7 days"),
            ("solana-slot-status", "Kafka for subscribers", "take back what you saw of it"),
            ("how long are prices kept on Kafka", "Kafka for subscribers", "1 day"),
            ("SASL SCRAM credentials", "Kafka for subscribers: Credentials", "SCRAM-SHA-512"),
            ("ping pong", "The WebSocket protocol: Subscribe", '{"action":"ping"}'),
            ("how to resume with since id", "The WebSocket protocol: Resume", "what was missed"),
            ("lagging slow client", "The WebSocket protocol: Slow clients", "dropped"),
            ("filter prices by mints", "The WebSocket protocol: Subscribe", "up to 100 mints"),
            ("how to pay per call", "Pay per call", "/pay/api/wallets/"),
            ("sign in with OpenID", "Sign in", "revoke API keys"),
            ("401 unknown key of an agent", "MCP", "before any tool"),
            ("if-none-match ETag 304", "Guide of REST: Freshness", "if-none-match"),
        ):
            _, found = await called(session, "search_knowledge", query=query)
            texts = [each["text"] for each in found["passages"] if title in each["title"]]
            assert any(words in each for each in texts), (query, found)
            assert max(map(len, texts)) <= MOST_CHARACTERS
        for query in ("", '"', "NEAR(", "* OR *", "title:x", "'; DROP TABLE passages"):
            is_answered, _ = await called(session, "search_knowledge", query=query)
            assert is_answered
        _, found = await called(session, "get_capabilities")
        assert {each["name"]: each["is_reachable"] for each in found["stores"]} == {
            "redis": False,
            "clickhouse": False,
            "api": False,
        }
        assert all(each["missing"] and each["setting"] for each in found["stores"])
        is_answered, text = await called(session, "get_wallet_positions", wallet=WALLET)
        assert not is_answered
        assert text.startswith("store_unavailable: redis does not answer")
        assert "get_capabilities" in text


def test_ctrl_c_ends_it_while_it_waits_for_a_message(tmp_path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    with subprocess.Popen(
        bound([sys.executable, "-m", "infra.cli", "mcp"]),
        cwd=tmp_path,
        env={**os.environ, "REDIS_URL": "redis://127.0.0.1:1/0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as run:
        try:
            assert run.stdin is not None
            assert run.stdout is not None
            run.stdin.write(orjson.dumps(hello) + b"\n")
            run.stdin.flush()
            assert orjson.loads(run.stdout.readline())["id"] == 1
            run.send_signal(signal.SIGINT)
            assert run.wait(timeout=60) == -signal.SIGINT
        finally:
            run.kill()


def config(folder: Path, **settings: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "infra.cli", "mcp", "config", "--url", "https://tape.example/"],
        cwd=folder,
        env={**os.environ, "REDIS_URL": "redis://127.0.0.1:1/0", **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def servers(text: str) -> dict[str, Any]:
    first = text.partition("\n")[2].partition("\n\n")[0]
    return orjson.loads(first)["mcpServers"]


def test_config_prints_what_clients_take(tmp_path) -> None:
    redis_url = "rediss://:a&b$(c)@127.0.0.1:1/0?ssl_cert_reqs=none"
    said = config(tmp_path, REDIS_URL=redis_url)
    found = servers(said)
    assert found["soltape"]["url"] == "https://tape.example/mcp"
    assert found["soltape-local"]["env"] == {"REDIS_URL": redis_url}
    local = [sys.executable, *found["soltape-local"]["args"]]
    hosted = ["--transport", "http", "soltape", "https://tape.example/mcp"]
    commands = [shlex.split(line) for line in said.splitlines() if line.startswith("claude")]
    assert commands == [
        ["claude", "mcp", "add", *hosted, "--header", "x-api-key: YOUR_KEY"],
        ["claude", "mcp", "add", "soltape-local", "--env", f"REDIS_URL={redis_url}", "--", *local],
    ]
    # As a shell reads it: with the quotes, no word of the address is a command.
    assert f"'{redis_url}'" in said


async def test_it_starts_in_a_folder_with_packages_of_the_same_names(tmp_path) -> None:
    """As a client in the folder of a program starts it."""
    args = servers(config(tmp_path))["soltape-local"]["args"]
    for name in ("api", "schemas"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not of Soltape')")
    async with local(tmp_path, args, REDIS_URL="redis://127.0.0.1:1/0") as session:
        assert {tool.name for tool in (await session.list_tools()).tools} == NAMES
