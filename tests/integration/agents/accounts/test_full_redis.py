"""A flush that a full Valkey refuses makes room by itself, and goes through then."""

import asyncio
import hashlib

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import REGISTRY

from infra.redis.client import connect
from infra.settings import Settings
from pipeline.agents.accounts.agent import GROUP, open_accounts
from pipeline.agents.settled.flush import Flush
from pipeline.agents.settled.partition_work import Entry, PartitionWork
from pipeline.sinks.redis import read_watermark
from schemas import redis_keys
from schemas.rows import ACCOUNTS
from schemas.solana.addresses import text
from schemas.topics import SETTLED_ACCOUNTS
from tests.integration.agents.accounts.conftest import (
    PARTITION,
    TAG,
    WATERMARK,
    slot_batch,
    stake,
)
from tests.support.systems import running_valkey
from tests.support.waiting import WITHIN_S, eventually_async

AT_REST, NEW = 3_000, 20
TOO_LITTLE_BYTES = 30_000  # of what Redis has; answers and scripts on their way count as well


class Tables:
    """Takes the rows that ClickHouse would get."""

    def __init__(self):
        self.rows = []

    async def insert(self, table, rows, token):
        assert table == ACCOUNTS.name
        self.rows += [row[0] for row in rows]


def address(name):
    return hashlib.sha256(str(name).encode()).digest()


def stakes(names):
    return [stake(address(name), address("owner"), address("owner")) for name in names]


async def apply(work, batch):
    """Hand a slot to the books, and wait until it is applied."""
    work.accept(Entry(batch.slot, batch, 1, 1), lambda: lambda: None)

    async def applied():
        return work.applied is not None and work.applied.slot == batch.slot

    await eventually_async(applied)


def evicted():
    """Return how many accounts were put away to make room."""
    return REGISTRY.get_sample_value("soltape_agents_evicted_total", {"group": GROUP}) or 0


@pytest.fixture
def settings(tmp_path):
    with running_valkey(tmp_path) as port:
        yield Settings(
            _env_file=None, soltape_data=tmp_path, redis_url=f"redis://127.0.0.1:{port}/0"
        )


async def test_a_flush_that_a_full_redis_refuses_puts_away_what_rests_and_goes_through(settings):
    redis, tables = connect(settings), Tables()
    work = PartitionWork(
        TopicPartition(SETTLED_ACCOUNTS.name, PARTITION),
        WATERMARK,
        redis_keys.CHANGED.make(tag=TAG, group=GROUP),
        consumer=None,  # nothing is missing of this log
        made_room=lambda: None,
        first_from=None,
        none_between=None,
    )
    flush = Flush(GROUP, redis, tables, lambda: [work], SETTLED_ACCOUNTS.partitions)
    await work.open(None, lambda partition: open_accounts(settings, redis, partition))
    running = asyncio.create_task(work.run())
    before = evicted()
    try:
        await apply(work, slot_batch(10, *stakes(range(AT_REST))))
        await flush.once()
        tables.rows.clear()
        used = (await redis.info("memory"))["used_memory"]
        await redis.config_set("maxmemory", used - TOO_LITTLE_BYTES)

        await apply(work, slot_batch(20, *stakes(range(AT_REST, AT_REST + NEW)), parent=10))
        async with asyncio.timeout(WITHIN_S):
            await flush.once()

        assert (await redis.info("errorstats"))["errorstat_OOM"]["count"]
        assert work.written == await read_watermark(redis, WATERMARK)
        assert work.written.slot == 20
        here = {
            name
            for name in range(AT_REST + NEW)
            if await redis.exists(redis_keys.ACCOUNT.make(tag=TAG, address=text(address(name))))
        }
        away = {name for name in range(AT_REST) if text(address(name)) in tables.rows}
        assert evicted() - before == len(away) > 0
        assert len(tables.rows) == len(away) + NEW
        assert here == {*range(AT_REST + NEW)} - away
        assert not running.done()
    finally:
        running.cancel()
        await redis.aclose()
