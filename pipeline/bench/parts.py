"""`soltape bench parts`: whether ClickHouse keeps up with merging what several processes insert.

Several processes of `books` share the partitions. Each insert makes a part, which the server merges
with others; where it does not keep up, parts pile up until it refuses inserts. Beside the parts the
bench counts what the stores and the broker hold for each swap.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression, mean
from typing import Any, Final

import click
import redis
from clickhouse_connect.driver.client import Client

from infra.bench import progress, report
from infra.bench.roles import BenchFailed, Role, role, scrape, value, wait_until
from infra.clickhouse.client import connect
from infra.clickhouse.migrations import migrate
from infra.kafka.log_dirs import broker_disk
from infra.local.process import free_port
from infra.redis.families import survey
from pipeline.bench.pipeline import SWAPS_PER_TRANSACTION, lag_slots, quantile
from pipeline.bench.pnl import HOST, Stores
from schemas.rows import TABLES

READY_S: Final = 600.0  # for all processes to have partitions and to have caught up
LOOK_EVERY_S: Final = 1.0
SAY_EVERY_S: Final = 60.0
ROOM: Final = 1.5  # the last third may have so many times the parts of the one before,
ROOM_PARTS: Final = 10  # and so many more: what is under way at a moment varies
_GROUPS: Final = ("pnl", "market", "store")
_INSERTS: Final = "soltape_sink_clickhouse_inserts_total"

_PARTS: Final = (
    "SELECT table, count() FROM system.parts "
    "WHERE database = currentDatabase() AND active GROUP BY table"
)
_TABLES: Final = (
    "SELECT table, sum(rows), sum(bytes_on_disk) FROM system.parts "
    "WHERE database = currentDatabase() AND active GROUP BY table ORDER BY 3 DESC"
)


@dataclass(slots=True)
class Watched:
    """What was seen while the processes ran."""

    seconds: list[float] = field(default_factory=list)  # of each look
    parts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # by table
    lags_slots: list[int] = field(default_factory=list)

    def busiest(self) -> str:
        """Return the table that had the most parts at once."""
        return max(self.parts, key=lambda table: max(self.parts[table]))


def growing(parts: Sequence[int]) -> bool:
    """Return True where the last third of a series has clearly more than the one before."""
    third = len(parts) // 3
    if not third:
        return False
    before, last = mean(parts[-2 * third : -third]), mean(parts[-third:])
    return last > ROOM * before + ROOM_PARTS


def slope_per_minute(seconds: Sequence[float], parts: Sequence[int]) -> float:
    """Return the least-squares slope of the later half of a series."""
    half = len(parts) // 2
    if len(parts) - half < 2:
        return 0.0
    return linear_regression(seconds[half:], parts[half:]).slope * 60


def _watch(
    roles: Sequence[Role], client: Client, store: redis.Redis, ingest: str, seconds: float
) -> Watched:
    seen = Watched()
    began = said = time.monotonic()
    while (now := time.monotonic()) - began < seconds or len(seen.seconds) < 3:
        for each in roles:
            each.check()
        seen.seconds.append(now - began)
        found = {str(table): int(count) for table, count in client.query(_PARTS).result_rows}
        for table in TABLES:
            seen.parts[table].append(found.get(table, 0))
        lag, _ = lag_slots(store, ingest) or (10**6, "Redis")
        seen.lags_slots.append(lag)
        if now - said >= SAY_EVERY_S:
            said = now
            table = seen.busiest()
            progress(
                f"{now - began:.0f} of {seconds:.0f} s: {table} has {seen.parts[table][-1]} parts, "
                f"{max(seen.parts[table])} at most; lag {lag} slots"
            )
        time.sleep(LOOK_EVERY_S)
    return seen


def _inserts(metrics: Sequence[str]) -> dict[str, float]:
    """Return how many inserts all workers have made, by table."""
    scraped = [scrape(url) for url in metrics]
    return {table: sum(value(each, _INSERTS, table=table) for each in scraped) for table in TABLES}


def _tables(client: Client, swaps: float) -> dict[str, dict[str, float]]:
    """Merge all parts; return rows, bytes and bytes a swap of each table."""
    for table in TABLES:
        client.command(f"OPTIMIZE TABLE {table} FINAL")
    return {
        table: {
            "rows": rows,
            "bytes": size,
            "bytes_per_row": round(size / rows, 1),
            "bytes_per_swap": round(size / swaps, 1),
        }
        for table, rows, size in client.query(_TABLES).result_rows
    }


def measure(workers: int, seconds: float, swaps_per_s: float) -> dict[str, Any]:
    """Run the pipeline from the chain to the stores with that many processes of `books`."""
    rate = str(swaps_per_s / SWAPS_PER_TRANSACTION)
    with tempfile.TemporaryDirectory(prefix="soltape-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        stores = Stores(folder, stack)
        migrate(stores.settings)
        ports = {name: free_port() for name in ("geyser", "rpc", "chain", "ingest")}
        env = stores.env | {
            "GEYSER_ENDPOINT": f"http://{HOST}:{ports['geyser']}",
            "RPC_ENDPOINT": f"http://{HOST}:{ports['rpc']}",
            "METRICS_PORT_CHAIN": str(ports["chain"]),
            "METRICS_PORT_INGEST": str(ports["ingest"]),
        }
        books = []
        metrics = []
        for number in range(1, workers + 1):
            port = str(free_port())
            metrics.append(f"http://{HOST}:{port}/metrics")
            started = role(
                f"books-{number}",
                folder,
                ["agents", *_GROUPS],
                **env | {"METRICS_PORT_BOOKS": port},
            )
            books.append(stack.enter_context(started))
        market = ["chain", "simulated", "--seed", "1", "--rate", rate]
        chain = stack.enter_context(role("chain", folder, market, **env))
        ingesting = stack.enter_context(role("ingest", folder, ["ingest"], **env))
        live_env = env | {"METRICS_PORT_AGENTS": str(free_port())}
        live = stack.enter_context(role("live", folder, ["agents", "live"], **live_env))
        roles = (*stores.roles, chain, ingesting, live, *books)
        ingest = f"http://{HOST}:{ports['ingest']}/metrics"

        def share() -> bool:
            # All have partitions of each group, and what they have is in the stores.
            have = [scrape(url) for url in metrics]
            return lag_slots(stores.redis, ingest) is not None and all(
                value(each, "soltape_agents_caught_up", group=group) > 0
                for each in have
                for group in _GROUPS
            )

        wait_until(share, roles, READY_S)
        client = stack.enter_context(connect(stores.settings))
        progress(f"{workers} processes of books share the partitions")
        inserts, began = _inserts(metrics), time.monotonic()
        seen = _watch(roles, client, stores.redis, ingest, seconds)
        took = time.monotonic() - began
        per_s = {
            table: round((after - inserts[table]) / took, 2)
            for table, after in _inserts(metrics).items()
            if after > inserts[table]
        }
        swaps = value(scrape(ingest), "soltape_ingest_events_total", kind="swap")
        logs = asyncio.run(broker_disk(stores.settings)).topic_bytes
        table = seen.busiest()
        return {
            "workers": workers,
            "seconds": round(took),
            "swaps": round(swaps),
            "most_parts": max(seen.parts[table]),
            "of_table": table,
            "parts": {
                name: {
                    "mean": round(mean(counts), 1),
                    "most": max(counts),
                    "per_minute": round(slope_per_minute(seen.seconds, counts), 2),
                    "inserts_per_s": per_s.get(name, 0.0),
                }
                for name, counts in seen.parts.items()
                if max(counts)
            },
            "growing": sorted(name for name, counts in seen.parts.items() if growing(counts)),
            "inserts_per_s": round(sum(per_s.values()), 1),
            "lag_slots_p50": quantile(seen.lags_slots, 0.5),
            "lag_slots_p99": quantile(seen.lags_slots, 0.99),
            "tables": _tables(client, swaps),
            "topics": {
                topic: {"bytes": size, "bytes_per_swap": round(size / swaps, 1)}
                for topic, size in sorted(logs.items(), key=lambda item: -item[1])
                if size
            },
            "redis": {
                pattern: {
                    "keys": family.keys,
                    "entries": family.entries,
                    "bytes": family.bytes,
                    "bytes_per_key": round(family.bytes / family.keys),
                }
                for pattern, family in sorted(
                    survey(stores.redis).items(), key=lambda item: -item[1].bytes
                )
            },
            "redis_bytes": stores.used_memory(),
        }


@click.command("parts")
@click.option("--quick", is_flag=True, help="20 seconds: rougher figures within a minute.")
@click.option("--workers", type=click.IntRange(1, 8), default=4, show_default=True)
@click.option("--minutes", type=click.FloatRange(0.1), default=60.0, show_default=True)
@click.option("--rate", type=float, default=100.0, show_default=True, help="Swaps a second.")
def parts(*, quick: bool, workers: int, minutes: float, rate: float) -> None:
    """Measure the parts of ClickHouse's tables while several processes of `books` insert.

    A simulated chain, ingest, `agents live` and that many processes run into embedded systems. The
    bench looks at the active parts once a second, and fails where those of a table keep growing.
    `tables` has what the tables hold, merged: bytes a row, and bytes for each swap; `topics` has
    the broker's bytes, `redis` those of each family of keys.
    """
    figures = measure(workers, 20.0 if quick else minutes * 60, rate)
    report("parts", figures.pop("most_parts"), "active parts of a table at most", **figures)
    if figures["growing"]:
        raise BenchFailed(f"parts keep growing: {', '.join(figures['growing'])}")
