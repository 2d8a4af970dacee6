"""Bounds every request: how many at once, how long, how large. What goes wrong inside is answered.

A body has as long to arrive as the answer then has: one that comes late is no fault of the server.

It is inside of CORS, so that pages of other origins can read the problems, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import error as StructError  # noqa: N812 - it is an exception
from typing import Final

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http import problems
from api.http.access_log import shown
from api.http.deadlines import Deadlines
from api.http.errors import (
    BODY_TOO_LARGE,
    BUSY,
    QUARANTINED,
    REQUEST_TIMED_OUT,
    TIMED_OUT,
    Problem,
)
from infra.settings import Settings
from schemas.positions import PackedError

log = structlog.get_logger(__name__)

CUT_SHORT: Final = "cut_short"
"""Key in a request's state: the problem that answers it when it is late or the server stops.

Without it the answer asks for another request, which costs the caller where requests are paid for.
"""
RETRY_AFTER_S: Final = 1
_KIB: Final = 1024


class Guard:
    """ASGI middleware around the gate and the routes."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._most = settings.api_max_concurrent
        self._timeout_s = settings.api_timeout_s
        self._deadlines = Deadlines(settings.api_timeout_s)
        self._body_bytes = settings.api_max_body_kib * _KIB
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._running >= self._most:
            if any(name == b"x-api-key" for name, _ in scope["headers"]):
                scope["state"]["refused_key"] = True  # availability counts it as failed
            await problems.response(_busy(), scope)(scope, receive, send)
            return
        self._running += 1
        body = None
        if scope["method"] == "POST":  # the server holds back what others send
            body = scope["state"]["body"] = Body(
                receive, self._body_bytes, lambda: self._deadlines.begin_again(task, loop)
            )
            receive = body.receive
        is_started = is_late = False

        async def sending(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        problem = None
        loop = asyncio.get_running_loop()
        task = self._deadlines.enter(loop)
        is_lasting = False

        def lasts() -> None:
            """End this bound: the answer is a stream, whose route bounds it."""
            nonlocal is_lasting, is_late
            is_lasting = True
            self._running -= 1
            is_late = self._deadlines.leave(task)

        scope["state"]["lasts"] = lasts
        try:
            if body is not None:
                body.check_length(scope)
            await self._app(scope, receive, sending)
        except Problem as found:
            problem = found
        except ClientDisconnect:  # nobody is there to be answered
            return
        except asyncio.CancelledError:  # too late; or the server stops, and waits no longer
            problem = scope["state"].get(CUT_SHORT) or _stopping()
        except Exception as error:
            problem = of_failure(error, scope["path"], scope["state"]["request_id"])
        finally:
            if not is_lasting:
                self._running -= 1
                is_late = self._deadlines.leave(task)
        if problem is None:
            return
        if is_late:
            problem = scope["state"].get(CUT_SHORT) or self._too_late(body)
        if is_started:  # too late for another answer: the caller must see that this one is cut
            raise problem
        await problems.response(problem, scope)(scope, receive, send)

    def _too_late(self, body: Body | None) -> Problem:
        if body is not None and body.is_awaited:
            return Problem(
                REQUEST_TIMED_OUT,
                f"The body did not arrive within {self._timeout_s:g} s",
                headers={"connection": "close"},
            )
        return Problem(
            TIMED_OUT,
            f"The answer took more than {self._timeout_s:g} s; request less, or retry in "
            f"{RETRY_AFTER_S} s",
            headers={"retry-after": str(RETRY_AFTER_S)},
        )


class Body:
    """A request's body, counted as it comes; raises Problem where it is too large."""

    __slots__ = ("_left", "_limit", "_on_whole", "_receive", "is_awaited")

    def __init__(self, receive: Receive, limit: int, on_whole: Callable[[], None]) -> None:
        self._receive = receive
        self._on_whole = on_whole
        self._limit = self._left = limit
        self.is_awaited = False  # whether somebody waits for the caller to send more of it

    def check_length(self, scope: Scope) -> None:
        """Refuse a body that is announced to be too large, before anything is done for it."""
        for name, value in scope["headers"]:
            if name == b"content-length" and int(value) > self._limit:
                raise self._too_large()

    async def receive(self) -> Message:
        """Return what comes next."""
        self.is_awaited = True
        message = await self._receive()
        self.is_awaited = False
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise self._too_large()
        if not message.get("more_body", False):
            self._on_whole()
        return message

    def _too_large(self) -> Problem:
        return Problem(BODY_TOO_LARGE, f"A body must have at most {self._limit // _KIB} KiB")


def of_failure(error: Exception, path: str, request_id: str) -> Problem:
    """Return what a caller sees of an error that is no Problem; the log has the error itself."""
    if isinstance(error, PackedError | StructError):
        log.error("a stored value cannot be read", path=shown(path), reason=str(error))
        return Problem(
            QUARANTINED,
            "What is stored for this answer cannot be read; the agents leave it out as they come "
            "across it, and /health names the command that mends it",
        )
    log.error("request failed", request_id=request_id, path=shown(path), exc_info=error)
    return problems.internal(request_id)


def _busy() -> Problem:
    return Problem(
        BUSY,
        f"The server is answering as many requests as it can; retry in {RETRY_AFTER_S} s",
        headers={"retry-after": str(RETRY_AFTER_S)},
    )


def _stopping() -> Problem:
    return Problem(
        BUSY,
        f"This server is stopping; retry in {RETRY_AFTER_S} s",
        headers={"retry-after": str(RETRY_AFTER_S), "connection": "close"},
    )
