"""The MCP server: the tools and resources, as the package `mcp` serves them.

A call finds in its request what the gate left there: the `Grant`, or why there is none.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Annotated, Any, Final

import orjson
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool as ServedTool
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field, create_model

from api.access.charge import Charges
from api.access.grants import Grant
from api.http.addresses import EXAMPLE_WALLET
from api.http.encoding import Encoded
from api.http.errors import INVALID_ADDRESS, NOT_IN_PLAN, STORE_UNAVAILABLE, Problem
from api.mcp.asking import ask
from api.mcp.cutting import cut
from api.mcp.tools import NULL_MEANS, TOOLS, Tool
from api.mcp.words import COVERED_URI, GLOSSARY, GLOSSARY_URI, covered
from api.services import Services
from schemas.plans import MCP_TOOLS
from schemas.solana.addresses import NoAddress, check

INSTRUCTIONS: Final = (
    "Read-only facts about Solana wallets. Every tool takes one address, `wallet`. "
    f"{NULL_MEANS[0].upper()}{NULL_MEANS[1:]}. Read {GLOSSARY_URI} for the words of the answers, "
    f"and {COVERED_URI} for what is covered."
)
RESULTS: Final = 256  # of all tools; some 100 KB each as values
_READ_ONLY: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=True
)

Wallet = Annotated[
    str, Field(description="Address of the wallet, base58", examples=[EXAMPLE_WALLET])
]
Handler = Callable[..., Awaitable[CallToolResult]]
Results = dict[tuple[str, str], tuple[Encoded, CallToolResult]]  # by tool and wallet


class Shortened(BaseModel):
    """A list that was cut."""

    list: str = Field(description="where it is in `answer`")
    shown: int = Field(description="its first entries, which are in the answer")
    of: int = Field(description="entries that it has")


def make_server(services: Services, charges: Charges) -> MCPServer[Any]:
    """Return the server of the ten tools and two resources."""
    # While the services send the same object, its result is the same.
    results: Results = {}
    server: MCPServer[Any] = MCPServer(
        "soltape",
        title="Soltape",
        version=version("soltape"),
        instructions=INSTRUCTIONS,
        tools=[_served(tool, _handler(tool, services, charges, results)) for tool in TOOLS],
        log_level="ERROR",
        subscriptions=False,
    )
    # It logs what callers send; the access log and the problems' counter are ours.
    for name in ("mcp", "sse_starlette"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

    @server.resource(GLOSSARY_URI, title="Glossary", mime_type="text/markdown")
    def glossary() -> str:
        """The words that answers use, and what null means."""
        return GLOSSARY

    @server.resource(COVERED_URI, title="What is covered", mime_type="application/json")
    def what_is_covered() -> str:
        """Tools that answer, in which plans, and the protocols and routes behind them."""
        return covered(services)

    return server


def _served(tool: Tool, handler: Handler) -> ServedTool:
    served = ServedTool.from_function(
        handler,
        name=tool.name,
        title=tool.title,
        description=tool.description,
        annotations=_READ_ONLY,
    )
    # Without a model: what the services encode is right by REST's tests, and is not read again.
    served.fn_metadata.output_schema = output_schema(tool)
    return served


def output_schema(tool: Tool) -> dict[str, Any]:
    """Return the JSON schema of what a tool answers."""
    answer: Any = tool.answer
    shape = create_model(
        f"{tool.name}_result",
        answer=(answer, Field(description=f"as GET /api/wallets/{{wallet}}/{tool.path} answers")),
        cut=(list[Shortened], Field(description="lists that were shortened; empty: nothing was")),
        rest=(str, Field(description="REST path of the whole answer; it costs one credit as well")),
    )
    schema: dict[str, Any] = _brief(shape.model_json_schema(mode="serialization"))
    return schema


def _brief(schema: Any) -> Any:
    """Return a schema without titles and examples: a third of it, and no agent needs them."""
    if isinstance(schema, list):
        return [_brief(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _brief(value)
        for name, value in schema.items()
        if not (name == "title" and isinstance(value, str))
        and not (name == "examples" and isinstance(value, list))
    }


def _handler(tool: Tool, services: Services, charges: Charges, results: Results) -> Handler:
    async def call(wallet: Wallet, ctx: Context[Any, Any]) -> CallToolResult:
        state = ctx.request_context.request.scope["state"]  # type: ignore[union-attr]
        path = f"/api/wallets/{{wallet}}/{tool.path}"
        try:
            grant = _granted(state, tool)
            path = f"/api/wallets/{_checked(wallet)}/{tool.path}"
            encoded = await ask(services, tool, wallet, grant.payer)
        except Problem as problem:
            if problem.kind.status >= 500 and (paid := state.get("grant")) is not None:
                charges.give_back_soon(paid)
            text = problem.body(state["request_id"], path).decode()
            return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
        made = results.get((tool.name, wallet))
        if made is None or made[0] is not encoded:
            if len(results) >= RESULTS:
                del results[next(iter(results))]
            made = results[tool.name, wallet] = (encoded, _result(encoded, path))
        return made[1]

    return call


def _result(encoded: Encoded, path: str) -> CallToolResult:
    answer, shortened = cut(encoded.body)
    found = {"answer": answer, "cut": shortened, "rest": f"GET {path}"}
    text = orjson.dumps(found).decode()
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=found)


def _granted(state: dict[str, Any], tool: Tool) -> Grant:
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
