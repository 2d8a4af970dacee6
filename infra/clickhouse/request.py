"""One HTTP request of ClickHouse's interface, taken apart and checked."""

from __future__ import annotations

import asyncio
import base64
import binascii
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import BodyPartReader, web

from infra.clickhouse.compression import Decompressor
from infra.clickhouse.errors import Code, QueryError, refusal
from infra.clickhouse.sessions import DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S
from infra.clickhouse.statement import Statement, outline, verb_of

MAX_STATEMENT_BYTES: Final = 4 * 1024**2
MAX_FIELD_BYTES: Final = 128 * 1024  # of a form, as a server's http_max_field_value_size
MAX_DATA_BYTES: Final = 4 * 1024**3
READ_TIMEOUT_S: Final = 60.0
_HEAD_BYTES: Final = 64 * 1024

# Parameters of the interface itself; every other one is a setting, or a query parameter `param_x`.
_RESERVED: Final = frozenset(
    {
        *("query", "query_id", "database", "default_format", "user", "password", "quota_key"),
        *("session_id", "session_timeout", "session_check", "close_session", "role"),
        *("compress", "decompress", "buffer_size", "wait_end_of_query", "stacktrace"),
        *("client_protocol_version", "framing"),
    }
)


@dataclass(frozen=True, slots=True)
class Call:
    """What a request asks for, apart from statement and data."""

    query: str
    query_id: str
    database: str | None
    default_format: str
    settings: Mapping[str, str]
    parameters: Mapping[str, str]
    session_id: str | None
    session_timeout_s: int
    session_must_exist: bool
    waits_for_end: bool  # the answer begins when the query has succeeded
    accept_encoding: str


def call_of(request: web.Request, fields: Mapping[str, str]) -> Call:
    """Read the parameters, from the address and from form fields. Raises QueryError."""
    given = {**request.query, **fields}
    for name in ("compress", "decompress"):
        if given.get(name, "0") != "0":
            raise refusal(
                Code.NOT_IMPLEMENTED,
                f"{name}=1 (ClickHouse's own block compression) is not served here: "
                "use Accept-Encoding and Content-Encoding with lz4, zstd, gzip or deflate",
            )
    if "role" in given:
        raise refusal(
            Code.UNKNOWN_ROLE, f"There is no role {given['role']!r} in the embedded engine"
        )
    settings = {
        name: value
        for name, value in given.items()
        if name not in _RESERVED and not name.startswith("param_")
    }
    if request.method != "POST" and settings.get("readonly") != "1":
        settings["readonly"] = "2"  # as the server: reading, with settings of one's own
    headers = request.headers
    return Call(
        query=given.get("query", ""),
        query_id=given.get("query_id") or str(uuid.uuid4()),
        database=given.get("database") or headers.get("X-ClickHouse-Database"),
        default_format=given.get("default_format")
        or headers.get("X-ClickHouse-Format")
        or "TabSeparated",
        settings=settings,
        parameters={
            name.removeprefix("param_"): value
            for name, value in given.items()
            if name.startswith("param_")
        },
        session_id=given.get("session_id") or None,
        session_timeout_s=_session_timeout_s(given.get("session_timeout")),
        session_must_exist=given.get("session_check", "0") == "1",
        waits_for_end=given.get("wait_end_of_query", "0") == "1",
        accept_encoding=(
            headers.get("Accept-Encoding", "")
            if given.get("enable_http_compression", "0") == "1"
            else ""
        ),
    )


def _session_timeout_s(text: str | None) -> int:
    if text is None:
        return DEFAULT_TIMEOUT_S
    if not text.isdecimal() or int(text) > MAX_TIMEOUT_S:
        raise refusal(
            Code.INVALID_SESSION_TIMEOUT,
            f"session_timeout={text!r}: seconds up to {MAX_TIMEOUT_S} are accepted",
        )
    return int(text)


