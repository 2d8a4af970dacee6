"""Agent `pnl`: the books of all wallets, FIFO, from the lane by wallet."""

from __future__ import annotations

from functools import partial
from typing import Final

import faust
from redis.asyncio import Redis

from infra.settings import Settings
from pipeline.agents.context import Context
from pipeline.agents.pnl.books import PnlBooks
from pipeline.agents.pnl.cold_rows import ColdTables
from pipeline.agents.pnl.memory import Rest
from pipeline.agents.pnl.store import Store
from pipeline.agents.settled.books import Books
from pipeline.agents.settled.lane import attach as attach_settled
from pipeline.agents.settled.quarantine import read_quarantine
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.redis_keys import tag_of_wallets
from schemas.times import HOUR_MS
from schemas.topics import SETTLED_BY_WALLET

GROUP: Final = "pnl"


def attach(app: faust.App, context: Context) -> None:
    """Put the agent on an app."""
    attach_settled(app, context, GROUP, SETTLED_BY_WALLET, partial(open_books, context))


async def open_books(context: Context, partition: int) -> Books:
    """Open the books of a partition as Redis has them. Raises RedisError."""
    return await open_pnl(context.settings, context.redis, context.clickhouse, partition)


async def open_pnl(
    settings: Settings, redis: Redis, clickhouse: ClickHouseSink, partition: int
) -> Books:
    """Open the books of a partition on some stores. Raises RedisError."""
    store = Store(redis, partition)
    rest_hours = settings.pnl_cold_after_days * 24
    place = SETTLED_BY_WALLET.place(partition)
    clock_ms = await store.read_clock_ms()
    quarantine = await read_quarantine(redis, GROUP, tag_of_wallets(partition))
    await store.prepare(clock_ms // HOUR_MS + rest_hours)
    return PnlBooks(
        store,
        place,
        ColdTables(clickhouse, place, quarantine),
        rest_hours,
        Rest(rest_hours, settings.pnl_received_cold_after_hours),
        clock_ms,
        quarantine,
    )
