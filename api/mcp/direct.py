"""The short way of a plain call: a known tool, one wallet, one JSON body as answer.

The package makes of each message a transport, its streams and four tasks, then validates and dumps
the result twice: more than all else that a call costs. A plain call needs nothing of that. Here it
is recognized in the message that `pricing` read, and answered with the bytes that the package would
send. Whatever differs in anything, also what the package would refuse, takes the package's way;
so do all other methods, and revisions of the protocol without a handshake.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
from fastapi import Response
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Scope

from api.http.replies import Answer
from api.mcp.calls import Calls
from api.mcp.pricing import CALL, message_of
from api.mcp.tools import TOOLS, Tool

_TOOLS: Final = {tool.name: tool for tool in TOOLS}
_REQUIRED: Final = {
    b"content-type": frozenset({b"application/json"}),
    b"accept": frozenset(
        {
            b"application/json, text/event-stream",
            b"text/event-stream, application/json",
            b"application/json",
            b"*/*",
        }
    ),
}
"""Headers as clients mostly send them."""
_VERSION: Final = b"mcp-protocol-version"
_VERSIONS: Final = frozenset(each.encode() for each in HANDSHAKE_PROTOCOL_VERSIONS)
_MESSAGE: Final = frozenset({"jsonrpc", "id", "method", "params"})
_PARAMS: Final = frozenset({"name", "arguments"})
_PARAMS_AND_META: Final = _PARAMS | {"_meta"}
_ARGUMENTS: Final = frozenset({"wallet"})
_PROGRESS: Final = "progressToken"
_RESERVED: Final = "io.modelcontextprotocol/"
_FLAT: Final = (str, int, float, bool, type(None))  # parsers differ in how deep they read
_SAFE_INTEGERS: Final = range(-(2**53) + 1, 2**53)  # all parsers read these alike
_JSON: Final = (b"content-type", b"application/json")


class Direct:
    """Answers plain calls."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def answer(self, scope: Scope) -> Response | None:
        """Answer a request, None if it is no plain call: nothing has been done for it then."""
        message = message_of(scope)
        if message is None or (called := _plain(message)) is None or not _has_headers(scope):
            return None
        result = await self._calls.answer(*called, scope["state"])
        body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(message["id"]), result.wire)
        return Answer(200, body, _JSON)


def _plain(message: dict[str, Any]) -> tuple[Tool, str] | None:
    """Return the tool and the wallet of a plain call."""
    if message.keys() != _MESSAGE or message["jsonrpc"] != "2.0" or message["method"] != CALL:
        return None
    number, params = message["id"], message["params"]
    if type(number) is not str and (type(number) is not int or number not in _SAFE_INTEGERS):
        return None
    if type(params) is not dict or (
        params.keys() != _PARAMS
        and (params.keys() != _PARAMS_AND_META or not _is_plain_meta(params["_meta"]))
    ):
        return None
    name, arguments = params["name"], params["arguments"]
    tool = _TOOLS.get(name) if type(name) is str else None
    if tool is None or type(arguments) is not dict or arguments.keys() != _ARGUMENTS:
        return None
    wallet = arguments["wallet"]
    return (tool, wallet) if type(wallet) is str else None


def _is_plain_meta(meta: Any) -> bool:
    """Return True for what clients say of their own; there is no progress to report."""
    return (
        type(meta) is dict
        and type(meta.get(_PROGRESS, "")) in (str, int)
        and not any(name.startswith(_RESERVED) for name in meta)
        and all(type(value) in _FLAT for value in meta.values())
    )


def _has_headers(scope: Scope) -> bool:
    """Return True if all headers that matter to the package are there, each once."""
    seen = set()
    for name, value in scope["headers"]:
        if (accepted := _REQUIRED.get(name)) is not None:
            if name in seen or value not in accepted:
                return False
            seen.add(name)
        elif name == _VERSION and value not in _VERSIONS:
            return False
    return len(seen) == len(_REQUIRED)
