"""A hundred of a thousand clients stop reading: what the others notice, and what it takes.

Those who stop are every second one of the two hundred who are sent most, so that their queues fill
and many who are sent much are left among the others. First all read, then these stop; then they
read again, and what they find says how they were told.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from infra.bench import progress
from stream_gateway.bench import serving
from stream_gateway.bench.crowd import crowd
from stream_gateway.bench.load import CLIENTS, Load, run

STOPPED: Final = 100
_LOOK_S: Final = 0.1
_READ_AGAIN_S: Final = 5.0
_MIB: Final = 1 << 20


def measure(load: Load) -> dict[str, Any]:
    """Return the others' latency and the gateway's memory, without and with slow clients.

    Raises BenchFailed where one of the others misses anything.
    """
    sizes = [load.oracle.size_of(number) for number in range(CLIENTS)]
    busiest = sorted(range(CLIENTS), key=lambda number: -sizes[number])
    slow = frozenset(busiest[: 2 * STOPPED : 2])
    with (
        tempfile.TemporaryDirectory(prefix="soltape-bench-") as folder,
        serving.store(Path(folder)) as store,
        serving.gateway(store, CLIENTS + STOPPED) as served,
        crowd(served.url, load.connections, store.folder, narrow=slow) as clients,
    ):
        with _memory(served.role.child.pid) as before:
            _, all_read = run(served, store, load, clients, slow)
        clients.pause(slow)
        with _memory(served.role.child.pid) as memory:
            _, stopped = run(served, store, load, clients, slow)
        clients.resume()
        time.sleep(_READ_AGAIN_S)
        after = clients.report()
    codes = Counter(after.close_codes[number] for number in slow)
    without, with_slow = all_read.latency.p99_ms, stopped.latency.p99_ms
    progress(f"slow clients: the others' p99 {without:.1f} ms without, {with_slow:.1f} ms with")
    return {
        "stopped": STOPPED,
        "seconds": load.seconds,
        "p99_ms_without": without,
        "p99_ms_with": with_slow,
        "ratio": round(with_slow / without, 2),
        "told_lagging": sum(after.lagging[number] > 0 for number in slow),
        "closed_by_code": {str(code): count for code, count in codes.items() if code},
        "rss_mib_without": round(max(before) / _MIB),
        "rss_mib_with": round(max(memory) / _MIB),
    }


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
