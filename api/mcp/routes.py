"""Paths of MCP: streamable HTTP at /mcp, SSE at /mcp/sse, and health.

Streamable HTTP is served without sessions, as the protocol's revision 2026-07-28 has it: a message
is answered with one JSON body by whichever process it comes to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import TypedDict

from api.access.charge import Charges
from api.access.grants import Grant
from api.access.prices import Price
from api.access.refusals import no_session
from api.access.user_sessions import UserSessions
from api.docs.openapi import described_with, open_problems
from api.http import bodies
from api.http.encoding import encode
from api.http.errors import BUSY, TIMED_OUT
from api.http.replies import Answer, send_uncached
from api.http.state import services as services_of
from api.mcp.calls import Calls
from api.mcp.direct import Direct
from api.mcp.messages import refusal_of
from api.mcp.pricing import Pricing, session_of
from api.mcp.server import make_server
from api.mcp.sessions import Sessions
from api.mcp.tools import TOOLS
from api.services import Services
from infra.settings import Settings

HTTP: Final = "/mcp"
SSE: Final = "/mcp/sse"
MESSAGES: Final = "/mcp/messages"
HEALTH: Final = "/mcp/health"

OPEN: Final = frozenset({HEALTH})
"""Paths that need no grant."""

PING_S: Final = 15.0  # proxies end a silent connection after 60 s, as a rule
SEND_WITHIN_S: Final = 30.0  # a client that does not read is sent nothing more
_STREAM: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
_ACCEPT: Final = (b"accept", b"application/json, text/event-stream")
_PLAIN: Final = (b"content-type", b"text/plain; charset=utf-8")
_NOT_KEPT: Final = (b"cache-control", b"no-store")


class McpHealth(TypedDict):
    """Whether agents should come here."""

    status: Annotated[str, Field(description="`ok`, `degraded` or `unavailable`, as /api/health")]
    tools: Annotated[int, Field(description="tools that are listed", examples=[10])]
    sessions: Annotated[int, Field(description="SSE sessions of this process", examples=[3])]


class Door:
    """MCP of one application."""

    def __init__(
        self,
        settings: Settings,
        services: Services,
        charges: Charges,
        users: UserSessions | None = None,
    ) -> None:
        """`users` are browsers that signed in, where they can."""
        self._settings = settings
        self._users = users
        self._sessions = Sessions(settings, services.stores.access)
        self._charges = charges
        calls = Calls(services)
        self._direct = Direct(calls)
        self._manager = StreamableHTTPSessionManager(
            make_server(services, calls)._lowlevel_server,
            json_response=True,
            stateless=True,
            # `Host` is checked for all paths by the edge, `Origin` by `pricing`.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=settings.api_max_body_kib * 1024,
        )
        origins = frozenset(filter(None, settings.api_cors_origins.lower().split(",")))
        pricing = Pricing(self._sessions, origins)
        self.prices: Mapping[str, Price] = {
            HTTP: pricing.price,
            SSE: pricing.price,
            MESSAGES: pricing.price_of_session,
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the context lasts."""
        serving, ending = asyncio.Event(), asyncio.Event()

        # The manager's task group must be left by the task that entered it; the server that starts
        # and stops the application need not do both in one task.
        async def manage() -> None:
            async with self._manager.run():
                serving.set()
                await ending.wait()

        background = [
            asyncio.create_task(self._sessions.deliver()),
            asyncio.create_task(self._sessions.watch(self._charges.refused)),
        ]
        managing = asyncio.create_task(manage())
        managing.add_done_callback(lambda _: serving.set())
        try:
            await serving.wait()
            yield
        finally:
            ending.set()
            for each in background:
                each.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await managing

    def router(self) -> APIRouter:
        """Return the paths."""
        area = APIRouter(tags=["mcp"])

        @area.post(HTTP, include_in_schema=False)
        async def streamable(request: Request) -> Response:
            answer = await self._direct.answer(request.scope)
            return answer or _Handled(self._package)

        @area.get(SSE, include_in_schema=False)
        async def sse(_: Request) -> Response:
            return _Handled(self._stream)

        @area.post(MESSAGES, include_in_schema=False)
        async def message(_: Request) -> Response:
            return _Handled(self._message)

        @area.get(
            HEALTH,
            summary="Whether agents should come here",
            description="Agents connect to /mcp (streamable HTTP) or /mcp/sse with their API key "
            "in `x-api-key`. A call of a tool costs one credit; everything else costs nothing, and "
            "counts for the rate. This path costs nothing and needs no key.",
            response_model=None,
            responses={
                **open_problems(),
                200: {"model": McpHealth},
                503: {
                    "model": McpHealth,
                    "description": "Send none: a store does not answer. Or a problem: `timed_out`, "
                    "`busy`",
                    "content": described_with(
                        (TIMED_OUT, BUSY), {"status": "unavailable", "tools": 10, "sessions": 0}
                    ),
                },
            },
            openapi_extra={"security": []},
        )
        async def health(request: Request) -> Response:
            services = services_of(request)
            found = await services.system.health()
            answer: McpHealth = {
                "status": found["status"],
                "tools": len(TOOLS),
                "sessions": self._sessions.count,
            }
            return send_uncached(encode(answer), 503 if answer["status"] == "unavailable" else 200)

        return area

    async def _package(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the package answer a message; say what is wrong with anything else."""
        body = await bodies.read(receive)
        answer = refusal_of(body) or self._manager.handle_request
        await answer(scope, bodies.again(body, receive), send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answers of a session as they come, until either side ends it."""
        grant: Grant = scope["state"]["grant"]
        browser = await self._browser(grant, scope)
        session = await self._sessions.open(grant.fingerprint, grant.payer, browser)
        scope["state"]["lasts"]()
        endpoint = f"{scope.get('root_path', '').rstrip('/')}{MESSAGES}?session_id={session.name}"

        async def leaves() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            session.end()

        async def write(text: bytes) -> None:
            async with asyncio.timeout(SEND_WITHIN_S):
                await send({"type": "http.response.body", "body": text, "more_body": True})

        leaving = asyncio.create_task(leaves())
        now_s = asyncio.get_running_loop().time
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*_STREAM]})
            await write(_event(b"endpoint", endpoint.encode()))
            while not session.is_ended:
                try:
                    async with asyncio.timeout(PING_S):
                        await session.wake.wait()
                except TimeoutError:
                    if now_s() - session.used_s > self._settings.mcp_session_idle_s:
                        break
                    await write(b": ping\n\n")
                while (answer := session.take()) is not None:
                    await write(_event(b"message", answer))
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:  # the client does not read
            pass
        except asyncio.CancelledError:  # the server stops: its client connects to another
            await send({"type": "http.response.body", "body": b""})
        finally:
            leaving.cancel()
            await asyncio.shield(self._sessions.close(session))

    async def _browser(self, grant: Grant, scope: Scope) -> str | None:
        """Return the digest of the user's session that a grant is of, None of a key's."""
        if self._users is None or grant.user != grant.fingerprint:
            return None
        client = scope.get("client")
        session = await self._users.of(scope["headers"], client[0] if client else "")
        if session is None:  # ended within this request
            raise no_session()
        return session.digest

    async def _message(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a message, and send the answer on to the session that it is of."""
        name = session_of(scope)
        answered = _Captured()
        headers = [each for each in scope["headers"] if each[0] != b"accept"]
        inner = {**scope, "path": HTTP, "query_string": b"", "headers": [*headers, _ACCEPT]}
        answer = await self._direct.answer(inner)
        await (answer or self._package)(inner, receive, answered)
        if answered.status == 200:
            await self._sessions.answer(name, answered.body)
            answered = _Captured(202, b"Accepted")
        response = Answer(answered.status, answered.body, _PLAIN, _NOT_KEPT)
        await response(scope, receive, send)


def _event(kind: bytes, data: bytes) -> bytes:
    return b"event: %b\r\ndata: %b\r\n\r\n" % (kind, data)


class _Captured:
    """Takes an answer in place of a client."""

    def __init__(self, status: int = 0, body: bytes = b"") -> None:
        self.status = status
        self.body = body

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.body += message.get("body", b"")


class _Handled(Response):
    """A response that another application sends."""

    def __init__(self, app: ASGIApp) -> None:
        self.status_code = 200
        self.background = None
        self.body = b""
        self.raw_headers: list[Any] = []
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
