"""Agent `accounts`: the last version of each account, from the lane of accounts."""

from __future__ import annotations

from functools import partial
from typing import Final

import faust
from redis.asyncio import Redis

from infra.settings import Settings
from pipeline.agents.accounts.books import AccountBooks
from pipeline.agents.accounts.store import Store
from pipeline.agents.context import Context
from pipeline.agents.settled.books import Books
from pipeline.agents.settled.lane import attach as attach_settled
from pipeline.agents.settled.quarantine import read_quarantine
from schemas.redis_keys import tag_of_partition
from schemas.topics import SETTLED_ACCOUNTS

GROUP: Final = "accounts"


def attach(app: faust.App, context: Context) -> None:
    """Put the agent on an app."""
    attach_settled(app, context, GROUP, SETTLED_ACCOUNTS, partial(_open, context))


async def _open(context: Context, partition: int) -> Books:
    return await open_accounts(context.settings, context.redis, partition)


async def open_accounts(settings: Settings, redis: Redis, partition: int) -> AccountBooks:
    """Open the books of a partition as Redis has them; raises RedisError."""
    tag = tag_of_partition(SETTLED_ACCOUNTS, partition)
    store = Store(redis, tag, GROUP)
    await store.away.prepare()
    quarantine = await read_quarantine(redis, GROUP, tag)
    mark = await store.read_watermark()
    return AccountBooks(
        store,
        quarantine,
        settings.account_cold_after_days,
        slot=mark.slot if mark else 0,
        time_ms=mark.time_ms if mark else 0,
    )
