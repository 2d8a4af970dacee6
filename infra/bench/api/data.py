"""The data set in real stores: Valkey and ClickHouse of the embedded stack, filled from a seed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from clickhouse_connect.driver.client import Client

from infra.bench import progress
from infra.bench.api import books, markets
from infra.bench.api.positions.data import write_positions
from infra.bench.api.redis_writer import RedisWriter
from infra.bench.api.world import DAYS, LAST_MS, SOL_USD, World
from infra.bench.roles import Role, system, wait_ready
from infra.clickhouse import client as clickhouse_client
from infra.clickhouse import embedded
from infra.clickhouse.migrations import migrate
from infra.clickhouse.sql import load
from infra.local.process import free_port
from infra.redis import client as redis_client
from infra.redis.embedded import valkey
from infra.settings import Settings
from schemas.markets import INTERVALS_S
from schemas.times import DAY_MS

_HOST: Final = "127.0.0.1"
_SWAPS_A_SLICE: Final = 1_000_000  # what is grouped at once
_STATEMENT_S: Final = 600
_MERGED: Final = ("swaps", "wallet_days", "positions", "lot_matches", "candles")
_STILL_S: Final = 300.0  # for merges and the append-only file to come to rest


class Stores:
    """The stores of a data set; `env` leads to them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        ports = {name: free_port() for name in ("redis", "clickhouse")}
        redis_url = f"redis://{_HOST}:{ports['redis']}"
        self.env = {
            "SOLTAPE_DATA": str(folder),
            "REDIS_URL": f"{redis_url}/0",
            "ACCESS_REDIS_URL": f"{redis_url}/1",
            "CLICKHOUSE_URL": f"http://{_HOST}:{ports['clickhouse']}",
            "CLICKHOUSE_PASSWORD": "",
        }
        values: dict[str, Any] = {name.lower(): value for name, value in self.env.items()}
        self.settings = Settings(_env_file=None, **values)  # type: ignore[call-arg]
        self.roles: list[Role] = []
        for process in (
            valkey(folder / "redis", _HOST, ports["redis"]),
            embedded.server(folder / "clickhouse", ports["clickhouse"]),
        ):
            role = stack.enter_context(system(process, folder))
            wait_ready(role, process.ready)
            self.roles.append(role)

    def fill(self, world: World, *, with_positions: bool = False) -> dict[str, Any]:
        """Write the data set into the empty stores; return how long it took and what it takes.

        `with_positions`: wallets that have accounts of protocols as well, and the lane of accounts.
        """
        began = time.monotonic()
        migrate(self.settings)
        with clickhouse_client.connect(self.settings, answer_timeout_s=_STATEMENT_S) as clickhouse:
            _fill_clickhouse(clickhouse, world)
            tables_s = time.monotonic() - began
            asyncio.run(self._fill_redis(clickhouse, world, with_positions=with_positions))
            figures = asyncio.run(self._rest(clickhouse))
        return {
            "swaps": world.swaps,
            "wallets": world.wallets,
            "mints": world.mints,
            "tables_s": round(tables_s, 1),
            "filled_s": round(time.monotonic() - began, 1),
            **figures,
        }

    async def _fill_redis(self, clickhouse: Client, world: World, *, with_positions: bool) -> None:
        async with redis_client.connect(self.settings) as redis:
            # All at once it need not outlive a crash; nor is it what a stack's limit is made for.
            await redis.config_set("appendonly", "no")
            await redis.config_set("maxmemory", "0")
            write = RedisWriter(redis)
            slices = _slices(world)
            for number in range(slices):
                progress(f"books and markets: {number + 1} of {slices}")
                await books.write_books(write, clickhouse, world, number, slices)
                await markets.write_markets(write, clickhouse, world, number, slices)
            await books.write_progress(write)
            await markets.write_progress(write)
            if with_positions:
                progress("accounts of protocols")
                await write_positions(write, world)
            await write.flush()

    async def _rest(self, clickhouse: Client) -> dict[str, Any]:
        """Wait until both stores have put what was written in order; return their sizes.

        As slots come, a table's parts are as many whatever it holds; written at one stroke, the
        more the larger it is. So of both data sets each partition is made one part.
        """
        for table in _MERGED:
            progress(f"merging {table}")
            clickhouse.command(f"OPTIMIZE TABLE {table} FINAL")
        until = time.monotonic() + _STILL_S
        async with redis_client.connect(self.settings) as redis:
            await redis.config_set("appendonly", "yes")
            while time.monotonic() < until:
                rewriting = (await redis.info("persistence"))["aof_rewrite_in_progress"]
                merging = clickhouse.command("SELECT count() FROM system.merges")
                if not rewriting and not merging:
                    break
                await asyncio.sleep(0.5)
            used = await redis.info("memory")
        size = clickhouse.command("SELECT sum(bytes_on_disk) FROM system.parts WHERE active")
        return {
            "redis_mb": round(int(used["used_memory"]) / 1e6),
            "clickhouse_mb": round(int(str(size)) / 1e6),
        }


@contextmanager
def stores(folder: Path) -> Iterator[Stores]:
    """Run empty stores, and end them."""
    with ExitStack() as stack:
        yield Stores(folder, stack)


def _slices(world: World) -> int:
    return max(1, world.swaps // _SWAPS_A_SLICE)


def _fill_clickhouse(clickhouse: Client, world: World) -> None:
    def insert(name: str, **parameters: Any) -> None:
        clickhouse.command(load(__package__, name), parameters=world.parameters(**parameters))

    for day in range(DAYS):
        first = world.swaps * day // DAYS
        insert("swaps", first=first, count=world.swaps * (day + 1) // DAYS - first)
        progress(f"swaps: day {day + 1} of {DAYS}")
    insert("tokens")
    insert("slots", sol_usd=SOL_USD)
    slices = _slices(world)
    for number in range(slices):
        progress(f"figures of wallets and tokens: {number + 1} of {slices}")
        for name in ("lot_matches", "wallet_days", "positions"):
            insert(name, slice=number, slices=slices)
        for seconds in INTERVALS_S.values():
            # One-second candles are kept for a while only.
            after_ms = LAST_MS - DAY_MS if seconds == 1 else 0
            insert(
                "candles",
                interval_s=seconds,
                after_ms=after_ms,
                sol_usd=SOL_USD,
                slice=number,
                slices=slices,
            )
