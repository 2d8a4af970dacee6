"""The tools as the SDK for Node sees them, over both transports, of four processes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.access.keys import new
from tests.integration.api.mcp.test_python_client import NAMES, WALLET, without_time
from tests.support import npm

pytestmark = pytest.mark.node
SCRIPT = Path(__file__).parent / "node"


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest) -> Path:
    return installed(request)


def installed(request: pytest.FixtureRequest) -> Path:
    """Return the folder of the client, with its package."""
    return npm.installed(request, "mcp-client", SCRIPT, "@modelcontextprotocol/sdk")


def run(folder: Path, url: str, key: str, kind: str, calls: list[list[str]]) -> list[Any]:
    done = subprocess.run(
        ["node", "client.js", url, key, kind],
        cwd=folder,
        input="".join(json.dumps(call) + "\n" for call in calls),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_answers_hold_to_their_schemas_and_are_those_of_rest(folder, four, kind) -> None:
    url, key = four[0].url, four[0].key
    calls = [
        [name, WALLET]
        for name in ("get_holdings", "get_all_dex", "get_all_lending", "get_all_rewards")
    ]
    listed, *results = run(folder, url, key, kind, calls)
    assert set(listed["tools"]) == NAMES
    assert set(listed["resources"]) == {"soltape://glossary", "soltape://covered"}
    assert len(results) == len(calls)
    for result in results:
        assert not result.get("isError"), result
        found = result["structuredContent"]
        method, path = found["rest"].split()
        rest = httpx.request(method, f"{url}{path}", headers={"x-api-key": key}, timeout=60)
        assert without_time(found["answer"]) == without_time(rest.json())


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_errors_are_those_of_the_tool(folder, four, kind, make_key) -> None:
    calls = [["get_all_lp", WALLET], ["get_holdings", "nobody"]]
    _, *results = run(folder, four[0].url, make_key("free"), kind, calls)
    assert [each["isError"] for each in results] == [True, True]
    codes = [json.loads(each["content"][0]["text"])["code"] for each in results]
    assert codes == ["not_in_plan", "invalid_address"]


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_calls_over_the_rate_are_errors_of_the_tool(folder, four, kind, make_key) -> None:
    calls = [["get_holdings", WALLET]] * 61
    _, *results = run(folder, four[0].url, make_key("free"), kind, calls)
    refused = [json.loads(each["content"][0]["text"]) for each in results if each.get("isError")]
    assert refused
    assert {each["code"] for each in refused} == {"rate_exceeded"}


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_a_key_that_is_unknown_does_not_connect(folder, four, kind) -> None:
    [answer] = run(folder, four[0].url, new(), kind, [])
    assert "401" in answer["refused"]
