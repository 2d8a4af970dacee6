"""A hundred of a thousand clients stop reading: what the others notice, and what it takes.

Every second one of the two hundred busiest clients stops, so that their queues fill and many who
are sent much are left among the others. First all read, then these stop; then they read again, and
count the `lagging` frames and closes that they find.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from infra.bench import median, progress
from infra.bench.roles import scrape, value
from stream_gateway.bench import serving
from stream_gateway.bench.crowd import crowd
from stream_gateway.bench.load import CLIENTS, Load, run
from stream_gateway.connection import TOO_SLOW

STOPPED: Final = 100
_LOOK_S: Final = 0.1
_READ_AGAIN_S: Final = 5.0
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What one gateway did, first without and then with slow clients."""

    p99_ms: tuple[float, float]
    rss_mib: tuple[float, float]  # the most
    lagging: int  # clients that got the frame, of those that read again
    closed: int  # clients, with 4008


def measure(before: Load, load: Load, runs: int) -> dict[str, Any]:
    """Return the others' latency and the gateway's memory, without and with slow clients.

    `before` is delivered while all read, `load` while some do not; both have the same clients.
    Medians of the runs. Raises BenchFailed where one of the others misses anything.
    """
    sizes = [load.oracle.size_of(number) for number in range(CLIENTS)]
    busiest = sorted(range(CLIENTS), key=lambda number: -sizes[number])
    slow = frozenset(busiest[: 2 * STOPPED : 2])
    outcomes = [_measure(before, load, slow) for _ in range(runs)]
    p99_ms = [median([each.p99_ms[side] for each in outcomes]) for side in (0, 1)]
    return {
        "stopped": STOPPED,
        "seconds": load.seconds,
        "p99_ms_without": p99_ms[0],
        "p99_ms_with": p99_ms[1],
        "ratio": round(p99_ms[1] / p99_ms[0], 2),
        "rss_mib_without": round(max(each.rss_mib[0] for each in outcomes)),
        "rss_mib_with": round(max(each.rss_mib[1] for each in outcomes)),
        "lagging": [each.lagging for each in outcomes],
        "closed_4008": [each.closed for each in outcomes],
        "p99_ms_of_runs": [each.p99_ms for each in outcomes],
    }


def _measure(before: Load, load: Load, slow: frozenset[int]) -> _Outcome:
    with (
        tempfile.TemporaryDirectory(prefix="soltape-bench-") as folder,
        serving.store(Path(folder)) as store,
        serving.gateway(store, CLIENTS + STOPPED) as served,
        crowd(served.url, load.connections, store.folder, narrow=slow) as clients,
    ):
        with _memory(served.role.child.pid) as without:
            _, all_read = run(served, store, before, clients, slow)
        clients.pause(slow)
        with _memory(served.role.child.pid) as memory:
            _, stopped = run(served, store, load, clients, slow)
        clients.resume()
        time.sleep(_READ_AGAIN_S)
        after = clients.report()
        metrics = scrape(served.metrics_url)
    p99_ms = (all_read.latency.p99_ms, stopped.latency.p99_ms)
    progress(f"slow clients: the others' p99 {p99_ms[0]:.1f} ms without, {p99_ms[1]:.1f} ms with")
    return _Outcome(
        p99_ms,
        (max(without) / _MIB, max(memory) / _MIB),
        sum(after.lagging[number] > 0 for number in slow),
        int(value(metrics, "soltape_gateway_closes_total", code=str(TOO_SLOW), by="server")),
    )


@contextmanager
def _memory(pid: int) -> Iterator[list[int]]:
    """Yield a list that gets a process's resident bytes, some times a second."""
    process = psutil.Process(pid)
    seen = [int(process.memory_info().rss)]
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_S):
            seen.append(int(process.memory_info().rss))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()
