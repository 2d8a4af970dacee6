"""Every action and error once more, as Node's `ws` has them."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest

from schemas import channels
from tests.support import npm
from tests.support.gateway.running import SLUGS, swap
from tests.support.systems import bound
from tests.support.waiting import WITHIN_S

SCRIPT = Path(__file__).parent / "node_client"
WSOL = "So11111111111111111111111111111111111111112"

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest) -> Path:
    """The client, from the npm registry; kept between runs."""
    return npm.installed(request, "ws-client", SCRIPT, "ws")


def talk(installed, gateway, key, *said, path="/ws", publish=None):
    """Let the client say its messages; return what it saw."""
    node = subprocess.Popen(
        bound(["node", "talk.mjs", f"{gateway.url}{path}", key]),
        cwd=installed,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    giving_up = threading.Timer(WITHIN_S, node.kill)
    giving_up.start()
    try:
        lines = [each if isinstance(each, str) else json.dumps(each) for each in said]
        node.stdin.write("\n".join(lines))
        node.stdin.close()
        if publish is not None:
            assert node.stderr.readline() == "waiting\n"
            publish()
        return json.loads(node.stdout.read())
    finally:
        giving_up.cancel()
        node.kill()
        node.wait()
        node.stdout.close()
        node.stderr.close()


def test_every_action(installed, gateway, key):
    def publish():
        gateway.publish(
            channels.SWAPS,
            swap("raydium-cpmm", number=1),
            swap("pump-swap", number=2, filler="é€𝄞" * 30_000),
            swap("pump-fun", number=3),
        )

    seen = talk(
        installed,
        gateway,
        key,
        {"action": "ping", "request_id": "first"},
        {"action": "subscribe", "channel": "creations", "platforms": ["bonk"]},
        {"action": "subscribe", "channel": "prices", "mints": [WSOL]},
        {"action": "subscribe", "channel": "status"},
        {"action": "subscribe", "channel": "swaps", "token": WSOL},
        {"action": "subscribe", "channel": "swaps", "dex": ["pump-fun", "pump-swap"]},
        {"action": "unsubscribe", "channel": "status"},
        "ping",
        "wait 2",
        {"action": "unsubscribe", "channel": "swaps"},
        "close",
        publish=publish,
    )
    assert (seen["code"], seen["reason"], seen["pongs"]) == (4123, "", 1)
    messages = seen["messages"]
    assert not any(each["isBinary"] for each in messages)
    assert [(each["type"], each.get("channel")) for each in messages] == [
        ("pong", None),
        ("subscribed", "creations"),
        ("subscribed", "prices"),
        ("subscribed", "status"),
        ("subscribed", "swaps"),
        ("subscribed", "swaps"),
        ("unsubscribed", "status"),
        ("swap", "swaps"),
        ("swap", "swaps"),
        ("unsubscribed", "swaps"),
    ]
    assert messages[0]["request_id"] == "first"
    assert [each.get("replaces") for each in messages[1:6]] == [False, False, False, False, True]
    assert [each["data"]["number"] for each in messages[7:9]] == [2, 3]
    assert messages[7]["data"]["filler"] == "é€𝄞" * 30_000


def test_every_error(installed, gateway, key):
    said = {
        "{": "bad_json",
        "7": "not_an_object",
        'binary {"action": "ping"}': "binary_frame",
        '{"action": "x"}': "unknown_action",
        '{"action": "subscribe", "channel": "x"}': "unknown_channel",
        '{"action": "ping", "x": 1}': "unknown_field",
        '{"action": "subscribe", "channel": "swaps", "dex": []}': "wrong_type",
        '{"action": "subscribe", "channel": "swaps", "dex": "x"}': "unknown_dex",
        '{"action": "subscribe", "channel": "creations", "platforms": ["x"]}': "unknown_platform",
        '{"action": "subscribe", "channel": "swaps", "token": "x"}': "invalid_address",
        json.dumps(
            {"action": "subscribe", "channel": "swaps", "wallets": [WSOL] * 101}
        ): "too_many_wallets",
        json.dumps(
            {"action": "subscribe", "channel": "prices", "mints": [WSOL] * 101}
        ): "too_many_mints",
        '{"action": "unsubscribe", "channel": "swaps"}': "not_subscribed",
        '{"action": "subscribe", "channel": "swaps", "since": "x"}': "bad_since",
        '{"action": "subscribe", "channel": "prices", "snapshot": true}': "snapshot_needs_mints",
    }
    seen = talk(installed, gateway, key, *said, "close")
    assert [each["code"] for each in seen["messages"]] == list(said.values())
    [unknown_dex] = [each for each in seen["messages"] if each["code"] == "unknown_dex"]
    assert unknown_dex["accepted"] == sorted(SLUGS.dexes)
    assert seen["code"] == 4123


def test_trending(installed, gateway, key):
    seen = talk(
        installed,
        gateway,
        key,
        {"action": "subscribe", "dex": "*"},
        "wait 1",
        {"action": "subscribe", "dex": ["moonit"]},
        "wait 1",
        {"action": "unsubscribe"},
        "close",
        path="/ws/trending-pairs",
    )
    assert [each["type"] for each in seen["messages"]] == [
        *("subscribed", "snapshot", "subscribed", "snapshot", "unsubscribed")
    ]


def test_a_refused_handshake(installed, gateway):
    seen = talk(installed, gateway, "soltape_wrong")
    assert (seen["status"], seen["body"]["code"]) == (401, "key_malformed")


def test_too_many_messages(installed, gateway, key):
    seen = talk(installed, gateway, key, *(['{"action": "ping"}'] * 20_000))
    assert seen["code"] == 4029
    assert seen["messages"][-1]["code"] == "too_many_messages"
