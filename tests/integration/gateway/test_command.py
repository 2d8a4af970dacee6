"""`soltape gateway` as a person meets it: help, wrong settings, a port that is taken, Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from infra.local.process import free_port
from tests.support.gateway.running import running_gateway
from tests.support.waiting import WITHIN_S


def soltape(*arguments, **settings):
    return subprocess.run(
        [sys.executable, "-m", "infra.cli", *arguments],
        env={**os.environ, "METRICS_PORT_GATEWAY": str(free_port()), **settings},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def test_help_says_where_to_connect_and_what_to_say():
    said = soltape("gateway", "--help").stdout
    for each in ("/ws", "/ws/trending-pairs", "api_key", "subscribe", "GATEWAY_PORT", "1001"):
        assert each in said


def test_a_port_that_is_taken_is_named_with_its_setting():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = soltape("gateway", GATEWAY_PORT=str(port))
    assert done.returncode == 1
    assert str(port) in done.stderr
    assert "GATEWAY_PORT" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"GATEWAY_HOST": "203.0.113.1"}, "GATEWAY_HOST"),
        ({"GATEWAY_IDLE_S": "10"}, "GATEWAY_IDLE_S"),
        ({"GATEWAY_QUEUE_KIB": "1"}, "GATEWAY_QUEUE_KIB"),
    ],
)
def test_a_setting_that_cannot_be_is_named(settings, named):
    done = soltape("gateway", **{"GATEWAY_PORT": str(free_port()), **settings})
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_quietly(tmp_path, valkey_port, number):
    with running_gateway(tmp_path, valkey_port) as gateway:
        gateway.child.send_signal(number)
        assert gateway.child.wait(WITHIN_S) == 0
        assert "Traceback" not in gateway.said()
        assert "stopped" in gateway.said()
