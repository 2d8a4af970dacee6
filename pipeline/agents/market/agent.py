"""Agent `market`: markets of mints from the settled lane by mint, and the token registry beside."""

from __future__ import annotations

import faust

from pipeline.agents.context import Context
from pipeline.agents.market.books import GROUP, MarketBooks, open_books
from pipeline.agents.market.cold_rows import ColdTables
from pipeline.agents.market.registry import Registry
from pipeline.agents.market.trending_stream import TrendingStream
from pipeline.agents.settled import lane
from schemas.topics import SETTLED_BY_MINT

__all__ = ["GROUP", "attach"]


def attach(app: faust.App, context: Context) -> None:
    """Put the agent on an app."""
    registry = Registry(context.settings, context.redis, context.clickhouse)
    stream = TrendingStream(context.redis)

    async def open_partition(partition: int) -> MarketBooks:
        registry.start(context.stop)
        return await open_books(
            context.redis,
            partition,
            registry,
            ColdTables(context.clickhouse),
            context.settings.market_cold_after_days,
            stream,
        )

    lane.attach(app, context, GROUP, SETTLED_BY_MINT, open_partition)
