"""Which clients are admitted, and the HTTP answers of the others, before there is a WebSocket."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from api.access import keys, register, users
from api.access.keys import new
from api.access.users import Identity
from infra.listening import allow_connections
from infra.local.process import free_port
from infra.redis.embedded import valkey
from tests.support.gateway.running import (
    Gateway,
    closing,
    opened,
    running_gateway,
)
from tests.support.systems import Mortal, running_valkey
from tests.support.waiting import WITHIN_S, without_error_async

UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
SOCKET = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # what RFC 6455 answers to that key


def asked(gateway, path, headers=(), method="GET"):
    """Ask over HTTP; return the answer, its body read."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=WITHIN_S)
    try:
        connection.request(method, path, headers=dict(headers))
        answer: Any = connection.getresponse()
        answer.body = answer.read()
        return answer
    finally:
        connection.close()


def problem(answer, code):
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"].lower().endswith("close")
    body = json.loads(answer.body)
    assert body["code"] == code
    assert body["status"] == answer.status
    assert body["detail"]
    return body


def sent(gateway, data, *, end=False):
    """Send bytes; return all that is answered until the gateway closes."""
    with socket.create_connection(("127.0.0.1", gateway.port), WITHIN_S) as raw:
        raw.sendall(data)
        if end:
            raw.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: raw.recv(65_536), b""))


def switched(gateway, path, headers):
    """Ask for a WebSocket; return the head of the answer."""
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    with socket.create_connection(("127.0.0.1", gateway.port), WITHIN_S) as raw:
        raw.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            piece = raw.recv(4096)
            assert piece, head
            head += piece
        return head


