"""What a call of a tool answers: made once, whichever way the call came.

A call finds in the state of its request what the gate left there: the `Grant`, or why there is
none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from weakref import ref

import orjson
from mcp_types import CallToolResult, TextContent

from api.access.grants import Grant
from api.http.encoding import Encoded
from api.http.errors import INVALID_ADDRESS, NOT_IN_PLAN, STORE_UNAVAILABLE, Problem
from api.http.guard import of_failure
from api.http.metrics import PROBLEMS
from api.http.problems import FAILED
from api.mcp.arguments import problem_of
from api.mcp.asking import ask
from api.mcp.cutting import MOST_BYTES, cut
from api.mcp.token_texts import clean
from api.mcp.tools import INPUT, Tool
from api.services import Services
from api.stores.caches import BoundedCache
from schemas.plans import MCP_TOOLS
from schemas.solana.addresses import NoAddress, check

RESULTS: Final = 256  # of all tools; some 80 KB each


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

    def __init__(self, services: Services) -> None:
        self._services = services
        # By tool and wallet: while the services send the same object, its result is the same. What
        # they keep is theirs to bound: an answer may have some MB, its result has not.
        self._results: BoundedCache[tuple[str, str], tuple[ref[Encoded], Result]] = BoundedCache(
            RESULTS
        )

    async def answer(self, tool: Tool, wallet: str, state: dict[str, Any]) -> Result:
        """Return what a tool says of a wallet, whatever goes wrong."""
        path = f"/api/wallets/{{wallet}}/{tool.path}"
        try:
            grant = _granted(state, tool)
            path = f"/api/wallets/{_checked(wallet)}/{tool.path}"
            encoded = await ask(self._services, tool, wallet, grant.payer)
            return self._made(tool, wallet, encoded, path)
        except Problem as problem:
            return _refused(problem, path, state)
        except Exception as error:
            return _refused(of_failure(error, path, state["request_id"]), path, state)

    async def answer_arguments(
        self, tool: Tool, arguments: Mapping[str, Any], state: dict[str, Any]
    ) -> Result:
        """As `answer`, of the arguments of a call as they were sent."""
        problem = problem_of(arguments, INPUT)
        if problem is None:
            return await self.answer(tool, arguments["wallet"], state)
        try:
            _granted(state, tool)
        except Problem as refusal:  # what is wrong first
            problem = refusal
        return _refused(problem, f"/api/wallets/{{wallet}}/{tool.path}", state)

    def _made(self, tool: Tool, wallet: str, encoded: Encoded, path: str) -> Result:
        key = (tool.name, wallet)
        made = self._results.kept.get(key)
        if made is None or made[0]() is not encoded:
            made = ref(encoded), _result(encoded, path)
            self._results.put(key, made)
        return made[1]


def _refused(problem: Problem, path: str, state: dict[str, Any]) -> Result:
    if problem.kind.status >= 500:
        state[FAILED] = True  # the credit is given back, and availability counts it
    PROBLEMS.labels(problem.kind.code).inc()
    return Result(problem.body(state["request_id"], path), is_error=True)


def _result(encoded: Encoded, path: str) -> Result:
    body, shortened = clean(encoded.body), b"[]"
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
