"""Many real WebSocket clients in a process of their own, that count what they are sent.

    python -m stream_gateway.bench.clients <file>

The file is JSON: `url`; `clients`, for each the messages it sends; `narrow`, numbers of those for
which the kernel buffers only `narrow_bytes`. When all have connected and each message is
acknowledged, a line comes out; then each line that comes in is a command, JSON, and answered by one
line:

    {"do": "count", "but": [7, ...]}   events since the last report, of all but these
    {"do": "report", "but": [7, ...]}  figures by client, and latency but for these; then from 0
    {"do": "pause", "clients": [...]}  these stop reading, {"do": "resume"} all read again

Latency is that of each thirteenth event of a client, from its entry into the stream, by the
store's clock in milliseconds, to its receipt. The end of the input is the end.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from array import array
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import orjson
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect
from picows.url import WSParsedURL

SAMPLED: Final = 13
CONNECTING: Final = 50  # at once
ACKNOWLEDGED_S: Final = 30.0
_EVENTS: Final = tuple(
    b'{"type":"%s",' % kind for kind in (b"swap", b"price", b"creation", b"status", b"trending")
)
_MAX_FRAME: Final = 1 << 20


class Client(WSListener):
    """One client: what it subscribes to, and what it got."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        super().__init__()
        self._messages = messages
        self._transport: WSTransport | None = None
        self._unanswered = len(messages)
        self._until_sample = SAMPLED
        self.subscribed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.events = 0
        self.bytes = 0
        self.latencies_ms = array("d")
        self.others: Counter[str] = Counter()  # messages that are no events, by type
        self.close_code = 0

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Subscribe."""
        self._transport = transport
        for message in self._messages:
            transport.send(WSMsgType.TEXT, orjson.dumps(message))

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Count an event; it has to be cheap."""
        payload = frame.get_payload_as_bytes()
        if payload.startswith(_EVENTS):
            self.events += 1
            self.bytes += len(payload)
            self._until_sample -= 1
            if not self._until_sample:
                self._until_sample = SAMPLED
                self._sample(payload)
        else:
            self._other(transport, frame, payload)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        """Hear that the connection is gone."""
        if not self.subscribed.done():
            self.subscribed.set_exception(ConnectionError("closed before it was subscribed"))

    def start_again(self) -> None:
        """Count from 0."""
        self.events = self.bytes = 0
        self.latencies_ms = array("d")

    def pause(self) -> None:
        """Stop reading."""
        if self._transport:
            self._transport.underlying_transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport and not self._transport.is_disconnected:
            self._transport.underlying_transport.resume_reading()

    def _sample(self, payload: bytes) -> None:
        at = payload.rindex(b'"id":"') + 6
        entered_ms = int(payload[at : payload.index(b"-", at)])
        self.latencies_ms.append(time.time() * 1000 - entered_ms)

    def _other(self, transport: WSTransport, frame: WSFrame, payload: bytes) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            self.close_code = int.from_bytes(payload[:2])
            transport.disconnect()
            return
        if frame.msg_type != WSMsgType.TEXT:
            return
        kind = orjson.loads(payload)["type"]
        self.others[kind] += 1
        if kind == "subscribed":
            self._unanswered -= 1
            if not self._unanswered:
                self.subscribed.set_result(None)
        elif kind == "error" and not self.subscribed.done():
            self.subscribed.set_exception(ConnectionError(payload.decode()))


class Crowd:
    """All clients of this process."""

    def __init__(self) -> None:
        self._clients: list[Client] = []

    async def connect(
        self, url: str, wishes: list[list[dict[str, Any]]], narrow: set[int], narrow_bytes: int
    ) -> None:
        """Connect and subscribe all; raises ConnectionError, TimeoutError, OSError."""
        places = asyncio.Semaphore(CONNECTING)

        def with_little_room(_: WSParsedURL) -> socket.socket:
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, narrow_bytes)
            made.setblocking(False)
            return made

        async def connect(number: int) -> Client:
            async with places:
                _, client = await ws_connect(
                    lambda: Client(wishes[number]),
                    url,
                    websocket_handshake_timeout=ACKNOWLEDGED_S,
                    max_frame_size=_MAX_FRAME,
                    proxy=None,
                    socket_factory=with_little_room if number in narrow else None,
                )
                assert isinstance(client, Client)
                await asyncio.wait_for(client.subscribed, ACKNOWLEDGED_S)
                return client

        self._clients = await asyncio.gather(*map(connect, range(len(wishes))))

    def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out one command, and return its answer."""
        match command["do"]:
            case "count":
                return {"events": sum(client.events for client in self._but(command["but"]))}
            case "report":
                return self._report(command["but"])
            case "pause":
                for number in command["clients"]:
                    self._clients[number].pause()
            case "resume":
                for client in self._clients:
                    client.resume()
        return {}

    def _but(self, left_out: list[int]) -> list[Client]:
        numbers = set(left_out)
        return [client for number, client in enumerate(self._clients) if number not in numbers]

    def _report(self, left_out: list[int]) -> dict[str, Any]:
        clients = self._clients
        report = {
            "events": [client.events for client in clients],
            "bytes": [client.bytes for client in clients],
            "close_codes": [client.close_code for client in clients],
            "lagging": [client.others["lagging"] for client in clients],
            "others": sum((client.others for client in clients), Counter[str]()),
            "latency_ms": quantiles(
                ms for client in self._but(left_out) for ms in client.latencies_ms
            ),
        }
        for client in clients:
            client.start_again()
        return report


def quantiles(samples: Iterable[float]) -> dict[str, float]:
    """Return p50, p99, the greatest, and how many there are; all 0 of none."""
    ordered = sorted(samples)
    if not ordered:
        return dict.fromkeys(("p50", "p99", "max", "samples"), 0)
    last = len(ordered) - 1
    return {
        "p50": round(ordered[len(ordered) // 2], 2),
        "p99": round(ordered[min(int(len(ordered) * 0.99), last)], 2),
        "max": round(ordered[last], 2),
        "samples": len(ordered),
    }


async def serve(spec: dict[str, Any]) -> None:
    """Connect, and answer commands until there are no more."""
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=_MAX_FRAME)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    crowd = Crowd()
    await crowd.connect(spec["url"], spec["clients"], set(spec["narrow"]), spec["narrow_bytes"])
    _say({"connected": len(spec["clients"])})
    async for line in commands:
        _say(crowd.obey(orjson.loads(line)))


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    uvloop.run(serve(orjson.loads(Path(sys.argv[1]).read_bytes())))
