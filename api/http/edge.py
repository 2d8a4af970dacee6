"""The outermost layer: gives each request its id, and each answer what all answers have.

Beside an ASGI scope's own state this leaves `request_id` in `scope["state"]`, and the gate leaves
`key_id` there: both are logged. On the path of every request, so it does one pass over the
headers each way and nothing twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from secrets import token_hex
from time import perf_counter
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http import metrics, problems
from api.http.access_log import AccessLog
from api.http.compression import LARGE_BYTES, accepts_gzip, compress
from api.http.errors import MISDIRECTED, Problem
from infra.hosts import Hosts
from infra.proxies import Proxies, plain

CLIENT_CLOSED: Final = 499  # as proxies log it: the caller left before the answer

_SAFE: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
_NO_CONTENT: Final = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_PACKED: Final = frozenset({b"image/gif", b"image/jpeg", b"image/png", b"image/webp"})
_HOSTS_KEPT: Final = 100
_VARY: Final = (b"vary", b"accept-encoding")
# No underscore: an API key is no valid id, so it cannot get into the log as one.
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9.-]{8,64}")


class Edge:
    """ASGI middleware around everything."""

    def __init__(
        self,
        app: ASGIApp,
        log: AccessLog,
        hosts: Hosts,
        proxies: Proxies,
        answered: Callable[[int], None],
    ) -> None:
        self._app = app
        self._log = log
        self._hosts = hosts
        self._proxies = proxies
        self._answered = answered  # is called with the status of each answer that costs a credit
        self._accepted: set[bytes] = set()  # `Host` headers that are right: a few, of our names
        self._process = token_hex(4)
        self._numbers = count(1)
        self._running = 0
        metrics.RUNNING.set_function(lambda: self._running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = perf_counter()
        request_id = ""
        takes_gzip = False
        host = None
        for name, value in scope["headers"]:
            if name == b"host":
                host = value if host is None or host == value else b"?"  # one, RFC 9112
            elif name == b"accept-encoding":
                takes_gzip = accepts_gzip(value)
            elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                request_id = value.decode()
        client = scope.get("client")
        peer = plain(client[0]) if client else ""
        if client and self._proxies.trusts(peer):
            forwarded = [
                value.decode("latin-1")
                for name, value in scope["headers"]
                if name == b"x-forwarded-for"
            ]
            scope = {**scope, "client": (self._proxies.client(peer, forwarded), 0)}
        elif client and peer != client[0]:
            scope = {**scope, "client": (peer, client[1])}
        request_id = request_id or f"{self._process}-{next(self._numbers):x}"
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        method = scope["method"]
        if method == "HEAD":  # as GET; the server leaves the body out
            state["is_head"] = True
            scope = {**scope, "method": "GET"}
        answer = _Answer(send, request_id, takes_gzip)
        self._running += 1
        try:
            if host is None or host in self._accepted or self._accepts(host):
                await self._app(scope, receive, answer.send)
            else:
                problem = Problem(MISDIRECTED, self._hosts.refusal(host.decode("latin-1")))
                await problems.response(problem, scope)(scope, receive, answer.send)
        finally:
            self._running -= 1
            duration_ms = (perf_counter() - began_s) * 1000
            self._record(method, scope, answer.status or CLIENT_CLOSED, duration_ms)

    def _accepts(self, host: bytes) -> bool:
        if not self._hosts.accepts(host.decode("latin-1")):
            return False
        if len(self._accepted) < _HOSTS_KEPT:
            self._accepted.add(host)
        return True

    def _record(self, method: str, scope: Scope, status: int, duration_ms: float) -> None:
        route = scope.get("route")
        metrics.answered(getattr(route, "path", ""), status, duration_ms)
        state = scope["state"]
        grant = state.get("grant")
        if (grant is not None and grant.charged) or "refused_key" in state:
            self._answered(500 if problems.FAILED in state else status)
        if self._log.is_on:
            client = scope.get("client")
            self._log.write(
                method=method,
                path=scope["path"],
                status=status,
                duration_ms=duration_ms,
                request_id=state["request_id"],
                key_id=state.get("key_id"),
                client=client[0] if client else "",
            )


class _Answer:
    """One answer on its way out."""

    __slots__ = ("_held", "_id", "_send", "_takes_gzip", "status")

    def __init__(self, send: Send, request_id: str, takes_gzip: bool) -> None:
        self.status = 0
        self._send = send
        self._id = request_id
        self._takes_gzip = takes_gzip
        self._held: dict[str, Any] | None = None  # the head of an answer whose body is compressed

    async def send(self, message: Message) -> None:
        """Pass a message on: the head with our headers, the body compressed if it is worth it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            head = {**message, "headers": self._headers(message.get("headers", ()))}
            if self._held is None:
                await self._send(head)
            else:
                self._held = head
            return
        held = self._held
        if held is not None:
            self._held = None
            if not message.get("more_body", False):
                message = {**message, "body": await compress(message["body"])}
                length = str(len(message["body"])).encode()
                held["headers"] = [
                    *(each for each in held["headers"] if each[0] != b"content-length"),
                    (b"content-length", length),
                    (b"content-encoding", b"gzip"),
                ]
            await self._send(held)
        await self._send(message)

    def _headers(self, given: Any) -> list[tuple[bytes, bytes]]:
        headers = [*given, *_SAFE, (b"x-request-id", self._id.encode())]
        length = 0
        has_policy = is_encoded = False
        for name, value in given:
            if name == b"content-length":
                length = int(value)
            elif name == b"content-security-policy":
                has_policy = True
            elif name == b"content-encoding" or (name == b"content-type" and value in _PACKED):
                is_encoded = True
        if not has_policy:
            headers.append(_NO_CONTENT)
        if length >= LARGE_BYTES and not is_encoded:
            headers.append(_VARY)
            if self._takes_gzip:
                self._held = {}
        return headers
