"""ClickHouse's HTTP interface over the embedded engine.

Serves what clickhouse-connect and `curl` use: /ping, queries in the address or the body, query
parameters, settings, sessions, inserts of any format with compressed bodies, streamed and
compressed answers, and errors with ClickHouse's code and status. Not served: external data, roles,
ClickHouse's own block compression, temporary tables that outlive a request.

It listens on loopback only, turns web pages from elsewhere away, and runs no statement that reaches
outside the engine's own tables (`fence`).
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

import structlog
from aiohttp import web

from infra.clickhouse import reader
from infra.clickhouse.compression import Compressor
from infra.clickhouse.engine import Engine, Result, Scope
from infra.clickhouse.errors import Code, QueryError, refusal
from infra.clickhouse.request import Body, Call, call_of, credentials_of, form_fields
from infra.clickhouse.sessions import Session, Sessions
from infra.clickhouse.statement import Statement
from infra.hosts import Hosts

MAX_QUERIES: Final = 32
SLOT_TIMEOUT_S: Final = 30.0
WRITE_TIMEOUT_S: Final = 60.0
_BATCH_BYTES: Final = 1024**2
_LINGER_S: Final = 5.0
_HOSTS: Final = Hosts("127.0.0.1")
_SESSION: Final = ("SET", "USE")  # statements that a session remembers

# Of these, results written one after the other are again a result.
_JOINABLE: Final = frozenset(
    {
        *("native", "rowbinary", "tabseparated", "tsv", "tabseparatedraw", "tsvraw", "csv"),
        *("jsoncompacteachrow",),  # a setting makes an array of JSONEachRow
    }
)
_CONTENT_TYPES: Final = (
    ("tabseparated", "text/tab-separated-values; charset=UTF-8"),
    ("tsv", "text/tab-separated-values; charset=UTF-8"),
    ("csv", "text/csv; charset=UTF-8"),
    ("jsoneachrow", "application/x-ndjson; charset=UTF-8"),
    ("json", "application/json; charset=UTF-8"),
    ("pretty", "text/plain; charset=UTF-8"),
)

P = ParamSpec("P")
T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class User:
    """Who is let in."""

    name: str
    password: str


class Front:
    """The HTTP side of one engine. Its writer may do everything, its reader only read."""

    def __init__(self, engine: Engine, writer: User, reader: User | None = None) -> None:
        self._engine = engine
        self._fence = engine.fence()
        self._writer = writer
        self._reader = reader
        # Each has its own: what one sets, the other's queries do not see.
        self._sessions = {user: Sessions() for user in (writer, reader) if user}
        self._running: set[str] = set()
        self._slots = asyncio.Semaphore(MAX_QUERIES)
        self._threads = ThreadPoolExecutor(MAX_QUERIES, thread_name_prefix="query")
        # Of their own, so that a query can be stopped while all others are busy.
        self._killers = ThreadPoolExecutor(2, thread_name_prefix="kill")

    def application(self) -> web.Application:
        """Return the application to serve."""
        app = web.Application(middlewares=[self._explain_errors, _only_from_here])
        app.router.add_get("/ping", _ok)
        app.router.add_get("/", self._answer, allow_head=False)
        app.router.add_post("/", self._answer)
        return app

    async def stop_after(self, grace_s: float) -> None:
        """Stop what still runs after a time; the clients get the error."""
        await asyncio.sleep(grace_s)
        if self._running:
            _log.warning("stopping running queries", queries=len(self._running))
        for tag in list(self._running):
            await self._kill(tag)

    def close(self) -> bool:
        """Give the threads back; return whether no query is running any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._killers.shutdown(wait=False, cancel_futures=True)
        return not self._running

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        user = self._authenticate(request)
        fields = await form_fields(request)
        reads_only = user is self._reader
        call = call_of(request, fields)
        request["query_id"] = call.query_id
        if request.method == "GET" and not call.query:
            return await _ok(request)
        body = Body(request, consumed=bool(fields))
        statement, first_data = await body.statement(call.query)
        if request.method == "GET" and not (statement.reads_only or statement.verb in _SESSION):
            raise refusal(Code.READONLY, "Cannot execute query in readonly mode: send it by POST")
        settings = reader.allow(statement, call.settings) if reads_only else call.settings
        self._fence.require_inside(statement, settings, call.parameters)
        with ExitStack() as stack:
            session = self._enter_session(user, call, stack)
            if session and statement.creates_temporary:
                raise refusal(
                    Code.NOT_IMPLEMENTED,
                    "Temporary tables are not kept for a session by the embedded engine",
                )
            async with self._slot(call.query_id):
                scope = Scope(
                    tag=call.query_id,
                    database=call.database,
                    settings=settings,
                    parameters=call.parameters,
                    earlier=tuple(session.statements) if session else (),
                    fixed=_fixed(call) if reads_only else {},
                )
                format_name = statement.format or call.default_format
                streamed, is_whole = None, True
                if statement.data_at is not None:
                    result = await self._insert(scope, statement, first_data, body)
                elif _streams(statement, call, format_name):
                    streamed, is_whole = await self._stream(
                        request, call, scope, statement, format_name
                    )
                else:
                    result = await self._run(scope, statement, format_name)
            if session and statement.verb in _SESSION:
                session.remember(statement.sql.decode(errors="replace"))
        if streamed is not None:
            if not is_whole:
                await _break_off(request)
            return streamed
        shown_format = format_name if statement.returns_rows else None
        headers = self._headers(call, shown_format) | _summary(result)
        answer = web.Response(body=result.body, headers=headers)
        if result.body and (compressor := Compressor.accepted(call.accept_encoding)):
            answer.headers["Content-Encoding"] = compressor.encoding
            answer.body = await asyncio.to_thread(compressor.whole, result.body)
        return answer

    def _authenticate(self, request: web.Request) -> User:
        name, password = credentials_of(request)
        for user in (self._writer, self._reader):
            if user is not None and (
                hmac.compare_digest(name.encode(), user.name.encode())
                and hmac.compare_digest(password.encode(), user.password.encode())
            ):
                return user
        raise refusal(
            Code.AUTHENTICATION_FAILED,
            f"{name}: Authentication failed: password is incorrect, "
            "or there is no user with such name",
        )

    def _enter_session(self, user: User, call: Call, stack: ExitStack) -> Session | None:
        if call.session_id is None:
            return None
        return stack.enter_context(
            self._sessions[user].enter(
                call.session_id, call.session_timeout_s, must_exist=call.session_must_exist
            )
        )

    @asynccontextmanager
    async def _slot(self, query_id: str) -> AsyncIterator[None]:
        if query_id in self._running:
            raise refusal(
                Code.QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING,
                f"Query with id = {query_id} is already running",
            )
        self._running.add(query_id)
        try:
            try:
                async with asyncio.timeout(SLOT_TIMEOUT_S):
                    await self._slots.acquire()
            except TimeoutError:
                raise refusal(
                    Code.TOO_MANY_SIMULTANEOUS_QUERIES,
                    f"Too many simultaneous queries: {MAX_QUERIES} have been running "
                    f"for {SLOT_TIMEOUT_S:.0f} s",
                ) from None
            try:
                yield
            finally:
                self._slots.release()
        finally:
            self._running.discard(query_id)

    async def _run(self, scope: Scope, statement: Statement, format_name: str) -> Result:
        def run() -> Result:
            with self._engine.query(scope) as query:
                return query.run(statement.sql, format_name)

        return await self._in_thread(scope.tag if statement.reads_only else None, run)

    async def _insert(
        self, scope: Scope, statement: Statement, first_data: bytes, body: Body
    ) -> Result:
        assert statement.format is not None, "an INSERT with data names its format"
        try:
            sql = statement.sql.decode()
        except UnicodeDecodeError as error:
            raise refusal(Code.SYNTAX_ERROR, f"The statement is not UTF-8: {error}") from None
        query = self._engine.query(scope)
        try:
            await self._in_thread(None, query.begin_insert, sql, statement.format)
            batch = bytearray(first_data)
            async for piece in body.pieces():
                batch += piece
                if len(batch) >= _BATCH_BYTES:
                    await self._in_thread(None, query.append, bytes(batch))
                    batch.clear()
            if batch:
                await self._in_thread(None, query.append, bytes(batch))
            return await self._in_thread(None, query.finish_insert)
        finally:
            # Without its end the insert is given up: the client left, or its data is broken.
            await self._in_thread(None, query.close)

    async def _stream(
        self, request: web.Request, call: Call, scope: Scope, statement: Statement, format_name: str
    ) -> tuple[web.StreamResponse, bool]:
        """Send the rows block by block; return the answer, and whether it has all of them."""
        exception_tag = secrets.token_hex(8)
        compressor = Compressor.accepted(call.accept_encoding)
        pack: Callable[[bytes], bytes] = compressor.compress if compressor else bytes
        query = self._engine.query(scope, streams=True)
        try:
            # The first block comes before the headers: most errors still get their status.
            block = await self._in_thread(scope.tag, query.open_stream, statement.sql, format_name)
            answer = web.StreamResponse(headers=self._headers(call, format_name))
            answer.headers["X-ClickHouse-Exception-Tag"] = exception_tag
            if compressor:
                answer.headers["Content-Encoding"] = compressor.encoding
            await answer.prepare(request)
            late_error: QueryError | None = None
            while block is not None:
                await _write(answer, pack(block))
                try:
                    block = await self._in_thread(scope.tag, query.next_block)
                except QueryError as error:
                    late_error = error
                    break
            if late_error:
                _log.warning("query failed after its answer began", code=late_error.code)
                await _write(answer, pack(_late_error(exception_tag, self._text(late_error))))
            if compressor:
                await _write(answer, compressor.finish())
            return answer, late_error is None
        finally:
            await self._in_thread(None, query.close)

    async def _in_thread(
        self, stop_tag: str | None, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do engine work beside the event loop, and to its end even when the client leaves.

        A connection may be closed only when the engine is done with it. What may be cut short
        names its tag and is stopped first.
        """
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self._threads, lambda: work(*args, **kwargs))
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            if stop_tag is not None:
                await self._kill(stop_tag)
            with suppress(QueryError):
                await done
            raise

    async def _kill(self, tag: str) -> None:
        loop = asyncio.get_running_loop()
        with suppress(QueryError):
            await loop.run_in_executor(self._killers, self._engine.kill, tag)

    def _headers(self, call: Call, format_name: str | None) -> dict[str, str]:
        headers = {
            "X-ClickHouse-Query-Id": call.query_id,
            "X-ClickHouse-Timezone": self._engine.timezone,
        }
        if format_name is not None:
            headers["X-ClickHouse-Format"] = format_name
            headers["Content-Type"] = next(
                (
                    content_type
                    for start, content_type in _CONTENT_TYPES
                    if format_name.lower().startswith(start)
                ),
                "application/octet-stream",
            )
        return headers

    def _text(self, error: QueryError) -> str:
        text = str(error)
        return text if "(version " in text else f"{text} (version {self._engine.version})"

    @web.middleware
    async def _explain_errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except QueryError as error:
            failure = error
            if error.status >= 500:
                _log.warning("query failed", code=error.code, error=str(error)[:500])
        except (web.HTTPException, ConnectionError):
            raise
        except Exception:
            _log.exception("request failed")
            failure = refusal(Code.STD_EXCEPTION, "The front failed; its log says why")
        headers = {"X-ClickHouse-Exception-Code": str(failure.code)}
        if query_id := request.get("query_id"):
            headers["X-ClickHouse-Query-Id"] = query_id
        return web.Response(text=f"{self._text(failure)}\n", status=failure.status, headers=headers)


@web.middleware
async def _only_from_here(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn away web pages from elsewhere: a browser would carry their requests to loopback.

    A page that points its own name at 127.0.0.1 is known by `Host`, one that posts by `Origin`, and
    one that loads an image or a script, which has neither, by `Sec-Fetch-Site`.
    """
    origin = request.headers.get("Origin")
    if (
        not _HOSTS.accepts(request.host)
        or (origin is not None and not _HOSTS.accepts(origin.partition("://")[2]))
        or request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
    ):
        raise refusal(Code.ACCESS_DENIED, "The embedded engine answers this machine only")
    return await handler(request)


async def _ok(_: web.Request) -> web.Response:
    return web.Response(text="Ok.\n")


async def _write(answer: web.StreamResponse, data: bytes) -> None:
    if not data:
        return
    try:
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await answer.write(data)
    except TimeoutError:
        raise ConnectionResetError(f"the client took nothing for {WRITE_TIMEOUT_S:.0f} s") from None


async def _break_off(request: web.Request) -> None:
    """Close the connection without the last chunk: no client takes the answer for complete.

    A client that sees the end drops what it has not read, the reason among it (aiohttp does). So
    the client closes first: clickhouse-connect does when it reads the reason, which cancels this.
    """
    await asyncio.sleep(_LINGER_S)
    if request.transport is not None:
        request.transport.close()


def _fixed(call: Call) -> dict[str, str]:
    """Return the reader's limits; a call may have lower ones."""
    return {name: call.settings.get(name, limit) for name, limit in reader.READING.items()} | {
        "readonly": reader.READING["readonly"]
    }


def _streams(statement: Statement, call: Call, format_name: str) -> bool:
    return (
        not call.waits_for_end
        and statement.verb in ("SELECT", "WITH", "FROM")
        and format_name.lower() in _JOINABLE
        # Both are a second result behind the first, which block by block would be lost.
        and not statement.has_totals
        and call.settings.get("extremes", "0") == "0"
    )


def _summary(result: Result) -> dict[str, str]:
    counts = {
        "read_rows": result.read_rows,
        "read_bytes": result.read_bytes,
        "written_rows": result.written_rows,
        "written_bytes": result.written_bytes,
        "total_rows_to_read": result.read_rows,
        "result_rows": result.result_rows,
        "result_bytes": len(result.body),
        "elapsed_ns": round(result.elapsed_s * 1e9),
    }
    return {"X-ClickHouse-Summary": json.dumps({name: str(n) for name, n in counts.items()})}


def _late_error(tag: str, text: str) -> bytes:
    """Write an error behind the data of a failed answer, as servers do since 25.11."""
    message = text.encode()
    marker = b"\r\n__exception__\r\n"
    return b"%b%b\r\n%b\n%d %b%b" % (
        *(marker, tag.encode(), message),
        *(len(message), tag.encode(), marker),
    )
