"""A connection before it is a WebSocket: its head is read, its key admitted, or it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from secrets import token_hex
from typing import Any, Final, Protocol

import structlog

from infra.hosts import Hosts
from infra.proxies import Proxies, plain
from stream_gateway import request
from stream_gateway.admission import Admitted, Refusal
from stream_gateway.connection import INTERNAL, Connection
from stream_gateway.limits import Limits
from stream_gateway.messages import Endpoint
from stream_gateway.metrics import HANDSHAKES
from stream_gateway.request import Request
from stream_gateway.waiting_room import WaitingRoom

log = structlog.get_logger(__name__)

_END: Final = b"\r\n\r\n"
_FORGOTTEN_BYTES: Final = 1024 * 1024  # that a client who was refused may still send
_INTERNAL: Final = Refusal(
    HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "The request failed; the log has why"
)


class Host(Protocol):
    """What connections are handed to."""

    limits: Limits
    hosts: Hosts
    proxies: Proxies
    waiting_room: WaitingRoom

    def check_room(self, admitted: Admitted | None = None) -> None:
        """Raise Refusal where nobody else can come in, or this key cannot."""

    async def admit(self, api_key: str | None, address: str) -> Admitted:
        """Admit a client, within some seconds; raises Refusal."""

    def give_back(self, admitted: Admitted) -> None:
        """Take back a lease whose client left before it was connected."""

    def enter(
        self,
        transport: asyncio.Transport,
        admitted: Admitted,
        endpoint: Endpoint,
        address: str,
    ) -> Connection:
        """Make the connection."""


class Handshake(asyncio.Protocol):
    """Reads one head, and answers it."""

    def __init__(self, host: Host, upgrade: Callable[..., None]) -> None:
        self._host = host
        self._upgrade = upgrade
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self.address = ""  # of the peer
        self._client = ""  # the client that a trusted proxy names, or the same
        self._head = bytearray()
        self._forgotten_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection; the time for its head begins."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.address = self._client = plain(peer[0]) if peer else ""
        self._host.waiting_room.enter(self)
        self._timer = self._loop.call_later(self._host.limits.handshake_s, self._too_late)

    @property
    def is_served(self) -> bool:
        """Whether the head is whole, and no answer is on its way."""
        return self._task is not None and not self._is_answered

    def give_way(self) -> None:
        """End at once."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take a piece of the head; what comes after an answer is forgotten."""
        limits = self._host.limits
        if self._is_answered:
            self._forgotten_bytes += len(data)
            if self._forgotten_bytes > _FORGOTTEN_BYTES:
                self._transport.abort()
            return
        self._head += data
        end = self._head.find(_END, max(0, len(self._head) - len(data) - len(_END)))
        size = len(self._head) if end < 0 else end
        if size > limits.head_bytes:
            self._refuse(request.too_large(), Request())
        elif not self._head[:1].isalpha():  # TLS, or another protocol
            self._refuse(request.malformed(), Request())
        elif end >= 0:
            self._transport.pause_reading()
            assert self._timer is not None
            self._timer.cancel()
            tail = bytes(self._head[end + len(_END) :])
            head = bytes(self._head[: end + len(_END)])
            self._task = self._loop.create_task(self._answer(head, tail))

    def eof_received(self) -> bool:
        """Let the connection end: a client that wants its answer waits for it."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Come to the end."""
        self._done()
        if self._task is not None:
            self._task.cancel()

    def stop(self) -> None:
        """Refuse a client that is not admitted yet."""
        if self._task is not None:
            self._task.cancel()
        self._refuse(request.stopping(), Request())

    def _done(self) -> None:
        self._host.waiting_room.leave(self)
        if self._timer is not None:
            self._timer.cancel()

    def _too_late(self) -> None:
        if self._is_answered:
            self._transport.abort()
        else:
            self._refuse(request.too_late(self._host.limits.handshake_s), Request())

    async def _answer(self, head: bytes, tail: bytes) -> None:
        asked = Request()
        try:
            asked = request.read(head, self._host.limits.head_fields)
            forwarded = asked.headers.get("x-forwarded-for", ())
            self._client = self._host.proxies.client(self.address, forwarded)
            request.check_host(asked, self._host.hosts)
            if asked.path == request.LIVE and asked.method in ("GET", "HEAD"):
                self._answer_alive(asked)
                return
            endpoint, websocket_key = request.check(asked)
            self._host.check_room()
            if not self._host.waiting_room.has_room_for(self):
                raise request.full()
            admitted = await self._host.admit(request.api_key(asked), self._client)
        except Refusal as refusal:
            self._refuse(refusal, asked)
        except Exception:
            log.exception("a handshake could not be answered", client=self._client)
            self._refuse(_INTERNAL, asked)
        else:
            self._enter(admitted, endpoint, websocket_key, tail)

    def _enter(
        self, admitted: Admitted, endpoint: Endpoint, websocket_key: bytes, tail: bytes
    ) -> None:
        """Make a WebSocket of it."""
        try:
            self._host.check_room(admitted)
        except Refusal as refusal:
            refusal.key_id = admitted.key_id
            self._host.give_back(admitted)
            self._refuse(refusal, Request())
            return
        if self._transport.is_closing():
            self._host.give_back(admitted)
            return
        self._done()
        HANDSHAKES.labels(HTTPStatus.SWITCHING_PROTOCOLS.value).inc()
        connection = self._host.enter(self._transport, admitted, endpoint, self._client)
        try:
            self._upgrade(
                self._transport,
                websocket_key,
                tail,
                connection,
                connection.at_fault,
                self._host.limits,
            )
        except Exception:
            log.exception("a connection could not begin", connection=connection.number)
            self._transport.abort()
            connection.at_fault(INTERNAL)

    def _answer_alive(self, asked: Request) -> None:
        self._write(HTTPStatus.OK, "application/json", b'{"status":"ok"}', {}, asked)

    def _refuse(self, refusal: Refusal, asked: Request) -> None:
        request_id = token_hex(8)
        if self._is_answered:
            return
        log.info(
            "refused",
            code=refusal.code,
            status=int(refusal.status),
            path=asked.shown,
            key_id=refusal.key_id,
            client=self._client,
            request_id=request_id,
        )
        body = refusal.body(request_id, asked.path)
        headers = {**refusal.headers, "X-Request-Id": request_id}
        self._write(refusal.status, request.PROBLEM, body, headers, asked)

    def _write(
        self, status: int, content_type: str, body: bytes, headers: dict[str, str], asked: Request
    ) -> None:
        """Answer, and end the connection once the client has read it, or in a while."""
        HANDSHAKES.labels(int(status)).inc()
        self._is_answered = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport.is_closing():
            return
        self._timer = self._loop.call_later(self._host.limits.linger_s, self._too_late)
        self._head.clear()
        head_only = asked.method == "HEAD"
        self._transport.write(
            request.answer(status, content_type, body, headers, head_only=head_only)
        )
        self._transport.resume_reading()  # what still comes is forgotten
        self._transport.write_eof()
