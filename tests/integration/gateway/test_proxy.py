"""One address in production: the proxy as it is shipped, in front of a gateway and an API."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

import infra
from api.dashboard import routes
from infra.local.process import free_port
from schemas import channels
from tests.integration.api.mcp.test_python_client import NAMES, content_of, session_of
from tests.support.gateway.running import swap
from tests.support.systems import bound
from tests.support.waiting import WITHIN_S, eventually, eventually_async

INFRA = Path(infra.__file__).parent
CADDY = Path(sys.executable).with_name("caddy")


def answers(url):
    try:
        return httpx.get(url, timeout=240).status_code == 200
    except httpx.HTTPError:
        return False


@contextlib.contextmanager
def running(command, log, environment, url):
    with log.open("wb") as output:
        child = subprocess.Popen(
            bound(command), env={**os.environ, **environment}, stdout=output, stderr=output
        )
    try:
        eventually(lambda: answers(url) or child.poll() is not None, log.read_text)
        assert child.poll() is None, log.read_text()
        yield child
    finally:
        child.terminate()
        child.wait(WITHIN_S)


@contextlib.contextmanager
def proxied(folder, **environment):
    """Run the proxy; yield its address and its log."""
    port = free_port()
    caddy = str(CADDY) if CADDY.exists() else shutil.which("caddy")
    assert caddy
    folder.mkdir()
    settings = {
        "SITE_ADDRESS": f"http://127.0.0.1:{port}",  # without TLS
        "API_NAME": "127.0.0.1",
        "GATEWAY_NAME": "127.0.0.1",
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        **environment,
    }
    command = [caddy, "run", "--config", str(INFRA / "Caddyfile"), "--adapter", "caddyfile"]
    url = f"http://127.0.0.1:{port}"
    log = folder / "proxy.log"
    with running(command, log, settings, f"{url}/api/health/live"):
        yield url, log


@pytest.fixture(scope="module")
def proxy(gateway, tmp_path_factory):
    """The proxy in front of a gateway and an API."""
    folder = tmp_path_factory.mktemp("proxy")
    api_port = free_port()
    environment = {
        "API_PORT": str(api_port),
        "METRICS_PORT_API": str(free_port()),
        "REDIS_URL": gateway.settings.redis_url,
        "ACCESS_REDIS_URL": gateway.settings.access_redis_url or "",
        "SOLTAPE_DATA": str(folder),
    }
    command = [
        *(sys.executable, "-m", "infra.cli", "api"),
        *("--demo-key", str(folder / "demo-key")),
    ]
    live = f"http://127.0.0.1:{api_port}/api/health/live"
    with (
        running(command, folder / "api.log", environment, live),
        proxied(
            folder / "proxy", API_PORT=str(api_port), GATEWAY_PORT=str(gateway.port)
        ) as reached,
    ):
        yield reached


def test_page_documentation_and_api_are_at_one_address(proxy, gateway):
    url, _ = proxy
    page = httpx.get(f"{url}/")
    assert page.text == (routes.FOLDER / "index.html").read_text()
    assert page.headers.get_list("content-security-policy") == [
        page.headers["content-security-policy"]
    ]
    assert "max-age" in page.headers["strict-transport-security"]
    again = httpx.get(f"{url}/", headers={"if-none-match": page.headers["etag"]})
    assert again.status_code == 304
    assert httpx.get(f"{url}/docs").status_code == 200
    usage = httpx.get(f"{url}/api/usage", headers={"x-api-key": gateway.key()})
    assert usage.json()["plan"] == "enterprise"


def test_behind_a_proxy_the_page_finds_the_websocket_there_and_no_session(proxy):
    url, _ = proxy
    config = {
        "websocket_url": None,
        "session": False,
        "account": None,
        "account_id": None,
        "sign_in_url": None,
    }
    assert httpx.get(f"{url}/dashboard.json").json() == config


async def heard(client, kind):
    """Wait for a message of a kind; there may be notices before it."""
    async with asyncio.timeout(WITHIN_S):
        while (message := json.loads(await client.recv()))["type"] != kind:
            pass
    return message


async def test_events_come_through_the_proxy(proxy, gateway, key):
    url, _ = proxy
    address = url.replace("http", "ws")
    async with connect(f"{address}/ws?api_key={key}") as client:
        await client.send(json.dumps({"action": "subscribe", "channel": "swaps"}))
        await heard(client, "subscribed")
        entry = await asyncio.to_thread(gateway.publish, channels.SWAPS, swap(number=7))
        message = await heard(client, "swap")
        assert (message["data"]["number"], message["id"]) == (7, f"{entry}-0")
        assert await (await client.ping()) >= 0
    async with connect(
        f"{address}/ws/trending-pairs", additional_headers={"x-api-key": key}
    ) as client:
        await client.send(json.dumps({"action": "ping"}))
        await heard(client, "pong")


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_agents_call_tools_through_the_proxy(proxy, key, transport):
    url, _ = proxy
    async with session_of(url, key, transport) as session:
        assert {tool.name for tool in (await session.list_tools()).tools} == NAMES
        result = await session.call_tool("get_holdings", {"wallet": "nobody"})
        assert (result.is_error, content_of(result)["code"]) == (True, "invalid_address")


async def test_refusals_come_through_the_proxy_as_they_are(proxy):
    url, _ = proxy
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"{url.replace('http', 'ws')}/ws")
    response = refused.value.response
    assert response.status_code == 401
    assert response.headers["content-type"] == "application/problem+json"
    assert json.loads(response.body)["code"] == "key_missing"


async def test_a_key_is_in_no_line_of_the_proxy_not_even_where_it_fails(tmp_path, key):
    nowhere = str(free_port())
    port = free_port()
    environment = {"API_PORT": str(port), "METRICS_PORT_API": str(free_port())}
    command = [sys.executable, "-m", "infra.cli", "api"]
    live = f"http://127.0.0.1:{port}/api/health/live"
    with (
        running(command, tmp_path / "api.log", environment, live),
        proxied(tmp_path / "proxy", API_PORT=str(port), GATEWAY_PORT=nowhere) as (url, log),
    ):
        with pytest.raises(InvalidStatus) as refused:
            await connect(
                f"{url.replace('http', 'ws')}/ws?api_key={key}",
                additional_headers={"x-api-key": key},
            )
        assert refused.value.response.status_code == 502
        await eventually_async(lambda: "/ws?" in log.read_text(), log.read_text)
        assert key not in log.read_text()
        assert "HIDDEN" in log.read_text()
