"""The tools as the inspector's command line sees them: the hosted ones over HTTP and SSE, of four
processes, the local ones over standard input and output.

This version is the last of a package of its own, and runs on Node.js 20; the inspector's second
version wants 22.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.access.keys import new
from tests.integration.api.mcp import test_local
from tests.integration.api.mcp.test_python_client import NAMES, WALLET, without_time
from tests.support import npm

pytestmark = pytest.mark.node
SOURCE = Path(__file__).parent / "inspector"
PACKAGE = "@modelcontextprotocol/inspector-cli"
PATHS = {"http": "/mcp", "sse": "/mcp/sse"}


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest) -> Path:
    return npm.installed(request, "mcp-inspector", SOURCE, PACKAGE)


def inspect(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", f"{PACKAGE}/build/cli.js", "--cli", *arguments],
        cwd=folder / "node_modules",  # it says which client it is by the package.json above
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def found(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def called(name: str, **arguments: str) -> list[str]:
    """Return the options of a call."""
    values = [f"{argument}={value}" for argument, value in arguments.items()]
    return ["--method", "tools/call", "--tool-name", name, "--tool-arg", *values]


@pytest.mark.parametrize("kind", PATHS)
def test_the_hosted_tools_answer_as_rest_does(folder, four, kind) -> None:
    url, key = four[0].url, four[0].key
    hosted = (f"{url}{PATHS[kind]}", "--transport", kind, "--header", f"x-api-key: {key}")
    tools = found(inspect(folder, *hosted, "--method", "tools/list"))["tools"]
    assert {tool["name"] for tool in tools} == NAMES
    resources = found(inspect(folder, *hosted, "--method", "resources/list"))["resources"]
    assert {each["uri"] for each in resources} == {"soltape://glossary", "soltape://covered"}
    result = found(inspect(folder, *hosted, *called("get_holdings", wallet=WALLET)))
    assert not result.get("isError"), result
    method, path = result["structuredContent"]["rest"].split()
    rest = httpx.request(method, f"{url}{path}", headers={"x-api-key": key}, timeout=60)
    assert without_time(result["structuredContent"]["answer"]) == without_time(rest.json())


@pytest.mark.parametrize("kind", PATHS)
def test_the_hosted_tools_say_what_is_refused(folder, four, kind, make_key) -> None:
    address = (f"{four[0].url}{PATHS[kind]}", "--transport", kind, "--header")
    free = (*address, f"x-api-key: {make_key('free')}")
    for call, code in (
        (called("get_all_lp", wallet=WALLET), "not_in_plan"),
        (called("get_holdings", wallet="nobody"), "invalid_address"),
    ):
        result = found(inspect(folder, *free, *call))
        assert result["isError"]
        assert json.loads(result["content"][0]["text"])["code"] == code
    unknown = inspect(folder, *address, f"x-api-key: {new()}", "--method", "tools/list")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "401" in unknown.stderr


def test_the_local_tools_answer_as_rest_does(folder, api) -> None:
    local = (sys.executable, "-m", "infra.cli", "mcp")
    redis = {"REDIS_URL": str(api.settings.redis_url)}
    tools = found(inspect(folder, *local, "--method", "tools/list", **redis))["tools"]
    assert {tool["name"] for tool in tools} == test_local.NAMES
    result = found(inspect(folder, *local, *called("get_wallet_positions", wallet=WALLET), **redis))
    headers = {"x-api-key": api.key}
    rest = httpx.get(f"{api.url}/api/wallets/{WALLET}", headers=headers, timeout=60)
    assert result["structuredContent"]["answer"]["positions"] == rest.json()["positions"]
    result = found(inspect(folder, *local, *called("search_knowledge", query="FIFO"), **redis))
    assert "FIFO" in result["structuredContent"]["passages"][0]["title"]
