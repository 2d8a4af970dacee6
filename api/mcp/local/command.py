"""`soltape mcp`: the local server over standard input and output, and how clients start it."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from shlex import join, quote
from typing import Any, Final

import click

from api.mcp.local.server import make_server
from api.services import Services
from infra.settings import Settings, load
from infra.telemetry import configure_logging
from schemas.topics import FEWEST_SETTLED

HOSTED: Final = "http://127.0.0.1:8000"
_ADD: Final = "claude mcp add"
# A client starts the server in its own project folder: -P leaves that out of the import path.
_ARGUMENTS: Final = ("-P", "-m", "infra.cli", "mcp")


@click.group(invoke_without_command=True)
@click.pass_context
def mcp(ctx: click.Context) -> None:
    """Serve tools to an AI agent on this machine, over standard input and output.

    An agent's client starts this command itself: `soltape mcp config` prints what to paste into
    it. It reads REDIS_URL, and SETTLED_PARTITIONS where the roles have that, and needs nothing else
    that runs; without ClickHouse or the API it says what is missing. Calls cost nothing. Ten more
    tools are hosted by the API, at /mcp and /mcp/sse. It ends when its standard input does, or by
    Ctrl-C.

    \b
    Tools:
      get_token_info             price, market and last 24 hours of a token
      get_token_leaderboard      who realized most with it
      get_wallet_positions       what a wallet traded, with FIFO gains
      get_wallet_token_position  the same of one token
      get_capabilities           what can be answered now, and what is missing
      search_knowledge           search paths, fields, channels, topics, protocols, rules of FIFO

    \b
    Examples:
      soltape mcp config
      REDIS_URL=redis://127.0.0.1:6379/0 soltape mcp
    """
    if ctx.invoked_subcommand is not None:
        return
    settings = load()
    configure_logging(settings, "mcp")
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    # At once, as by SIGTERM: an orderly end would wait for the thread that reads stdin.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    services = Services(settings.model_copy(update={"metadata_fetch": False}))
    try:
        await make_server(settings, services).run_stdio_async()
    finally:
        await services.close()


@mcp.command()
@click.option("--url", default=HOSTED, show_default=True, help="Address of the API.")
def config(url: str) -> None:
    """Print what to paste into the common clients, for the local and the hosted server.

    \b
    Examples:
      soltape mcp config
      soltape mcp config --url https://api.example.com
    """
    url = url.rstrip("/")
    settings = load()
    env = {"REDIS_URL": str(settings.redis_url)}
    if settings.settled_partitions != FEWEST_SETTLED:
        env["SETTLED_PARTITIONS"] = str(settings.settled_partitions)
    local = {"command": sys.executable, "args": [*_ARGUMENTS], "env": env}
    headers = {"x-api-key": "YOUR_KEY"}
    hosted = {"type": "http", "url": f"{url}/mcp", "headers": headers}
    servers = {"soltape-local": local, "soltape": hosted}
    click.echo("Claude Desktop (claude_desktop_config.json), Cursor (.cursor/mcp.json):")
    click.echo(_shown({"mcpServers": servers}))
    click.echo("\nVS Code (.vscode/mcp.json):")
    click.echo(_shown({"servers": {**servers, "soltape-local": {"type": "stdio", **local}}}))
    click.echo("\nClaude Code:")
    click.echo(f"{_ADD} --transport http soltape {quote(url)}/mcp --header 'x-api-key: YOUR_KEY'")
    given = " ".join(f"--env {name}={quote(value)}" for name, value in env.items())
    click.echo(f"{_ADD} soltape-local {given} -- {join([sys.executable, *_ARGUMENTS])}")
    click.echo(f"\nClients that know SSE alone: {url}/mcp/sse, with the same header.")


def _shown(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2)
