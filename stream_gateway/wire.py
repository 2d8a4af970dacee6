"""A connection's socket: how picows is put on it, and how it ends.

picows reads: it unmasks, and finds frames and faults. What it writes (the answer to the handshake,
a close frame where it finds a fault) goes through `Wire`, so that it stays in order with what we
write ourselves, and so that we end the connection.

A connection is ended by half: what is written goes out, then the end; what still comes is read and
forgotten until the client closes. Closed at once, with bytes of the client unread, TCP would reset
the connection and the client might never see the close frame.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from picows import WSListener, WSUpgradeResponse, WSUpgradeResponseWithListener
from picows.picows import WSProtocol  # type: ignore[attr-defined]

from stream_gateway.limits import Limits

_CLOSE: Final = 0x88
_READ_BUFFER_BYTES: Final = 2 * 1024  # it grows with what comes
_FORGOTTEN_BYTES: Final = 16 * 1024 * 1024
_HEAD: Final = (
    b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n\r\n"
)
# picows logs each client's fault as an error; our log says how each connection ended. An adapter,
# as of a logger it makes another one for each connection.
_picows_log: Final = logging.LoggerAdapter(logging.getLogger("picows.server"))
_picows_log.setLevel(logging.CRITICAL + 1)


class Wire:
    """A transport as picows sees it."""

    def __init__(self, transport: asyncio.Transport, at_fault: Callable[[int], None]) -> None:
        self._transport = transport
        self._at_fault = at_fault
        self.get_extra_info = transport.get_extra_info

    def get_write_buffer_size(self) -> int:
        """Return that something waits: else picows would write past the transport."""
        return 1

    def write(self, data: Any) -> None:
        """Write; a close frame, which picows writes where the client is at fault, ends it."""
        if isinstance(self._transport.get_protocol(), Forgetting):
            return  # over, and picows finds yet another fault in what had come before
        frame = bytes(data)
        self._transport.write(frame)
        if frame[0] == _CLOSE:
            self._at_fault(int.from_bytes(frame[2:4], "big"))

    def close(self) -> None:
        """Leave the end to us: picows closes some time after its close frame."""

    def abort(self) -> None:
        """Likewise."""


class Forgetting(asyncio.BufferedProtocol):
    """Reads what still comes, and forgets it, until the client closes."""

    _into = bytearray(64 * 1024)  # of all of them: nobody reads it

    def __init__(self, transport: asyncio.Transport, within_s: float) -> None:
        self._transport = transport
        self._left_bytes = _FORGOTTEN_BYTES
        self._timer = asyncio.get_running_loop().call_later(within_s, transport.abort)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return where the next bytes go."""
        return self._into

    def buffer_updated(self, nbytes: int) -> None:
        """Forget them."""
        self._left_bytes -= nbytes
        if self._left_bytes < 0:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Come to the end."""
        self._timer.cancel()


def end(transport: asyncio.Transport, within_s: float) -> None:
    """End a connection once all is written; abort it where that, or the client, takes longer."""
    if transport.is_closing():
        return
    transport.set_protocol(Forgetting(transport, within_s))
    transport.write_eof()


def upgrade(
    transport: asyncio.Transport,
    websocket_key: bytes,
    tail: bytes,
    listener: WSListener,
    at_fault: Callable[[int], None],
    limits: Limits,
) -> None:
    """Answer a handshake that was found good, and let picows read from here on.

    `tail` is what came after the head; reading is paused, and goes on. picows is given a head of
    our making: of the client's, which may hold a key, it sees nothing.
    """
    response = WSUpgradeResponseWithListener(WSUpgradeResponse.create_101_response(), listener)
    assert response.response.status == HTTPStatus.SWITCHING_PROTOCOLS
    protocol = WSProtocol(
        None,
        None,
        False,  # a server
        lambda _: response,
        _picows_log,
        True,  # disconnect where the listener fails
        None,  # the handshake is over
        False,  # pings are ours
        0,
        0,
        0,
        False,  # pongs too
        limits.message_bytes,
        None,
        _READ_BUFFER_BYTES,
    )
    transport.set_protocol(protocol)
    protocol.connection_made(Wire(transport, at_fault))
    received = memoryview(_HEAD % websocket_key + tail)
    while received and _reads(transport, protocol):
        into = protocol.get_buffer(len(received))
        size = min(len(into), len(received))
        into[:size] = received[:size]
        protocol.buffer_updated(size)
        received = received[size:]
    if not transport.is_closing():
        transport.resume_reading()


def _reads(transport: asyncio.Transport, protocol: object) -> bool:
    """Whether a protocol still reads, and the connection was not ended."""
    return transport.get_protocol() is protocol
