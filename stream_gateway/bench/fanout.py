"""`soltape bench fanout`: a thousand clients with mixed filters, beside Starlette on Uvicorn."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import click

from infra.bench import median, progress, report
from stream_gateway.bench import bare, growth, serving, slow
from stream_gateway.bench.load import CLIENTS, Outcome, deliver, prepare
from stream_gateway.bench.market import FLUSH_MS
from stream_gateway.bench.mix import SHARES

# Queues fill and those who do not read are closed within it; not in the quick one.
_SLOW_S: Final = 30.0
_SLOW_QUICK_S: Final = 8.0


@click.command("fanout")
@click.option("--quick", is_flag=True, help="One run of 4 s: rough, within a minute.")
@click.option(
    "--rate", type=click.FloatRange(10), default=500.0, show_default=True, help="Swaps a second."
)
@click.option("--seconds", type=click.FloatRange(1), help="Of each run.  [default: 12]")
@click.option("--slow/--no-slow", "with_slow", default=True, help="Whether some stop reading.")
def fanout(quick: bool, rate: float, seconds: float | None, with_slow: bool) -> None:
    """Measure the gateway's fan-out to 1,000 clients with mixed filters.

    Events of a simulated market are replayed from memory, at a steady rate, into the live streams
    of an embedded Valkey, in entries of 20 ms as the agent `live` writes them. `soltape gateway`
    delivers them to real WebSocket clients, a process of their own that counts and takes the time
    from an event's entry to its receipt. The baseline is the same index on Starlette and Uvicorn,
    in the same run. What each client gets is compared with what `Filter.matches` says it must.

    \b
    growth  what finding the receivers costs, with 1,000 and 10,000 more who match nothing
    slow    a hundred clients stop reading: what the others notice, and the gateway's memory
    """
    serving.require(CLIENTS)
    runs = 1 if quick else 3
    length = seconds or (4.0 if quick else 12.0)
    progress(f"{length:.0f} s of {rate:.0f} swaps/s for {CLIENTS:,} clients")
    load = prepare(length, rate)
    ours: list[Outcome] = []
    theirs: list[Outcome] = []
    for number in range(runs):
        with (
            tempfile.TemporaryDirectory(prefix="soltape-bench-") as folder,
            serving.store(Path(folder)) as store,
        ):
            with serving.gateway(store, CLIENTS + 100) as served:
                ours.append(deliver(served, store, load))
            _show(f"run {number + 1}, gateway", ours[-1])
            with serving.bare(store) as served:
                theirs.append(deliver(served, store, load))
            _show(f"run {number + 1}, baseline", theirs[-1])
    figures: dict[str, Any] = {
        "growth": growth.measure(
            load.market, load.connections, load.flushes, rounds=2 if quick else 5
        )
    }
    if with_slow:
        figures["slow"] = slow.measure(
            load, prepare(_SLOW_QUICK_S if quick else _SLOW_S, rate), runs
        )
    value = round(median([each.per_cpu_second for each in ours]))
    baseline = round(median([each.per_cpu_second for each in theirs]))
    report(
        "fanout",
        value,
        "deliveries per CPU-second",
        baseline=baseline,
        ratio=round(value / baseline, 2),
        p50_ms=median([each.latency.p50_ms for each in ours]),
        p99_ms=median([each.latency.p99_ms for each in ours]),
        max_ms=median([each.latency.max_ms for each in ours]),
        latency_at=f"{rate:.0f} swaps/s, {load.deliveries() / length:,.0f} deliveries/s",
        counts={"deliveries": load.deliveries(), "wrong": 0},
        mix=SHARES,
        flush_ms=FLUSH_MS,
        seconds=length,
        gateway=[_figures(each) for each in ours],
        baseline_is=f"Starlette, Uvicorn with {bare.PROTOCOL}, uvloop",
        baselines=[_figures(each) for each in theirs],
        **figures,
        runs=runs,
    )


def _show(name: str, outcome: Outcome) -> None:
    progress(
        f"{name}: {outcome.per_cpu_second:,.0f} deliveries per CPU-second, "
        f"p99 {outcome.latency.p99_ms:.0f} ms, {outcome.cpu_seconds:.1f} CPU s "
        f"of {outcome.seconds:.1f} s"
    )


def _figures(outcome: Outcome) -> dict[str, Any]:
    return {
        "per_cpu_second": round(outcome.per_cpu_second),
        "cpu_seconds": round(outcome.cpu_seconds, 2),
        "seconds": round(outcome.seconds, 1),
        "p50_ms": outcome.latency.p50_ms,
        "p99_ms": outcome.latency.p99_ms,
        "max_ms": outcome.latency.max_ms,
        "fed_late_ms": round(outcome.fed_late_ms, 1),
    }