class TestLetIn:
    @pytest.mark.parametrize("path", ["/ws", "/ws/trending-pairs"])
    @pytest.mark.parametrize(
        "changed",
        [
            {},
            {"Connection": "keep-alive, Upgrade"},  # Firefox
            {"Connection": "upgrade", "Upgrade": "WebSocket"},
            {"Origin": "https://example.com", "Sec-WebSocket-Extensions": "permessage-deflate"},
            {"Sec-WebSocket-Protocol": "chat"},
        ],
    )
    def test_handshakes_as_they_come(self, gateway, key, path, changed):
        head = switched(gateway, f"{path}?api_key={key}", {**UPGRADE, **changed})
        assert head.startswith(b"HTTP/1.1 101 ")
        fields = dict(line.split(": ") for line in head.decode().split("\r\n")[1:-2])
        assert fields["Sec-WebSocket-Accept"] == SOCKET
        assert "Sec-WebSocket-Extensions" not in fields
        assert "Sec-WebSocket-Protocol" not in fields

    def test_the_key_as_a_header(self, gateway, key):
        assert b" 101 " in switched(gateway, "/ws", {**UPGRADE, "X-Api-Key": key})

    def test_the_same_key_twice(self, gateway, key):
        head = switched(gateway, f"/ws?x=1&api_key={key}", {**UPGRADE, "x-api-key": key})
        assert b" 101 " in head

    def test_a_message_may_follow_the_head_at_once(self, gateway, key):
        lines = [f"GET /ws?api_key={key} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in UPGRADE.items()]
        payload = b'{"action":"ping"}' + b" " * 5_000
        frame = b"\x81\xfe" + len(payload).to_bytes(2, "big") + b"\0\0\0\0" + payload
        with socket.create_connection(("127.0.0.1", gateway.port), WITHIN_S) as raw:
            raw.sendall("\r\n".join([*lines, "", ""]).encode() + frame)
            read = b""
            while b'"pong"' not in read:
                piece = raw.recv(4096)
                assert piece, read
                read += piece

    def test_alive(self, gateway):
        answer = asked(gateway, "/health/live")
        assert (answer.status, json.loads(answer.body)) == (200, {"status": "ok"})
        answer = asked(gateway, "/health/live", method="HEAD")
        assert (answer.status, answer.body) == (200, b"")


class TestRefused:
    @pytest.mark.parametrize(
        ("query", "code"),
        [
            ("", "key_missing"),
            ("?api_key=", "key_missing"),
            ("?apikey=x", "key_missing"),
            ("?api_key=x", "key_malformed"),
            ("?api_key=soltape_%00%ff", "key_malformed"),
            pytest.param(f"?api_key={new()}", "key_unknown", id="unknown"),
        ],
    )
    def test_keys(self, gateway, query, code):
        answer = asked(gateway, f"/ws{query}", UPGRADE)
        assert answer.status == 401
        assert "ApiKey" in answer.headers["www-authenticate"]
        assert problem(answer, code)["instance"] == "/ws"

    def test_a_client_of_another_make_gets_an_answer_too(self, gateway):
        async def refused():
            with pytest.raises(InvalidStatus) as caught:
                await connect(f"{gateway.url}/ws")
            return caught.value.response

        response = asyncio.run(refused())
        assert response.status_code == 401
        assert json.loads(response.body)["code"] == "key_missing"

    def test_two_keys(self, gateway, key):
        other = gateway.key()
        answer = asked(gateway, f"/ws?api_key={key}", {**UPGRADE, "x-api-key": other})
        body = problem(answer, "keys_differ")
        assert answer.status == 400
        assert key not in str(body)
        answer = asked(gateway, f"/ws?api_key={key}&api_key={other}", UPGRADE)
        assert answer.status == 400

    async def test_more_connections_than_the_plan_has(self, gateway):
        key = await asyncio.to_thread(gateway.key, "pro")
        async with opened(gateway, key):
            answer = await asyncio.to_thread(asked, gateway, f"/ws?api_key={key}", UPGRADE)
            assert answer.status == 429
            problem(answer, "too_many_connections")
            assert int(answer.headers["retry-after"]) > 0
        # The place is free once the gateway has seen the end.
        await (await without_error_async(lambda: opened(gateway, key), InvalidStatus)).close()

    @pytest.mark.parametrize(
        "path", ["/", "/ws/", "/ws/x", "/WS", "/metrics", "//ws", "/%77s", "http://localhost/ws"]
    )
    def test_paths(self, gateway, key, path):
        answer = asked(gateway, f"{path}?api_key={key}", UPGRADE)
        assert answer.status == 404
        assert "/ws" in problem(answer, "not_found")["detail"]

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
    def test_methods(self, gateway, method):
        answer = asked(gateway, "/ws", UPGRADE, method)
        assert (answer.status, answer.headers["allow"]) == (405, "GET")
        problem(answer, "method_not_allowed")

    def test_a_browser_gets_an_explanation(self, gateway, key):
        answer = asked(gateway, f"/ws?api_key={key}")
        assert answer.status == 426
        assert answer.headers["upgrade"] == "websocket"
        assert "WebSocket" in problem(answer, "upgrade_required")["detail"]

    @pytest.mark.parametrize("version", ["8", "14", "", "13, 13"])
    def test_versions(self, gateway, key, version):
        headers = {**UPGRADE, "Sec-WebSocket-Version": version}
        answer = asked(gateway, f"/ws?api_key={key}", headers)
        assert (answer.status, answer.headers["sec-websocket-version"]) == (426, "13")
        problem(answer, "websocket_version")

    @pytest.mark.parametrize("nonce", ["", "x", "dGhlIHNhbXBsZSBub25jZQ", "é" * 24, "A" * 24])
    def test_nonces(self, gateway, key, nonce):
        headers = {**UPGRADE, "Sec-WebSocket-Key": nonce.encode()}
        answer = asked(gateway, f"/ws?api_key={key}", headers)
        assert answer.status == 400
        problem(answer, "malformed_request")

    @pytest.mark.parametrize(
        "data",
        [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
            b"\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET /ws\r\n\r\n",
            b"GET /ws HTTP/1.1\r\nno field\r\n\r\n",
            b"GET /ws HTTP/1.1\r\na: b\r\n folded: c\r\nUpgrade : websocket\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x00" * 100,
        ],
    )
    def test_what_is_no_http(self, gateway, data):
        answer = sent(gateway, data)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"malformed_request" in answer

    def test_a_head_without_end(self, gateway):
        answer = sent(gateway, b"GET /ws HTTP/1.1\r\nx: " + b"y" * 200_000)
        assert answer.startswith(b"HTTP/1.1 431 ")

    def test_too_many_fields(self, gateway):
        fields = b"".join(b"x%d: y\r\n" % number for number in range(101))
        answer = sent(gateway, b"GET /ws HTTP/1.1\r\n" + fields + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 431 ")

    def test_a_head_that_does_not_come(self, gateway):
        answer = sent(gateway, b"GET /ws HTTP/1.1\r\nHost: localhost\r\n")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"request_timed_out" in answer

    @pytest.mark.parametrize("path", ["/ws", "/health/live", "/"])
    def test_a_name_that_is_not_ours(self, gateway, path):
        head = f"GET {path} HTTP/1.1\r\nHost: evil.example:8001\r\n\r\n"
        answer = sent(gateway, head.encode())
        assert answer.startswith(b"HTTP/1.1 421 ")
        assert b"misdirected" in answer

    def test_half_a_head_and_then_the_end(self, gateway):
        assert sent(gateway, b"GET /ws HT", end=True) == b""
        assert asked(gateway, "/health/live").status == 200


@contextmanager
def silent(gateway, count, addresses, says=b""):
    """Open connections that never send a whole head; yield them, the oldest first."""
    allow_connections(count)
    with ExitStack() as held:
        yield [
            held.enter_context(_silent(gateway, f"127.0.0.{2 + number % addresses}", says))
            for number in range(count)
        ]


def _silent(gateway, address, says):
    source = (address, 0)
    raw = socket.create_connection(("127.0.0.1", gateway.port), WITHIN_S, source_address=source)
    raw.sendall(says)
    return raw


class TestSilent:
    @pytest.mark.parametrize(("addresses", "says"), [(1, b""), (1, b"GET /ws HTTP/1.1"), (6, b"")])
    async def test_they_keep_nobody_out(self, gateway, key, addresses, says):
        before = gateway.metric("soltape_gateway_gave_way_total")
        with silent(gateway, 1_500, addresses, says):
            assert (await asyncio.to_thread(asked, gateway, "/health/live")).status == 200
            async with opened(gateway, key):
                pass
            # From an address of theirs, too.
            async with opened(gateway, key, local_addr=("127.0.0.2", 0)):
                pass
        assert gateway.metric("soltape_gateway_gave_way_total") > before

    def test_the_oldest_of_an_address_gives_way_and_others_stay(self, gateway):
        other = _silent(gateway, "127.0.0.9", b"")
        with other, silent(gateway, 257, 1) as crowd:
            crowd[0].settimeout(WITHIN_S)
            assert crowd[0].recv(1) == b""
            for one in (other, crowd[-1]):
                one.sendall(b"GET /health/live HTTP/1.1\r\n\r\n")
                assert one.recv(15) == b"HTTP/1.1 200 OK"

    def test_there_are_files_for_them_beside_those_of_connections(self, tmp_path, valkey_port):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # What the gateway begins with; this process has files of its own.
        few_files = max(256, len(os.listdir("/proc/self/fd")) + 64)
        resource.setrlimit(resource.RLIMIT_NOFILE, (few_files, hard))
        with ExitStack() as running:
            try:
                few = running_gateway(tmp_path, valkey_port, gateway_max_connections=1)
                gateway = running.enter_context(few)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            with silent(gateway, 1_000, 6):
                assert asked(gateway, "/health/live").status == 200


class TestBounds:
    async def test_connections_of_a_process(self, tmp_path, valkey_port):
        with running_gateway(tmp_path, valkey_port, gateway_max_connections=2) as gateway:
            key = await asyncio.to_thread(gateway.key)
            async with opened(gateway, key), opened(gateway, key) as second:
                answer = await asyncio.to_thread(asked, gateway, f"/ws?api_key={key}", UPGRADE)
                assert answer.status == 503
                problem(answer, "busy")
                assert (await asyncio.to_thread(asked, gateway, "/health/live")).status == 200
                await second.close()
                await (
                    await without_error_async(lambda: opened(gateway, key), InvalidStatus)
                ).close()

    async def test_connections_of_a_key_and_those_kept_for_another(self, tmp_path, valkey_port):
        for name in ("made", "kept"):
            (tmp_path / name).mkdir()
        made = {"gateway_max_connections": 4, "gateway_max_connections_per_key": 2}
        with running_gateway(tmp_path / "made", valkey_port, **made) as gateway:
            greedy, kept, other = [await asyncio.to_thread(gateway.key) for _ in range(3)]
            async with opened(gateway, greedy), opened(gateway, greedy):
                answer = await asyncio.to_thread(asked, gateway, f"/ws?api_key={greedy}", UPGRADE)
                assert answer.status == 429
                problem(answer, "too_many_connections")
                async with opened(gateway, other):
                    pass
        made |= {"gateway_reserved": f"{keys.key_id(keys.parse(kept))}:3"}
        with running_gateway(tmp_path / "kept", valkey_port, **made) as gateway:
            async with opened(gateway, other), AsyncExitStack() as mine:
                answer = await asyncio.to_thread(asked, gateway, f"/ws?api_key={greedy}", UPGRADE)
                problem(answer, "busy")
                for _ in range(3):  # more than a key has that keeps none
                    await mine.enter_async_context(opened(gateway, kept))
                answer = await asyncio.to_thread(asked, gateway, f"/ws?api_key={kept}", UPGRADE)
                problem(answer, "busy")

    async def test_all_keys_of_a_user_have_the_connections_of_one(self, tmp_path, valkey_port):
        for name in ("made", "kept"):
            (tmp_path / name).mkdir()
        made = {"gateway_max_connections": 3, "gateway_max_connections_per_key": 1}
        with running_gateway(tmp_path / "made", valkey_port, **made) as gateway:
            redis = register.connect(gateway.settings)
            ann = Identity("https://issuer.example.com", "ann", "ann")
            user = await users.enter(redis, ann, 10)
            await users.set_plan(redis, user, "enterprise")
            one, another = [await users.create_key(redis, user, name) for name in ("a", "b")]
            await redis.aclose()
            async with opened(gateway, one):
                answer = await asyncio.to_thread(asked, gateway, f"/ws?api_key={another}", UPGRADE)
                assert answer.status == 429
                problem(answer, "too_many_connections")
        made |= {"gateway_reserved": f"{keys.key_id(user)}:2"}
        with running_gateway(tmp_path / "kept", valkey_port, **made) as gateway:
            async with opened(gateway, one), opened(gateway, another):
                answer = await asyncio.to_thread(asked, gateway, f"/ws?api_key={one}", UPGRADE)
                problem(answer, "too_many_connections")

    def test_sockets_of_closed_connections_are_bounded(self, tmp_path, valkey_port):
        with running_gateway(tmp_path, valkey_port) as gateway, ExitStack() as left_open:
            key, process = gateway.key(), psutil.Process(gateway.child.pid)
            head = "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items())
            asked_for = f"GET /ws?api_key={key} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n"
            most = 0
            for number in range(600):
                one = socket.create_connection(("127.0.0.1", gateway.port), timeout=WITHIN_S)
                left_open.enter_context(one)
                one.sendall(asked_for.encode())
                assert one.recv(12) == b"HTTP/1.1 101"
                one.sendall(b"\x88\x80\x00\x00\x00\x00")  # a close frame, and then nothing
                if number % 20 == 19:  # to look takes 20 ms
                    most = max(most, len(process.net_connections()))
            assert most <= 256 + 40  # beside those that are being let in, and the stores'
            assert asked(gateway, "/health/live").status == 200

    async def test_a_silent_client_gets_a_ping_and_then_a_close(self, tmp_path, valkey_port):
        with running_gateway(
            tmp_path, valkey_port, gateway_ping_s=0.5, gateway_idle_s=2.5
        ) as gateway:
            key = await asyncio.to_thread(gateway.key)
            # A client of `websockets` answers pings by itself.
            async with opened(gateway, key, ping_interval=None) as alive:
                silent = await asyncio.to_thread(
                    sent_by_silent, gateway, f"/ws?api_key={key}", UPGRADE
                )
                assert silent.startswith(b"\x89\x00")  # a ping
                code = silent[silent.index(b"\x88") + 2 :][:2]
                assert int.from_bytes(code, "big") == 4009
                await alive.send('{"action": "ping"}')
                assert json.loads(await alive.recv())["type"] == "pong"

    async def test_sigterm_asks_all_to_connect_again(self, tmp_path, valkey_port):
        with running_gateway(tmp_path, valkey_port) as gateway:
            key = await asyncio.to_thread(gateway.key)
            clients = [await opened(gateway, key) for _ in range(20)]
            await clients[0].send('{"action": "subscribe", "channel": "swaps"}')
            # One does not read, one has no handshake yet.
            with socket.create_connection(("127.0.0.1", gateway.port), WITHIN_S) as half:
                half.sendall(b"GET /ws HTTP/1.1\r\n")
                stopping = asyncio.create_task(asyncio.to_thread(gateway.stop))
                assert {(await closing(client))[0] for client in clients} == {1001}
                await stopping
        assert gateway.child.returncode == 0
        assert "Traceback" not in gateway.said()
        assert "stopped" in gateway.said()


def sent_by_silent(gateway, path, headers):
    """What a client is sent that is in and never answers."""
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    with socket.create_connection(("127.0.0.1", gateway.port), WITHIN_S) as raw:
        raw.sendall("\r\n".join([*lines, "", ""]).encode())
        read = b"".join(iter(lambda: raw.recv(65_536), b""))
    return read.partition(b"\r\n\r\n")[2]


@pytest.fixture
def mortal(tmp_path) -> Iterator[tuple[Gateway, ExitStack]]:
    """A gateway, and its Valkey, which a test may stop."""
    with ExitStack() as valkey:
        port = valkey.enter_context(running_valkey(tmp_path / "valkey"))
        with running_gateway(tmp_path, port) as gateway:
            yield gateway, valkey


async def test_while_redis_is_away_no_client_is_admitted_and_open_connections_stay(mortal):
    gateway, valkey = mortal
    key = await asyncio.to_thread(gateway.key)
    async with opened(gateway, key) as client:
        await asyncio.to_thread(valkey.close)
        async with asyncio.timeout(WITHIN_S):
            notice = json.loads(await client.recv())
        assert (notice["type"], notice["code"]) == ("notice", "source_away")
        answer = await asyncio.to_thread(asked, gateway, f"/ws?api_key={key}", UPGRADE)
        assert answer.status == 503
        problem(answer, "store_unavailable")
        await client.send('{"action": "ping"}')
        assert json.loads(await client.recv())["type"] == "pong"
    await asyncio.to_thread(gateway.stop)
    assert gateway.child.returncode == 0
    assert "Traceback" not in gateway.said()


async def first_answer(gateway, key):
    """What the first client gets once the port is open."""
    return await without_error_async(
        lambda: asyncio.to_thread(asked, gateway, f"/ws?api_key={key}", UPGRADE),
        ConnectionRefusedError,
    )


async def test_the_port_opens_when_clients_are_admitted(tmp_path, valkey_port):
    with running_gateway(tmp_path, valkey_port) as gateway:
        key = await asyncio.to_thread(gateway.key)
        for _ in range(3):
            await asyncio.to_thread(gateway.stop)
            gateway.begin()
            assert (await first_answer(gateway, key)).status == 101


async def test_no_client_is_admitted_before_the_gateway_has_read_the_streams(tmp_path, valkey_port):
    """What is published meanwhile goes to memory only: a subscriber would miss it without a gap."""
    port = free_port()
    store = Mortal(valkey(tmp_path / "valkey", "127.0.0.1", port))
    await store.start()
    keys_url = f"redis://127.0.0.1:{valkey_port}/1"
    try:
        with running_gateway(tmp_path, port, access_redis_url=keys_url) as gateway:
            key = await asyncio.to_thread(gateway.key)
            await asyncio.to_thread(gateway.stop)
            store.kill()
            gateway.begin()
            answer = await first_answer(gateway, key)
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            problem(answer, "starting")
            assert (await asyncio.to_thread(asked, gateway, "/health/live")).status == 200
            await store.start()
            client = await without_error_async(lambda: opened(gateway, key), InvalidStatus)
            async with client:
                await client.send('{"action": "subscribe", "channel": "swaps"}')
                assert json.loads(await client.recv())["type"] == "subscribed"
                await asyncio.to_thread(store.kill)  # admits on: it knows where it was
                assert json.loads(await client.recv())["code"] == "source_away"
                async with opened(gateway, key) as other:
                    assert json.loads(await other.recv())["code"] == "source_away"
    finally:
        store.kill()


def test_no_key_is_in_what_was_logged_or_counted(gateway, key):
    assert key not in gateway.said()
    assert "soltape_%" not in gateway.said()
    assert key not in gateway.get_metrics()
    assert "Traceback" not in gateway.said()
