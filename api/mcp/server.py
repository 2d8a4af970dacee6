"""The MCP server: the tools and resources, as the package `mcp` serves them."""

from __future__ import annotations

import logging
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool as ServedTool
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import BaseModel, Field, create_model

from api.mcp.calls import Calls
from api.mcp.tools import INPUT, NULL_MEANS, TEXTS_ARE, TOOLS, Tool
from api.mcp.words import COVERED_URI, GLOSSARY, GLOSSARY_URI, covered
from api.services import Services

INSTRUCTIONS: Final = (
    "Read-only facts about Solana wallets. Every tool takes one address, `wallet`. "
    f"{NULL_MEANS[0].upper()}{NULL_MEANS[1:]}. {TEXTS_ARE}. "
    f"Read {GLOSSARY_URI} for the words of the answers, and {COVERED_URI} for what is covered."
)
_READ_ONLY: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=True
)


class Shortened(BaseModel):
    """A list that was cut."""

    list: str = Field(description="where it is in `answer`; 0 is the first entry of a list")
    shown: int = Field(description="its first entries, which are in the answer")
    of: int = Field(description="entries that it has")


def make_server(services: Services, calls: Calls) -> MCPServer[Any]:
    """Return the server of the ten tools and two resources."""
    server: MCPServer[Any] = MCPServer(
        "soltape",
        title="Soltape",
        version=version("soltape"),
        instructions=INSTRUCTIONS,
        tools=[_served(tool, calls) for tool in TOOLS],
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


class _Served(ServedTool):
    """A tool that is given the arguments as they were sent."""

    async def run(
        self, arguments: dict[str, Any], context: Any, convert_result: bool = False
    ) -> CallToolResult:
        """Return what the tool answers, also to wrong arguments."""
        result: CallToolResult = await self.fn(arguments, context)
        return result


def _served(tool: Tool, calls: Calls) -> ServedTool:
    async def call(arguments: dict[str, Any], ctx: Context[Any, Any]) -> CallToolResult:
        state = ctx.request_context.request.scope["state"]  # type: ignore[union-attr]
        return (await calls.answer_arguments(tool, arguments, state)).for_package()

    served = _Served.from_function(
        call,
        name=tool.name,
        title=tool.title,
        description=tool.description,
        annotations=_READ_ONLY,
    )
    served.parameters = INPUT
    # Without a model: what the services encode is right by REST's tests, and is not read again.
    served.fn_metadata.output_schema = output_schema(tool)
    return served


@cache  # tools are the same for every application of a process
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
