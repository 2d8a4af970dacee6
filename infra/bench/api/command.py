"""`soltape bench api`: how fast the API answers, beside a bare route that does nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click

from infra.bench import median, progress, report
from infra.bench.api import load, measures
from infra.bench.api.data import Stores, stores
from infra.bench.api.endpoints import Pairs, read_pairs
from infra.bench.api.measures import Effort
from infra.bench.api.positions.bars import broken
from infra.bench.api.positions.chain import moving
from infra.bench.api.positions.data import wallets
from infra.bench.api.positions.measure import positions
from infra.bench.api.serving import Served, serve_api
from infra.bench.api.world import World
from infra.bench.roles import BenchFailed
from infra.clickhouse import client as clickhouse_client

_SWAPS: Final = 1_000_000
_QUICK_SWAPS: Final = 20_000
_SCALE: Final = 10
_PARTS: Final = ("hot", "clickhouse", "batch", "positions", "growth")


@click.command()
@click.option(
    "--quick", is_flag=True, help="20,000 swaps, one short run of each: rough, and no bars."
)
@click.option("--swaps", type=click.IntRange(10_000), help="How many.  [default: 1000000]")
@click.option(
    "--scale",
    type=click.IntRange(1),
    default=_SCALE,
    show_default=True,
    help="How many times as much the larger data set has; 1: no larger one.",
)
@click.option(
    "--only",
    "parts",
    type=click.Choice(_PARTS),
    multiple=True,
    help="Measure this part alone; several may be named.  [default: all]",
)
def api(quick: bool, swaps: int | None, scale: int, parts: tuple[str, ...]) -> None:
    """Measure the API: rate and latency of every kind of answer.

    A data set made from a seed (for each million swaps 100,000 wallets and 10,000 tokens over two
    weeks) is written to an embedded Valkey and ClickHouse. `soltape api` serves it as always; the
    baseline is one FastAPI route with nothing around it, on the same server, that returns the same
    bytes. The load is wrk's, which must be installed. All of it shares the cores of this machine:
    `cpu_us` is what a request costs the server's process.

    \b
    hot         answers from Redis: rate at full speed, ratio to the bare route, latency at half;
                of 400 wallets and tokens over and over, and an answer about one is kept for up
                to a second: most answers are had without Redis
    clickhouse  answers from ClickHouse: latency at ten requests a second
    batch       a whole batch against a batch of one, asked one at a time
    positions   latency at 200 requests a second, every answer computed, while slots go on: wallets
                with 20 positions in a protocol, and aggregates of wallets with 20 in each of two;
                at 50 a second analyses of wallets with 60 positions in 12 protocols
    growth      p50 over the larger data set against that over the smaller, both at a modest rate

    It fails where positions take longer than they may: p99 above 15 ms of a protocol, 40 ms of an
    aggregate, 60 ms of an analysis, or more than 10 ms of CPU for an analysis.

    The line's value is the rate of `hot`; where that is not measured, the longest latency: p99, or
    p50 of `batch` and `growth`.
    """
    asked = parts or _PARTS
    if "growth" in parts and scale == 1:
        raise click.UsageError("--only growth measures a larger data set: --scale must be above 1")
    load.require()
    effort = Effort(1, 1) if quick else Effort(3, 3)
    world = World(swaps or (_QUICK_SWAPS if quick else _SWAPS))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soltape-bench-")))
        figures: dict[str, Any] = {}
        small: tuple[Served, Pairs] | None = None
        if {*asked} - {"positions"}:  # which has a data set of its own
            small, figures["data"] = _serve(stack, folder / "small", world)
            for part, measured in (
                ("hot", measures.hot),
                ("clickhouse", measures.clickhouse),
                ("batch", measures.batches),
            ):
                if part in asked:
                    figures[part] = measured(*small, folder, effort)
        if "positions" in asked:
            figures["positions"] = _positions(folder / "positions", effort)
        if small is not None and "growth" in asked and scale > 1:
            larger = World(world.swaps * scale)
            large, figures["data_grown"] = _serve(stack, folder / "large", larger)
            figures["growth"] = measures.growth(small, large, folder, effort)
    value, unit, others = headline(figures)
    report("api", value, unit, **others, **figures, runs=effort.runs)
    if not quick and (bars := broken(figures.get("positions", {}))):
        raise BenchFailed("; ".join(bars))


def headline(figures: Mapping[str, Any]) -> tuple[float, str, dict[str, float]]:
    """Return value and unit of the line, and the figures beside it, from the parts measured."""
    if "hot" in figures:
        hot = figures["hot"].values()
        return (
            round(median([each["rate"] for each in hot])),
            "requests/s",
            {
                "baseline": round(median([each["bare_rate"] for each in hot])),
                "ratio": min(each["ratio"] for each in hot),
                "p99_ms": max(each["at_half"]["p99_ms"] for each in hot),
            },
        )
    measured = [each for part in _PARTS for each in figures.get(part, {}).values()]
    if p99_ms := [each["p99_ms"] for each in measured if "p99_ms" in each]:
        others = {"p99_ms": max(p99_ms)}
        if ratios := [each["p99_ratio"] for each in measured if "p99_ratio" in each]:
            others["ratio"] = max(ratios)
        return max(p99_ms), "ms", others
    p50_ms = max(each.get("p50_ms_grown", each["p50_ms"]) for each in measured)
    return p50_ms, "ms", {"ratio": max(each["ratio"] for each in measured)}


def _serve(
    stack: ExitStack, folder: Path, world: World
) -> tuple[tuple[Served, Pairs], dict[str, Any]]:
    folder.mkdir()
    progress(f"{world.swaps:,} swaps of {world.wallets:,} wallets with {world.mints:,} tokens")
    filled: Stores = stack.enter_context(stores(folder))
    counts = filled.fill(world)
    progress(f"{counts}")
    with clickhouse_client.connect(filled.settings) as clickhouse:
        pairs = read_pairs(clickhouse, world.swaps)
    return (stack.enter_context(serve_api(filled, folder)), pairs), counts


def _positions(folder: Path, effort: Effort) -> dict[str, Any]:
    """Return the figures of positions, over stores of their own: the lane of accounts is there."""
    folder.mkdir()
    world = World(_QUICK_SWAPS)
    with ExitStack() as own:
        filled: Stores = own.enter_context(stores(folder))
        filled.fill(world, with_positions=True)
        served = own.enter_context(serve_api(filled, folder))
        own.enter_context(moving(filled.settings, world))
        return positions(served, wallets(world), folder, effort)
