"""Frames as no client should send them, over raw sockets: right close codes, and no harm to others.

What is at random comes from a seed, and stops after a fixed number of connections.
"""

from __future__ import annotations

import errno
import json
import os
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from schemas import channels
from tests.support.gateway.running import running_gateway, swap
from tests.support.waiting import WITHIN_S

SEED = int(os.environ.get("SOLTAPE_FUZZ_SEED", "20261121"))
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
SAY_PING = b'{"action":"ping"}'
MESSAGE_BYTES = 64 * 1024
CLOSED_WHILE_SENDING = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)
PEER_GONE = 1006
"""Our word for an end without a close frame."""


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    reserved: int = 0,
    masked: bool = True,
    length: int | None = None,
    form: int | None = None,
) -> bytes:
    """A frame as asked for, right or wrong: `form` is the width of its length, 7, 16 or 64 bits."""
    size = len(payload) if length is None else length
    form = form or (7 if size < 126 else 16 if size < 1 << 16 else 64)
    first = (0x80 if fin else 0) | reserved << 4 | opcode
    bit = 0x80 if masked else 0
    if form == 7:
        head = bytes((first, bit | size))
    elif form == 16:
        head = struct.pack("!BBH", first, bit | 126, size)
    else:
        head = struct.pack("!BBQ", first, bit | 127, size)
    if not masked:
        return head + payload
    key = b"\x1f\x2e\x3d\x4c"
    mask = int.from_bytes((key * (len(payload) // 4 + 1))[: len(payload)])
    return head + key + (int.from_bytes(payload) ^ mask).to_bytes(len(payload))


class Raw:
    """A WebSocket client of bare hands."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._read = b""

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def receive(self) -> tuple[int, bytes] | None:
        """The next frame, its opcode and payload; None at the end."""
        head = self._take(2)
        if head is None:
            return None
        size = head[1]
        if size >= 126:
            rest = self._take(2 if size == 126 else 8)
            assert rest is not None
            size = int.from_bytes(rest, "big")
        payload = self._take(size)
        assert payload is not None
        return head[0] & 0x0F, payload

    def next_message(self) -> dict:
        """The next message but notices, which say that there is no pipeline."""
        while (received := self.receive()) is not None:
            if received[0] == TEXT and (message := json.loads(received[1]))["type"] != "notice":
                return message
        raise AssertionError("closed")

    def closed(self) -> int:
        """Read to the end; the close code."""
        code = PEER_GONE
        while (received := self.receive()) is not None:
            opcode, payload = received
            if opcode == CLOSE:
                code = int.from_bytes(payload[:2], "big")
        return code

    def _take(self, size: int) -> bytes | None:
        while len(self._read) < size:
            try:
                piece = self.sock.recv(65_536)
            except ConnectionResetError:
                piece = b""
            if not piece:
                assert not self._read, "half a frame"
                return None
            self._read += piece
        taken, self._read = self._read[:size], self._read[size:]
        return taken


@contextmanager
def raw(gateway, key) -> Iterator[Raw]:
    """A connection that is in."""
    with socket.create_connection(("127.0.0.1", gateway.port), WITHIN_S) as sock:
        sock.sendall(
            f"GET /ws?api_key={key} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = sock.recv(1)
            assert byte, head
            head += byte
        assert head.startswith(b"HTTP/1.1 101"), head
        yield Raw(sock)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, valkey_port):
    """A gateway that nobody is idle for, as the witness does not read while a test runs."""
    with running_gateway(
        tmp_path_factory.mktemp("fuzz"), valkey_port, gateway_idle_s=3_600.0
    ) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def witness(gateway, key):
    """A client that is connected, and must be served, all the time."""
    with raw(gateway, key) as client:
        client.send(frame(TEXT, b'{"action":"subscribe","channel":"swaps"}'))
        assert client.next_message()["type"] == "subscribed"
        yield client


@pytest.fixture(autouse=True)
def others_are_served(gateway, witness):
    """After each test the witness gets what is published, and nothing else happened to it."""
    yield
    number = random.getrandbits(40)
    gateway.publish(channels.SWAPS, swap(number=number))
    assert witness.next_message()["data"]["number"] == number
    assert gateway.child.poll() is None


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(frame(TEXT, SAY_PING, masked=False), 1002, id="unmasked"),
        pytest.param(frame(TEXT, SAY_PING, reserved=4), 1002, id="reserved bit 1"),
        pytest.param(frame(TEXT, SAY_PING, reserved=2), 1002, id="reserved bit 2"),
        pytest.param(frame(PING, b"", reserved=1), 1002, id="reserved bit of a ping"),
        pytest.param(frame(3, b"x"), 1002, id="opcode 3"),
        pytest.param(frame(7, b"x"), 1002, id="opcode 7"),
        pytest.param(frame(11, b"x"), 1002, id="opcode 11"),
        pytest.param(frame(15), 1002, id="opcode 15"),
        pytest.param(frame(PING, b"x" * 126), 1002, id="large ping"),
        pytest.param(frame(PONG, b"x" * 70_000), 1002, id="larger pong"),
        pytest.param(frame(CLOSE, b"\x03\xe8" + b"x" * 200), 1002, id="large close"),
        pytest.param(frame(PING, b"x", fin=False), 1002, id="fragment of a ping"),
        pytest.param(frame(CLOSE, b"\x03\xe8", fin=False), 1002, id="fragment of a close"),
        pytest.param(frame(CONTINUATION, b"x"), 1002, id="continuation of nothing"),
        pytest.param(
            frame(TEXT, b"{", fin=False) + frame(TEXT, b"}"), 1002, id="message within a message"
        ),
        pytest.param(
            frame(TEXT, b"{}") + frame(CONTINUATION, b"}"), 1002, id="continuation after the end"
        ),
        pytest.param(frame(TEXT, b"x" * 20, form=16), 1002, id="16 bits for a short length"),
        pytest.param(frame(TEXT, b"x" * 200, form=64), 1002, id="64 bits for a short length"),
        pytest.param(frame(TEXT, b"", length=1 << 63, form=64), 1002, id="64th bit of a length"),
        pytest.param(frame(TEXT, b"", length=1 << 40, form=64), 1009, id="a terabyte"),
        pytest.param(frame(TEXT, b" " * (MESSAGE_BYTES + 1)), 1009, id="too large"),
        pytest.param(frame(TEXT, b" " * 3_000_000), 1009, id="much too large"),
        pytest.param(frame(BINARY, b" " * 3_000_000), 1009, id="too large, binary"),
        pytest.param(
            frame(TEXT, b" " * 40_000, fin=False) + frame(CONTINUATION, b" " * 40_000),
            1009,
            id="too large, in fragments",
        ),
        pytest.param(
            frame(BINARY, b" " * 40_000, fin=False)
            + frame(PING)
            + frame(CONTINUATION, b" " * 40_000, fin=False),
            1009,
            id="too large, in fragments, binary",
        ),
        pytest.param(frame(TEXT, b"\xff"), 1007, id="no UTF-8"),
        pytest.param(frame(TEXT, b'{"action":"\xc3"}'), 1007, id="half a character"),
        pytest.param(frame(TEXT, b"\xed\xa0\x80"), 1007, id="a surrogate"),
        pytest.param(frame(TEXT, b"\xf4\x90\x80\x80"), 1007, id="beyond Unicode"),
        pytest.param(frame(TEXT, b"\xc0\xaf"), 1007, id="a slash in two bytes"),
        pytest.param(
            frame(TEXT, b"\xce", fin=False) + frame(CONTINUATION, b"x"),
            1007,
            id="no UTF-8 over fragments",
        ),
        pytest.param(frame(CLOSE, b"\x03"), 1002, id="half a close code"),
        pytest.param(frame(CLOSE, b"\x03\xe8\xff"), 1007, id="a reason that is no UTF-8"),
        pytest.param(frame(CLOSE), 1000, id="close without a code"),
        *(
            pytest.param(frame(CLOSE, struct.pack("!H", code)), code, id=f"close {code}")
            for code in (1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 4000, 4999)
        ),
        *(
            pytest.param(frame(CLOSE, struct.pack("!H", code)), 1002, id=f"close {code}")
            for code in (0, 1, 999, 1004, 1005, 1006, 1015, 1016, 2000, 2999, 5000, 65535)
        ),
    ],
)
def test_close_codes(gateway, key, sent, code):
    with raw(gateway, key) as client:
        client.send(sent)
        assert client.closed() == code


def test_a_message_in_fragments_with_control_frames_amid(gateway, key):
    with raw(gateway, key) as client:
        client.send(frame(TEXT, b'{"action"', fin=False))
        client.send(frame(PING, b"one"))
        client.send(frame(CONTINUATION, b"", fin=False) + frame(PONG, b"nobody asked"))
        client.send(frame(CONTINUATION, b':"ping","request_id":"\xc3', fin=False))
        client.send(frame(PING) + frame(CONTINUATION, b'\xa9"}'))
        assert client.receive() == (PONG, b"one")
        assert client.receive() == (PONG, b"")
        assert client.next_message()["request_id"] == "é"


def test_the_largest_message_and_the_largest_ping(gateway, key):
    with raw(gateway, key) as client:
        client.send(frame(TEXT, SAY_PING + b" " * (MESSAGE_BYTES - len(SAY_PING))))
        assert client.next_message()["type"] == "pong"
        client.send(frame(PING, b"x" * 125))
        assert client.receive() == (PONG, b"x" * 125)


def test_byte_by_byte(gateway, key):
    with raw(gateway, key) as client:
        for byte in frame(TEXT, SAY_PING):
            client.send(bytes((byte,)))
        assert client.next_message()["type"] == "pong"


def test_binary_messages_are_answered(gateway, key):
    with raw(gateway, key) as client:
        client.send(frame(BINARY, SAY_PING))
        assert client.next_message()["code"] == "binary_frame"
        client.send(frame(BINARY, b"\xff", fin=False) + frame(CONTINUATION, b"\xfe"))
        assert client.next_message()["code"] == "binary_frame"
        client.send(frame(TEXT, SAY_PING))
        assert client.next_message()["type"] == "pong"


def test_nothing_is_done_after_a_close(gateway, key):
    with raw(gateway, key) as client:
        client.send(frame(CLOSE, b"\x03\xe8") + frame(TEXT, SAY_PING) * 5 + b"\xff" * 1000)
        assert client.receive() == (CLOSE, b"\x03\xe8")
        assert client.receive() is None


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 7, 12])
def test_half_a_frame_and_gone(gateway, key, cut):
    with raw(gateway, key) as client:
        client.send(frame(TEXT, SAY_PING)[:cut])
    with raw(gateway, key) as client:
        client.send(frame(TEXT, SAY_PING))
        assert client.next_message()["type"] == "pong"


def test_many_empty_fragments(gateway, key):
    with raw(gateway, key) as client:
        client.send(frame(TEXT, b"", fin=False) + frame(CONTINUATION, b"", fin=False) * 5_000)
        assert client.closed() == 4029


def test_many_pings(gateway, key):
    with raw(gateway, key) as client:
        client.send(frame(PING, b"x") * 5_000)
        assert client.closed() == 4029


def good(chance: random.Random) -> bytes:
    """Some frames that a client may send."""
    subscribe = {
        "action": chance.choice(["subscribe", "unsubscribe"]),
        "channel": chance.choice(["swaps", "creations", "prices", "status", "x", 7]),
        "since": chance.choice([None, "0-0-0", "1-1-1", "9" * 18 + "-0-0", "x"]),
        "dex": chance.choice([None, "pump-fun", ["pump-swap"], []]),
    }
    payload = chance.choice([SAY_PING, json.dumps(subscribe).encode(), chance.randbytes(20)])
    match chance.randrange(5):
        case 0:
            return frame(chance.choice([PING, PONG]), chance.randbytes(chance.randrange(126)))
        case 1:
            cut = chance.randrange(len(payload) + 1)
            return frame(TEXT, payload[:cut], fin=False) + frame(CONTINUATION, payload[cut:])
        case 2:
            return frame(BINARY, chance.randbytes(chance.choice([0, 1, 200, 70_000])))
        case _:
            return frame(TEXT, payload)


def mutated(chance: random.Random, data: bytes) -> bytes:
    """The same with some bits flipped, bytes put in or taken out, or cut."""
    changed = bytearray(data)
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(changed)) if changed else 0
        match chance.randrange(4):
            case 0 if changed:
                # Heads are where it matters, and they are in front.
                changed[min(place, chance.randrange(16)) % len(changed)] ^= 1 << chance.randrange(8)
            case 1:
                changed[place:place] = chance.randbytes(chance.randrange(1, 9))
            case 2:
                del changed[place : place + chance.randrange(1, 9)]
            case _:
                del changed[place:]
    return bytes(changed)


CLOSED_WITH = {PEER_GONE, 1000, 1001, 1002, 1003, 1007, 1009, 4029}
"""What may come of frames at random; a client's own codes beside them."""


@pytest.mark.parametrize("part", range(4))
def test_frames_at_random(gateway, key, part):
    """500 connections, some 3,000 frames: whatever comes of them, none is our fault."""
    chance = random.Random(SEED + part)
    seen = set()
    for _ in range(500):
        with raw(gateway, key) as client:
            data = b"".join(
                mutated(chance, good(chance)) if chance.random() < 0.6 else good(chance)
                for _ in range(chance.randrange(1, 12))
            )
            try:
                while data:
                    size = chance.choice([1, 7, 100, len(data)])
                    client.send(data[:size])
                    data = data[size:] if chance.random() < 0.99 else b""
                if chance.random() < 0.5:
                    client.send(frame(CLOSE, b"\x03\xe8"))
                    client.sock.shutdown(socket.SHUT_WR)
                    seen.add(client.closed())
            except OSError as error:
                if error.errno not in CLOSED_WHILE_SENDING:
                    raise
    assert {code for code in seen if not 3000 <= code < 4029} <= CLOSED_WITH
    assert {1000, 1002} <= seen


def test_heads_at_random(gateway, key):
    """300 handshakes: each is refused, or let in."""
    chance = random.Random(SEED)
    head = (
        f"GET /ws?api_key={key} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()
    statuses = set()
    for _ in range(300):
        with socket.create_connection(("127.0.0.1", gateway.port), WITHIN_S) as sock:
            sock.sendall(changed_head(chance, head))
            sock.shutdown(socket.SHUT_WR)
            try:
                statuses.add(sock.recv(65_536)[9:12])
            except ConnectionResetError:
                statuses.add(b"")
    assert statuses <= {b"", b"101", b"400", b"401", b"404", b"405", b"421", b"426", b"431", b"408"}
    assert {b"101", b"400", b"401"} <= statuses


def changed_head(chance: random.Random, head: bytes) -> bytes:
    changed = bytearray(head)
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(changed))
        match chance.randrange(3):
            case 0:
                changed[place] ^= 1 << chance.randrange(8)
            case 1:
                changed[place:place] = chance.choice(
                    [b"\r\n", b"\0", b"\xff", b" ", b"%00", b"&api_key=x", b"\t", b"a" * 20_000]
                )
            case _:
                del changed[place : place + chance.randrange(1, 9)]
    return bytes(changed)


def test_nothing_of_it_was_a_fault_of_ours(gateway, key):
    said = gateway.said()
    assert "Traceback" not in said
    assert "could not be" not in said
    assert key not in said
    assert gateway.metric("soltape_gateway_closes_total", code="1011", by="server") == 0
    assert gateway.metric("soltape_gateway_handshakes_total", status="500") == 0
