"""The head of a client's handshake: read from bytes, and found good or refused.

Refusals are what the API answers, too: RFC 9457 problems. Of a query nothing is repeated to
anybody: it may hold a key.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from infra.hosts import Hosts
from stream_gateway.admission import Refusal
from stream_gateway.messages import Endpoint

ENDPOINTS: Final[Mapping[str, Endpoint]] = {"/ws": "main", "/ws/trending-pairs": "trending"}
LIVE: Final = "/health/live"
PROBLEM: Final = "application/problem+json"
_KEY_NAME: Final = "api_key"
_KEY_HEADER: Final = "x-api-key"
_MOST_PARAMETERS: Final = 32
_HTTP: Final = ("1.1", "1.0")
_VERSION: Final = "13"
_UPGRADE: Final = {"Upgrade": "websocket", "Sec-WebSocket-Version": _VERSION}
_WHERE: Final = "/ws?api_key=... or /ws/trending-pairs?api_key=..."


@dataclass(slots=True)
class Request:
    """What was asked for; names of headers in lower case, all values of each."""

    method: str = ""
    path: str = ""
    query: str = ""
    headers: dict[str, list[str]] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The path as it may be logged and counted: a known one, or a star."""
        return self.path if self.path in ENDPOINTS or self.path == LIVE else "*"

    def one(self, name: str) -> str:
        """Return a header, or empty text."""
        return ", ".join(self.headers.get(name, ()))

    def has(self, name: str, token: str) -> bool:
        """Return True if a header, a list of tokens, has one."""
        return token in (each.strip().lower() for each in self.one(name).split(","))


class _Reading:
    """What the parser finds."""

    def __init__(self) -> None:
        self.url = b""
        self.fields = 0
        self.headers: dict[str, list[str]] = {}

    def on_url(self, part: bytes) -> None:
        self.url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields += 1
        values = self.headers.setdefault(name.decode("latin-1").lower(), [])
        values.append(value.decode("latin-1").strip())


def read(head: bytes, most_fields: int) -> Request:
    """Return the request of a head, its empty line included; raises Refusal."""
    reading = _Reading()
    parser = HttpRequestParser(reading)
    try:
        parser.feed_data(head)
    except HttpParserUpgrade:
        pass  # where it ends
    except HttpParserError:
        raise malformed() from None
    if parser.get_http_version() not in _HTTP or not reading.url.isascii():
        raise malformed()
    if reading.fields > most_fields:
        raise too_large()
    path, _, query = reading.url.decode("ascii").partition("?")
    return Request(parser.get_method().decode("ascii"), path, query, reading.headers)


def check(request: Request) -> tuple[Endpoint, bytes]:
    """Return where a handshake leads, and its WebSocket key; raises Refusal."""
    endpoint = ENDPOINTS.get(request.path)
    if endpoint is None:
        raise Refusal(
            HTTPStatus.NOT_FOUND,
            "not_found",
            f"No such path; WebSocket clients connect to {_WHERE}",
        )
    if request.method != "GET":
        raise Refusal(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "A WebSocket handshake is a GET",
            {"Allow": "GET"},
        )
    if not (request.has("upgrade", "websocket") and request.has("connection", "upgrade")):
        raise Refusal(
            HTTPStatus.UPGRADE_REQUIRED,
            "upgrade_required",
            f"This port serves WebSocket alone: connect to {_WHERE}",
            {**_UPGRADE, "Connection": "Upgrade, close"},
        )
    if request.one("sec-websocket-version") != _VERSION:
        raise Refusal(
            HTTPStatus.UPGRADE_REQUIRED,
            "websocket_version",
            f"Sec-WebSocket-Version must be {_VERSION}",
            {**_UPGRADE, "Connection": "Upgrade, close"},
        )
    return endpoint, _websocket_key(request)


def _websocket_key(request: Request) -> bytes:
    text = request.one("sec-websocket-key")
    try:
        key = text.encode("ascii")
        if len(b64decode(key, validate=True)) == 16:
            return key
    except ValueError:
        pass
    raise Refusal(
        HTTPStatus.BAD_REQUEST,
        "malformed_request",
        "Sec-WebSocket-Key must be 16 bytes in base64, sent once",
    )


def api_key(request: Request) -> str | None:
    """Return the API key that was sent, in the query or as a header; raises Refusal."""
    try:
        asked = parse_qsl(request.query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise Refusal(
            HTTPStatus.BAD_REQUEST, "invalid_parameter", "The query has too many parameters"
        ) from None
    sent = {value for name, value in asked if name == _KEY_NAME}
    sent.update(request.headers.get(_KEY_HEADER, ()))
    sent.discard("")
    if len(sent) > 1:
        raise Refusal(
            HTTPStatus.BAD_REQUEST,
            "keys_differ",
            "More than one API key was sent, in the query or in x-api-key: send one",
        )
    return sent.pop() if sent else None


def check_host(request: Request, hosts: Hosts) -> None:
    """Raise Refusal where a name that is not ours was asked for."""
    for host in request.headers.get("host", ()):
        if not hosts.accepts(host):
            raise Refusal(HTTPStatus.MISDIRECTED_REQUEST, "misdirected", hosts.refusal(host))


def malformed() -> Refusal:
    """Return the answer to what is no HTTP."""
    return Refusal(
        HTTPStatus.BAD_REQUEST,
        "malformed_request",
        "The request could not be read: it must be HTTP/1.1",
    )


def too_large() -> Refusal:
    """Return the answer to a head that is too large."""
    return Refusal(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "headers_too_large",
        "Path, query and headers have at most 16 KiB and 100 fields together",
    )


def too_late(within_s: float) -> Refusal:
    """Return the answer to a head that does not come."""
    return Refusal(
        HTTPStatus.REQUEST_TIMEOUT,
        "request_timed_out",
        f"The head of a request must come within {within_s:g} s",
    )


def full() -> Refusal:
    """Return the answer where this process holds as many connections as it may."""
    return Refusal(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "busy",
        "This gateway holds as many connections as it may; connect again in 2 s",
        {"Retry-After": "2"},
    )


def full_for_key(most: int) -> Refusal:
    """Return the answer where one key has as many connections of this process as it may."""
    return Refusal(
        HTTPStatus.TOO_MANY_REQUESTS,
        "too_many_connections",
        f"At most {most} connections of one API key, or of all keys of one user, are open on one "
        "gateway: close one first",
        {"Retry-After": "5"},
        title="The key's connections are open already",
    )


def starting() -> Refusal:
    """Return the answer while the process has not read what the streams hold."""
    return Refusal(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "starting",
        "This gateway is starting; connect again in 1 s",
        {"Retry-After": "1"},
    )


def stopping() -> Refusal:
    """Return the answer while the process ends."""
    return Refusal(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "stopping",
        "This gateway is stopping; connect again",
        {"Retry-After": "1"},
    )


def answer(
    status: int, content_type: str, body: bytes, headers: Mapping[str, str], *, head_only: bool
) -> bytes:
    """Return an HTTP answer, after which the connection ends."""
    fields = {
        "Content-Type": content_type,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    head = f"HTTP/1.1 {status:d} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode("latin-1")
    return head if head_only else head + body
