"""The stores of a benchmark: an embedded Valkey and ClickHouse of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from infra.bench.roles import system, wait_ready
from infra.clickhouse import embedded
from infra.clickhouse.migrations import migrate
from infra.local.process import free_port
from infra.redis.embedded import valkey
from infra.settings import Settings, load_own


@contextmanager
def embedded_stores() -> Iterator[Settings]:
    """Run both, with our tables, in a folder that goes with them; yield settings that lead there.

    Raises BenchFailed where one does not start.
    """
    with tempfile.TemporaryDirectory(prefix="soltape-") as name, ExitStack() as stack:
        folder = Path(name)
        ports = {"redis": free_port(), "clickhouse": free_port()}
        for process in (
            valkey(folder / "redis", embedded.HOST, ports["redis"]),
            embedded.server(folder / "clickhouse", ports["clickhouse"]),
        ):
            wait_ready(stack.enter_context(system(process, folder)), process.ready)
        settings = load_own(
            clickhouse_url=f"http://{embedded.HOST}:{ports['clickhouse']}",
            redis_url=f"redis://{embedded.HOST}:{ports['redis']}/0",
        )
        migrate(settings)
        yield settings
