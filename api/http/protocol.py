"""Uvicorn's HTTP/1.1 connection, with bounds on what a caller may hold open or pile up.

A head is bounded in size and in time, connections in number; a caller that reads no answer,
or sends on what nobody waits for, loses the connection, and where there are too many the one who
has been silent for longest does. Refusals are problems like all others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from secrets import token_hex
from typing import Any, Final

import structlog
from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from api.http.errors import (
    BUSY,
    HEADERS_TOO_LARGE,
    MALFORMED_REQUEST,
    MEDIA_TYPE,
    REQUEST_TIMED_OUT,
    Kind,
    Problem,
)
from api.http.metrics import CONNECTIONS, REFUSED

log = structlog.get_logger(__name__)

HEAD_BYTES: Final = 16 * 1024
HEAD_FIELDS: Final = 100
HEAD_WITHIN_S: Final = 10.0
LAST_REQUEST_WITHIN_S: Final = 0.1  # for what is on its way when the server stops
JOINED_BYTES: Final = 64 * 1024  # copying more costs as much as writing twice


def bounded(most_connections: int) -> type[BoundedProtocol]:
    """Return the class of the connections of a server that holds so many at once."""
    return type("Connection", (BoundedProtocol,), {"most_connections": most_connections})


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    most_connections = 2_000

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = False
        self._in_trailers = False  # or in a chunk whose first byte has not arrived
        self._later_bytes = 0  # of a head or trailers, after the piece that they began in
        self._piece_bytes = 0
        self._first_bytes = 0  # of the piece that the head began in
        self._is_too_large = False
        self._is_stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._joining: Any = None  # a transport, as far as an answer has need of it
        self._answered: RequestResponseCycle | None = None  # begun last; `cycle` may wait behind it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or refuse it."""
        super().connection_made(transport)
        self._joining = _Joining(transport, self.loop)
        CONNECTIONS.inc()
        if len(self.connections) > self.most_connections and not self._make_room():
            self._refuse(BUSY, "Too many connections are open; retry in a second")
        else:
            self._start_timer()

    def _make_room(self) -> bool:
        """End the connection that has waited longest for its caller; return whether there is one.

        Who holds many open and asks nothing keeps nobody out.
        """
        waiting = [
            (since_s, each)
            for each in self.connections
            if each is not self and isinstance(each, BoundedProtocol)
            if (since_s := each.waits_since_s) is not None
        ]
        if not waiting:
            return False
        _, longest = min(waiting, key=lambda found: found[0])
        REFUSED.labels("idle").inc()
        longest.transport.close()
        return True

    @property
    def waits_since_s(self) -> float | None:
        """Since when a request is waited for, by the loop's clock; None while one is answered."""
        if self._is_answering() or self.transport.is_closing():
            return None
        if self._timer is not None:
            return self._timer.when() - HEAD_WITHIN_S
        kept = self.timeout_keep_alive_task
        return None if kept is None else kept.when() - self.timeout_keep_alive

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        CONNECTIONS.dec()
        self._stop_timer()
        super().connection_lost(exc)
        # Uvicorn says so to the newest request alone. Those between are never begun.
        answered = self._answered
        if answered is not None and not answered.response_complete:
            answered.disconnected = True
            answered.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Read on. While no request is being answered, the next head must be there in time."""
        self._piece_bytes = len(data)
        self._later_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if (self._in_head or self._in_trailers) and self._later_bytes > HEAD_BYTES:
            self._is_too_large = True
            self.send_400_response("")
        elif self._timer is None and (self._in_head or not self._is_answering()):
            self._start_timer()

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head = True
        self._in_trailers = False
        self._first_bytes = self._piece_bytes
        self._later_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head is there."""
        self._in_head = False
        self._stop_timer()
        # What came in one small piece needs no counting.
        if len(self.headers) > HEAD_FIELDS or (
            self._first_bytes + self._later_bytes > HEAD_BYTES and self._head_bytes() > HEAD_BYTES
        ):
            self._is_too_large = True
            raise HttpParserError
        super().on_headers_complete()
        self.cycle.transport = self._joining  # the answer has not begun: its task runs later
        if self._is_stopping:
            self.cycle.keep_alive = False
        # Trailers arrive as headers do. They are no part of the head, so they are dropped.
        self.headers = deque(maxlen=0)  # type: ignore[assignment]

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Begin to answer a request: they are answered one by one, in their order."""
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def on_chunk_header(self) -> None:
        """A chunk of the body begins, or the trailers after the last one."""
        self._in_trailers = True
        self._later_bytes = 0

    def on_body(self, body: bytes) -> None:
        """A piece of the body arrives."""
        self._in_trailers = False
        super().on_body(body)

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def send_400_response(self, msg: str) -> None:
        """Refuse what could not be read."""
        if self._is_too_large:
            self._refuse(
                HEADERS_TOO_LARGE,
                f"Path, query and headers must have at most {HEAD_BYTES // 1024} KiB "
                f"and {HEAD_FIELDS} fields together",
            )
        else:
            self._refuse(MALFORMED_REQUEST, "The request could not be read as HTTP/1.1")

    def timeout_keep_alive_handler(self) -> None:
        """End a connection that is idle, or whose caller does not read what it asked for."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        """Answer the request that runs or is on its way as the last one, then close.

        Closing at once resets a request whose bytes have arrived but are not read yet.
        """
        self._is_stopping = True
        if self._is_answering():
            super().shutdown()
        else:
            self.loop.call_later(LAST_REQUEST_WITHIN_S, super().shutdown)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(HEAD_WITHIN_S, self._on_late_head)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_late_head(self) -> None:
        self._timer = None
        if self._in_head:
            self._refuse(
                REQUEST_TIMED_OUT,
                f"The request line and headers must arrive within {HEAD_WITHIN_S:g} s",
            )
        else:  # nothing came, or nothing that anybody waits for
            self.transport.close()

    def _refuse(self, kind: Kind, detail: str) -> None:
        """Answer with a problem and end the connection."""
        REFUSED.labels(kind.code).inc()
        request_id = token_hex(8)
        client = self.client[0] if self.client else ""
        log.info("refused", code=kind.code, client=client, request_id=request_id)
        if not self._is_answering():  # else it would be taken for the answer to another request
            body = Problem(kind, detail).body(request_id, "/")
            head = (
                b"content-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n"
                b"cache-control: no-store\r\nx-content-type-options: nosniff\r\n"
                b"connection: close\r\n\r\n" % (MEDIA_TYPE.encode(), len(body), request_id.encode())
            )
            self.transport.write(STATUS_LINE[kind.status] + head + body)
        self.transport.close()


class _Joining:
    """A connection's way out: what is written in one step of the loop leaves in one system call.

    Uvicorn writes the head and the body of an answer one after the other.
    """

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        """Write, together with what was written before or comes at once."""
        if not self._held:
            self._held = data
            self._loop.call_soon(self._flush)
        elif len(data) < JOINED_BYTES:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        else:
            self._flush()
            self._transport.write(data)

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)

    def is_closing(self) -> bool:
        """Return whether the connection ends."""
        return self._transport.is_closing()

    def close(self) -> None:
        """End the connection once all is written."""
        self._flush()
        self._transport.close()