def credentials_of(request: web.Request) -> tuple[str, str]:
    """Return user and password, from wherever ClickHouse accepts them. Raises QueryError."""
    headers = request.headers
    if "X-ClickHouse-User" in headers or "X-ClickHouse-Key" in headers:
        return headers.get("X-ClickHouse-User", "default"), headers.get("X-ClickHouse-Key", "")
    if authorization := headers.get("Authorization"):
        scheme, _, encoded = authorization.partition(" ")
        try:
            user, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            colon = ""
        if scheme.lower() != "basic" or not colon:
            raise refusal(
                Code.AUTHENTICATION_FAILED,
                "Authentication failed: the Authorization header must be Basic user:password",
            )
        return user, password
    return request.query.get("user", "default"), request.query.get("password", "")


async def form_fields(request: web.Request) -> dict[str, str]:
    """Return the fields of a multipart form; no other body is touched. Raises QueryError."""
    if request.content_type != "multipart/form-data":
        return {}
    if (request.content_length or 0) > MAX_STATEMENT_BYTES:
        raise _too_large(MAX_STATEMENT_BYTES)
    fields: dict[str, str] = {}
    left_bytes = MAX_STATEMENT_BYTES  # of a form without a length, too
    try:
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader) or part.filename or not part.name:
                raise refusal(
                    Code.NOT_IMPLEMENTED, "External data is not served by the embedded engine"
                )
            value = await part.read(decode=True)
            if len(value) > MAX_FIELD_BYTES:
                raise refusal(Code.POCO_EXCEPTION, "HTML Form Exception: Field value too long")
            fields[part.name] = value.decode()
            left_bytes -= len(part.name) + len(fields[part.name])
            if left_bytes < 0:
                raise _too_large(MAX_STATEMENT_BYTES)
    except ValueError as error:
        raise refusal(Code.BAD_ARGUMENTS, f"The multipart form is not readable: {error}") from None
    return fields


class Body:
    """The body of a request, decompressed as it comes in."""

    def __init__(self, request: web.Request, *, consumed: bool) -> None:
        encoding = request.headers.get("Content-Encoding", "identity").lower()
        self._content = request.content
        self._decompressor = None if encoding == "identity" else Decompressor(encoding)
        self._ended = consumed

    async def statement(self, query: str) -> tuple[Statement, bytes]:
        """Return the statement, and the first of its data if it is an INSERT with data.

        The statement is in `query`, or in the body, or in both, one after the other. What
        `pieces` yields afterwards is the rest of the data. Raises QueryError.
        """
        text = bytearray(f"{query}\n".encode() if query else b"")
        if not (query and outline(bytes(text)).data_at is not None):
            enough_bytes = _HEAD_BYTES
            async for piece in self._pieces():
                text += piece
                if len(text) < enough_bytes:
                    continue
                if verb_of(bytes(text)) == "INSERT" and outline(bytes(text)).data_at is not None:
                    break
                if len(text) > MAX_STATEMENT_BYTES:
                    raise _too_large(MAX_STATEMENT_BYTES)
                enough_bytes = MAX_STATEMENT_BYTES
        statement = outline(bytes(text))
        if not statement.verb:
            raise refusal(Code.SYNTAX_ERROR, "Syntax error: Empty query")
        return statement, b"" if statement.data_at is None else bytes(text[statement.data_at :])

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the rest of the body. Raises QueryError if it is too large, late or broken."""
        left_bytes = MAX_DATA_BYTES
        async for piece in self._pieces():
            left_bytes -= len(piece)
            if left_bytes < 0:
                raise _too_large(MAX_DATA_BYTES)
            yield piece

    async def _pieces(self) -> AsyncIterator[bytes]:
        while not self._ended:
            try:
                async with asyncio.timeout(READ_TIMEOUT_S):
                    data = await self._content.readany()
            except TimeoutError:
                raise refusal(
                    Code.SOCKET_TIMEOUT, f"No data came for {READ_TIMEOUT_S:.0f} s"
                ) from None
            if not data:
                self._ended = True
                if self._decompressor:
                    self._decompressor.finish()
            elif self._decompressor is None:
                yield data
            else:
                # Not on the event loop: a large insert would hold up every other request.
                yield await asyncio.to_thread(b"".join, self._decompressor.pieces(data))


def _too_large(limit_bytes: int) -> QueryError:
    return refusal(Code.QUERY_IS_TOO_LARGE, f"The request is larger than {limit_bytes} bytes")
