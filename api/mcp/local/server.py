"""The local tools: tokens, positions, what there is, and how it all works."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from secrets import token_hex
from typing import Annotated, Any, Final

import orjson
from mcp.server import MCPServer
from mcp.server.mcpserver.tools import Tool as ServedTool
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from api.app import create_app
from api.http.addresses import EXAMPLE_MINT, EXAMPLE_WALLET
from api.http.encoding import Encoded
from api.http.errors import INVALID_ADDRESS, STORE_UNAVAILABLE, Problem
from api.http.guard import of_failure
from api.mcp.arguments import problem_of
from api.mcp.cutting import cut
from api.mcp.local.knowledge import Knowledge, passages
from api.mcp.token_texts import clean
from api.mcp.tools import NULL_MEANS, TEXTS_ARE
from api.mcp.words import covered
from api.services import Services
from infra.redis import partitions
from infra.redis.partitions import PartitionsWrong
from infra.settings import Settings
from schemas.solana.addresses import NoAddress, check

HOLDER: Final = ""  # no key: what is asked for counts for the process alone
LOOK_S: Final = 2.0
_PATH: Final = "/mcp/local"  # what the log calls these tools
_READ_ONLY: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_FRESH: Final = f"Confirmed blocks, about two seconds behind the chain's tip. Free. {NULL_MEANS}."

Wallet = Annotated[str, Field(description="Address of a wallet", examples=[EXAMPLE_WALLET])]
Handler = Callable[..., Awaitable[CallToolResult]]
Mint = Annotated[str, Field(description="Address of a token's mint", examples=[EXAMPLE_MINT])]


def make_server(settings: Settings, services: Services) -> MCPServer[Any]:
    """Return the server of the six local tools."""
    tools: list[ServedTool] = []

    def tool(description: str) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            served = _Checked.from_function(
                handler, description=description, annotations=_READ_ONLY, structured_output=False
            )
            served.parameters["additionalProperties"] = False
            tools.append(served)
            return handler

        return add

    @cache
    def knowledge() -> Knowledge:
        document = create_app(Settings(_env_file=None)).openapi()  # type: ignore[call-arg]
        return Knowledge(passages(document))

    @tool(f"A token: price, market, supply, last 24 hours. {_FRESH}")
    async def get_token_info(mint: Mint) -> CallToolResult:
        return await _answered(services, services.tokens.token(mint, HOLDER), mint)

    @tool(f"Wallets that realized most with a token, by FIFO. {_FRESH}")
    async def get_token_leaderboard(
        mint: Mint, limit: Annotated[int, Field(ge=1, le=100)] = 10
    ) -> CallToolResult:
        return await _answered(services, services.tokens.leaderboard(mint, limit), mint)

    @tool(f"A wallet's positions by token, newest trade first, with FIFO gains. {_FRESH}")
    async def get_wallet_positions(
        wallet: Wallet, limit: Annotated[int, Field(ge=1, le=500)] = 50
    ) -> CallToolResult:
        return await _answered(services, services.wallets.positions(wallet, limit), wallet)

    @tool(f"A wallet's position in one token. {_FRESH}")
    async def get_wallet_token_position(wallet: Wallet, mint: Mint) -> CallToolResult:
        return await _answered(services, services.wallets.position(wallet, mint), wallet, mint)

    @tool(
        "What this server can answer now: which stores and services are reachable, "
        "what is missing without them, and which protocols are covered. Free."
    )
    async def get_capabilities() -> CallToolResult:
        found = {
            "version": version("soltape"),
            "tools": [each.name for each in tools],
            "stores": await _stores(settings, services),
            "hosted": orjson.loads(covered(services)),
        }
        return _result(found)

    @tool(
        "Full-text search over Soltape's own documents: REST paths, fields of answers, "
        "WebSocket channels, Kafka topics, protocols, rules of FIFO. Needs no store. Free."
    )
    async def search_knowledge(
        query: Annotated[str, Field(max_length=400, description="a few words")],
        limit: Annotated[int, Field(ge=1, le=30)] = 8,
    ) -> CallToolResult:
        found = await asyncio.to_thread(lambda: knowledge().search(query, limit))
        return _result({"passages": [asdict(each) for each in found]})

    return MCPServer(
        "soltape-local",
        version=version("soltape"),
        instructions="Solana tokens and wallets from this machine's Redis. "
        f"{NULL_MEANS}. {TEXTS_ARE}.",
        tools=tools,
        log_level="ERROR",
        subscriptions=False,
    )


class _Checked(ServedTool):
    """A tool that says in words what is wrong with its arguments."""

    async def run(
        self, arguments: dict[str, Any], context: Any, convert_result: bool = False
    ) -> Any:
        """Return what the tool answers, also to wrong arguments."""
        if (problem := problem_of(arguments, self.parameters)) is not None:
            return _error(f"{problem.kind.code}: {problem.detail}")
        return await super().run(arguments, context, convert_result)


async def _answered(
    services: Services, asked: Coroutine[Any, Any, Encoded], *addresses: str
) -> CallToolResult:
    """Return an answer of the services, cut; or what is wrong, as an error of the tool."""
    try:
        for address in addresses:
            try:
                check(address)
            except NoAddress as error:
                raise Problem(INVALID_ADDRESS, f"{address[:50]!r} {error}") from None
        # Started in any folder, it may lack a setting of the roles: it would find nothing at all.
        await partitions.require(services.stores.ask)
        encoded = await asked
    except Problem as problem:
        return _refused(problem)
    except PartitionsWrong as error:
        return _error(f"wrong_partitions: {error}")
    except Exception as error:
        return _refused(of_failure(error, _PATH, token_hex(4)))
    finally:
        asked.close()  # where it was not awaited
    answer, shortened = cut(clean(encoded.body))
    return _result({"answer": answer, "cut": shortened})


def _refused(problem: Problem) -> CallToolResult:
    detail = problem.detail
    if problem.kind is STORE_UNAVAILABLE:
        detail += "; get_capabilities says what is missing and which setting leads to it"
    return _error(f"{problem.kind.code}: {detail}")


def _error(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _result(found: dict[str, Any]) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=orjson.dumps(found).decode())],
        structured_content=found,
    )


async def _stores(settings: Settings, services: Services) -> list[dict[str, Any]]:
    """Return which parts are reachable, and what each is for."""
    stores = services.stores

    async def look(
        name: str, setting: str, needed_for: str, asked: Awaitable[Any]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {"name": name, "setting": setting, "is_reachable": True}
        try:
            async with asyncio.timeout(LOOK_S):
                await asked
        except (Problem, OSError, TimeoutError):
            return {**found, "is_reachable": False, "missing": needed_for}
        except PartitionsWrong as error:
            return {**found, "missing": f"{needed_for}; {error}"}
        return found

    async def books() -> None:
        await stores.infos()
        await partitions.require(stores.ask)

    async def api() -> None:
        _, writer = await asyncio.open_connection(settings.api_host, settings.api_port)
        writer.close()

    return list(
        await asyncio.gather(
            look(
                "redis",
                "REDIS_URL",
                "every figure: only search_knowledge works",
                books(),
            ),
            look(
                "clickhouse",
                "CLICKHOUSE_URL",
                "wallets and tokens that were idle for long, and their history",
                stores.query("SELECT 1", {}),
            ),
            look("api", "API_HOST, API_PORT", "REST, and the hosted tools at /mcp", api()),
        )
    )
