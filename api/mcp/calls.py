"""What a call of a tool answers: made once, whichever way the call came.

A call finds in the state of its request what the gate left there: the `Grant`, or why there is
none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from mcp_types import CallToolResult, TextContent

from api.access.charge import Charges
from api.access.grants import Grant
from api.http.encoding import Encoded
from api.http.errors import INVALID_ADDRESS, NOT_IN_PLAN, STORE_UNAVAILABLE, Problem
from api.http.guard import of_failure
from api.mcp.asking import ask
from api.mcp.cutting import MOST_BYTES, cut
from api.mcp.tools import Tool
from api.services import Services
from schemas.plans import MCP_TOOLS
from schemas.solana.addresses import NoAddress, check

RESULTS: Final = 256  # of all tools; some 50 KB each


class Result:
    """What a tool returns: JSON as text, and as structured content unless it is an error."""

    __slots__ = ("is_error", "json", "wire")

    def __init__(self, json: bytes, *, is_error: bool) -> None:
        self.json = json
        self.is_error = is_error
        # As the package writes it; the JSON is not read and written again for that.
        content = b'{"content":[{"text":%b,"type":"text"}],"isError":' % orjson.dumps(json.decode())
        self.wire = (
            b"%btrue}" % content
            if is_error
            else b'%bfalse,"structuredContent":%b}' % (content, json)
        )

    def for_package(self) -> CallToolResult:
        """Return it as the package takes it."""
        content = [TextContent(type="text", text=self.json.decode())]
        if self.is_error:
            return CallToolResult(content=content, is_error=True)  # type: ignore[arg-type]
        structured = orjson.loads(self.json)
        return CallToolResult(content=content, structured_content=structured)  # type: ignore[arg-type]


class Calls:
    """Answers calls of the tools."""

    def __init__(self, services: Services, charges: Charges) -> None:
        self._services = services
        self._charges = charges
        # By tool and wallet: while the services send the same object, its result is the same.
        self._results: dict[tuple[str, str], tuple[Encoded, Result]] = {}

    async def answer(self, tool: Tool, wallet: str, state: Mapping[str, Any]) -> Result:
        """Return what a tool says of a wallet, whatever goes wrong."""
        path = f"/api/wallets/{{wallet}}/{tool.path}"
        try:
            grant = _granted(state, tool)
            path = f"/api/wallets/{_checked(wallet)}/{tool.path}"
            encoded = await ask(self._services, tool, wallet, grant.payer)
        except Problem as problem:
            return self._refused(problem, path, state)
        except Exception as error:
            return self._refused(of_failure(error, path, state["request_id"]), path, state)
        key = (tool.name, wallet)
        made = self._results.get(key)
        if made is None or made[0] is not encoded:
            if len(self._results) >= RESULTS:
                del self._results[next(iter(self._results))]
            made = self._results[key] = (encoded, _result(encoded, path))
        return made[1]

    def _refused(self, problem: Problem, path: str, state: Mapping[str, Any]) -> Result:
        if problem.kind.status >= 500 and (paid := state.get("grant")) is not None:
            self._charges.give_back_soon(paid)
        return Result(problem.body(state["request_id"], path), is_error=True)


def _result(encoded: Encoded, path: str) -> Result:
    body, shortened = encoded.body, b"[]"
    if len(body) > MOST_BYTES:
        answer, lists = cut(body)
        body, shortened = orjson.dumps(answer), orjson.dumps(lists)
    rest = orjson.dumps(f"GET {path}")
    return Result(b'{"answer":%b,"cut":%b,"rest":%b}' % (body, shortened, rest), is_error=False)


def _granted(state: Mapping[str, Any], tool: Tool) -> Grant:
    """Return what lets a call in, paid; raises Problem."""
    if (refusal := state.get("refusal")) is not None:
        raise refusal
    grant: Grant | None = state.get("grant")
    if grant is None or not grant.charged:  # the gate took the request for another method
        raise Problem(STORE_UNAVAILABLE, "The call could not be charged; send it once more")
    allowed = MCP_TOOLS[grant.plan.mcp]
    if allowed is not None and tool.name not in allowed:
        raise Problem(
            NOT_IN_PLAN,
            f"The plan {grant.plan.name} has the tools {', '.join(sorted(allowed))}; "
            f"{tool.name} comes with Pro and above. Over REST every plan has it",
        )
    return grant


def _checked(wallet: str) -> str:
    try:
        check(wallet)
    except NoAddress as error:
        raise Problem(INVALID_ADDRESS, f"`wallet` {error}") from None
    return wallet
