"""What a message of MCP costs: a `tools/call` one credit, all others none.

A body is read before it is paid for, so it is bounded by the guard, and by how many requests of a
key run at once; the gate has seen before that the key is good, or has read little. A page of
another origin is refused here, before anything is charged: a browser that a page leads to this
server by a name of its own (DNS rebinding) is refused by `Host` already.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import orjson
from starlette.types import Receive, Scope

from api.access.prices import Priced
from api.http import bodies
from api.http.errors import INVALID_PARAMETER, Problem
from api.mcp.problem_kinds import ORIGIN_REFUSED
from api.mcp.sessions import Sessions

CALL: Final = "tools/call"
_MESSAGE: Final = "mcp_message"
_EVERY: Final = "*"
_OF_ANSWERS: Final = frozenset({"result", "error"})


class Pricing:
    """Prices the requests of MCP's paths."""

    def __init__(self, sessions: Sessions, origins: frozenset[str]) -> None:
        """`origins` are those of pages that may call, beside the server's own; `*` is all."""
        self._sessions = sessions
        self._origins = origins

    async def price(self, scope: Scope, receive: Receive, fingerprint: str) -> Priced:
        """Price one request; raises Problem where its page may not call."""
        self._check_origin(scope)
        if scope["method"] != "POST":
            return Priced(0, receive, answers_refusals=False)
        body = await bodies.read(receive)
        message = scope["state"][_MESSAGE] = _parsed(body)
        is_call = message is not None and message.get("method") == CALL
        answers = message is not None and is_call and _can_be_answered(message)
        return Priced(int(is_call), bodies.again(body, receive), answers_refusals=answers)

    async def price_of_session(self, scope: Scope, receive: Receive, fingerprint: str) -> Priced:
        """As `price`, of a message to a session; raises Problem if it is not open for the key."""
        if scope["method"] == "POST":
            await self._sessions.check(session_of(scope), fingerprint)
        return await self.price(scope, receive, fingerprint)

    def _check_origin(self, scope: Scope) -> None:
        if _EVERY in self._origins:
            return
        host = b""
        origins = []
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"origin":
                origins.append(value.decode("latin-1").lower())
        for origin in origins:
            if origin in self._origins:
                continue
            try:
                own = urlsplit(origin).netloc == host.decode("latin-1").lower() != ""
            except ValueError:
                own = False
            if not own:
                raise Problem(
                    ORIGIN_REFUSED,
                    f"Pages of {origin[:100]!r} may not use MCP here: add it to API_CORS_ORIGINS "
                    "if that is a page of yours",
                )


def session_of(scope: Scope) -> str:
    """Return the session that a message is for; raises Problem."""
    query: str = scope["query_string"].decode("latin-1")
    found = parse_qs(query).get("session_id", [])
    if len(found) != 1:
        raise Problem(INVALID_PARAMETER, "`session_id` must be the one of the `endpoint` event")
    return found[0]


def message_of(scope: Scope) -> dict[str, Any] | None:
    """Take the message that was priced out of the state, None where it is no object of JSON."""
    found: dict[str, Any] | None = scope["state"].pop(_MESSAGE, None)
    return found


def _can_be_answered(message: dict[str, Any]) -> bool:
    """Return whether a call gets a result: what has no id, or is an answer itself, gets none."""
    return type(message.get("id")) in (int, str) and message.keys().isdisjoint(_OF_ANSWERS)


def _parsed(body: bytes) -> dict[str, Any] | None:
    """Return a message, None where there is none to be read.

    The tools refuse a call that was read as anything else here, so a text that two parsers
    understand differently is no way around the price.
    """
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return message if isinstance(message, dict) else None
