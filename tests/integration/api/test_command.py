"""`soltape api` as a process: where it listens, how it stops, what it says when it cannot serve."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from infra.local.process import free_port
from infra.settings import Settings
from tests.support.systems import bound
from tests.support.waiting import eventually, without_error

SOL = "So11111111111111111111111111111111111111112"
BODY = json.dumps({"mints": [SOL]}).encode()
SOLTAPE = (sys.executable, "-m", "infra.cli")


def begun(api):
    """Return a connection with a request whose body is still to come."""
    connection = socket.create_connection((api.host, api.port), timeout=120)
    connection.sendall(
        b"POST /api/tokens/batch HTTP/1.1\r\nhost: localhost\r\nx-api-key: %b\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
        % (api.key.encode(), len(BODY))
    )
    api.until_metric("soltape_api_running_requests 1.0")
    return connection


def read_all(connection):
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


def refuses(url):
    try:
        httpx.get(f"{url}/api/health/live")
    except httpx.ConnectError:
        return True
    except httpx.ReadError:  # the kernel connected it, and the server closed its queue
        return False
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_in_flight_is_answered_before_it_stops(serve, number):
    with serve() as api, begun(api) as connection, httpx.Client() as idle:
        assert idle.get(f"{api.url}/api/health/live").status_code == 200
        api.process.send_signal(number)
        eventually(lambda: refuses(api.url))
        connection.sendall(BODY)
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b'"as_of_slot"' in answer
        api.process.wait(60)
        assert api.process.returncode == 0
        assert "Traceback" not in api.logged()
        assert '"stopped"' in api.logged()
        # Its access line was not lost.
        assert '"path":"/api/tokens/batch","status":200' in api.logged()


def test_a_request_that_does_not_end_gets_a_503_and_does_not_delay_the_stop(serve):
    with serve() as api, begun(api) as connection:
        api.stop()
        assert api.process.returncode == 0
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'"code":"busy"' in answer
        assert b"server is stopping" in answer
        assert "Traceback" not in api.logged()


def test_ready_says_that_it_is_stopping(serve):
    with serve() as api, begun(api):
        assert httpx.get(f"{api.metrics_url}/ready").status_code == 200
        api.process.terminate()
        answer = eventually(
            lambda: (answer := httpx.get(f"{api.metrics_url}/ready")).status_code == 503 and answer
        )
        assert answer.json()["lacking"] == {"api": "is stopping"}


def run(stores, **settings):
    ours = {name.upper() for name in Settings.model_fields}
    plain = {name: value for name, value in os.environ.items() if name not in ours}
    given = {"REDIS_URL": stores.redis_url, "CLICKHOUSE_URL": stores.clickhouse_url}
    return subprocess.run(
        [*SOLTAPE, "api"],
        cwd=stores.soltape_data,
        env=plain | given | settings,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_port_in_use_names_its_setting(api, stores):
    ended = run(stores, API_PORT=str(api.port), METRICS_PORT_API=str(free_port()))
    assert ended.returncode == 1
    assert f"port {api.port} on 127.0.0.1 is in use" in ended.stderr
    assert "API_PORT" in ended.stderr
    assert "Traceback" not in ended.stderr
    metrics_port = api.settings.metrics_port_api
    ended = run(stores, API_PORT=str(free_port()), METRICS_PORT_API=str(metrics_port))
    assert ended.returncode == 1
    assert "METRICS_PORT_API" in ended.stderr


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_here_names_its_setting(stores, host):
    ended = run(stores, API_HOST=host, API_PORT=str(free_port()))
    assert ended.returncode == 2
    assert f"API_HOST='{host}'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_several_processes_share_an_address(serve):
    port = free_port()
    with (
        serve(api_reuse_port=True, api_port=port) as first,
        serve(api_reuse_port=True, api_port=port) as second,
    ):
        for _ in range(40):  # a connection each
            answer = httpx.get(f"{first.url}/api/health", headers={"x-api-key": first.key})
            assert answer.status_code == 200

        def lines_of_each():
            lines = [api.logged().count('"path":"/api/health"') for api in (first, second)]
            return sum(lines) >= 40 and lines

        lines = eventually(lines_of_each)
        assert sum(lines) == 40
        assert min(lines) > 0


def test_it_is_served_over_ipv6(serve):
    with serve(api_host="::1") as api:
        assert httpx.get(f"{api.url}/api/health/live").json() == {"status": "ok"}


def test_it_serves_though_the_demo_key_cannot_be_kept(stores, tmp_path):
    """What is in the file may be the user's: it stays, and everything else serves."""
    file = tmp_path / "demo-key"
    file.write_text("something else\n")
    port = free_port()
    settings = {
        "REDIS_URL": stores.redis_url,
        "CLICKHOUSE_URL": stores.clickhouse_url,
        "API_PORT": str(port),
        "METRICS_PORT_API": str(free_port()),
    }
    process = subprocess.Popen(
        bound([*SOLTAPE, "api", "--demo-key", str(file)]),
        cwd=tmp_path,
        env=os.environ | settings,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        url = f"http://127.0.0.1:{port}/api/health/live"
        assert without_error(lambda: httpx.get(url), httpx.ConnectError).status_code == 200
    finally:
        process.terminate()
        _, said = process.communicate(timeout=120)
    assert "there is no demo key" in said
    assert file.read_text() == "something else\n"
