"""The baseline: a tool of the package that has every answer, on the API's server.

    python -m api.mcp.bare <file>

The file has the answers, JSON of wallet -> result of the tool; address and port are those of the
settings.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import orjson
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, TextContent
from starlette.applications import Starlette

from api.server import listen, run, server_of
from infra.settings import load


def create(answers: dict[str, Any]) -> Starlette:
    """Return the application."""
    texts = {wallet: orjson.dumps(answer).decode() for wallet, answer in answers.items()}
    server: MCPServer[Any] = MCPServer("bare", log_level="ERROR", subscriptions=False)

    @server.tool(structured_output=False)
    async def get_holdings(wallet: str) -> CallToolResult:
        """Return what the file has."""
        return CallToolResult(
            content=[TextContent(type="text", text=texts[wallet])],
            structured_content=answers[wallet],
        )

    return server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )


if __name__ == "__main__":
    body = orjson.loads(Path(sys.argv[1]).read_bytes())
    settings = load()
    run(server_of(create(body), settings), listen(settings))  # type: ignore[arg-type]
