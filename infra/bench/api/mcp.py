"""`soltape bench mcp`: how fast tools answer, beside a tool of the same package that does nothing.

Both are asked over streamable HTTP, by the same load, in turn.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import aiohttp
import click
import orjson

from infra.bench import median, progress, report
from infra.bench.api import load
from infra.bench.api.data import stores
from infra.bench.api.endpoints import read_pairs
from infra.bench.api.load import Request
from infra.bench.api.serving import Served, serve_api, serve_bare
from infra.bench.api.world import World
from infra.clickhouse import client as clickhouse_client

WALLETS: Final = 200
SWAPS: Final = 20_000
CONNECTIONS: Final = 16
TOOL: Final = "get_holdings"


@click.command()
@click.option("--quick", is_flag=True, help="One short run of each: rough.")
def mcp(quick: bool) -> None:
    """Measure MCP: calls of get_holdings a second, and their latency at half of that.

    `soltape api` serves wallets of a data set made from a seed. The baseline is a tool of the same
    package, on the same server, that returns the same bytes and does nothing else: no key, no
    credit, no service, no cut. It passes the package's transport, which the calls to `soltape api`
    do not: they are plain (`api.mcp.direct`). Wallets are asked for over and over, so most answers
    are had without Redis; each call is charged there. The load is wrk's, which must be installed.
    """
    load.require()
    runs, seconds = (1, 2.0) if quick else (5, 5.0)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soltape-bench-")))
        filled = stack.enter_context(stores(folder))
        progress(f"{filled.fill(World(SWAPS))}")
        with clickhouse_client.connect(filled.settings) as clickhouse:
            pairs = read_pairs(clickhouse, SWAPS)
        wallets = [*dict.fromkeys(wallet for wallet, _ in pairs)][:WALLETS]
        calls = [Request("/mcp", "POST", _call(wallet)) for wallet in wallets]
        served = stack.enter_context(serve_api(filled, folder))
        answers = _answers(served, wallets)
        bare = stack.enter_context(serve_bare(answers, folder, "api.mcp.bare"))
        rates: list[float] = []
        bare_rates: list[float] = []
        p99s: list[float] = []
        p50s: list[float] = []
        for number in range(runs):
            for url, found in ((bare.url, bare_rates), (served.url, rates)):
                outcome = load.run(
                    url, calls, served.key, folder, seconds=seconds, connections=CONNECTIONS
                )
                found.append(outcome.rate)
            half = load.run(
                served.url,
                calls,
                served.key,
                folder,
                seconds=seconds,
                rate=rates[-1] / 2,
                connections=CONNECTIONS,
            )
            p50s.append(half.p50_ms)
            p99s.append(half.p99_ms)
            progress(f"run {number + 1}: {rates[-1]:.0f}/s, bare {bare_rates[-1]:.0f}/s")
    report(
        "mcp",
        round(median(rates)),
        "calls/s",
        baseline=round(median(bare_rates)),
        ratio=round(
            median([ours / theirs for ours, theirs in zip(rates, bare_rates, strict=True)]), 3
        ),
        at_half={"p50_ms": round(median(p50s), 2), "p99_ms": round(median(p99s), 2)},
        p99_ms=round(median(p99s), 2),
        wallets=len(wallets),
        runs=runs,
    )


def _call(wallet: str) -> str:
    params = {"name": TOOL, "arguments": {"wallet": wallet}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return orjson.dumps(call).decode()


def _answers(served: Served, wallets: list[str]) -> dict[str, Any]:
    """Return the tool's results by wallet; raises LoadFailed where one is an error."""
    return asyncio.run(_fetch(served, wallets))


async def _fetch(served: Served, wallets: list[str]) -> dict[str, Any]:
    answers = {}
    async with aiohttp.ClientSession(headers=_headers(served.key)) as session:
        for wallet in wallets:
            async with session.post(f"{served.url}/mcp", data=_call(wallet)) as response:
                answer = await response.json()
            result = answer.get("result", {})
            if "structuredContent" not in result:
                raise load.LoadFailed(f"{wallet} is answered {answer}")
            answers[wallet] = result["structuredContent"]
    return answers


def _headers(key: str) -> dict[str, str]:
    return {
        "x-api-key": key,
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
