"""`soltape agents accounts` on a real broker, Valkey and ClickHouse, killed at any moment."""

import asyncio
import os
from contextlib import closing
from random import Random

import pytest
from confluent_kafka import Producer

from infra.clickhouse.client import connect as clickhouse
from infra.kafka import client, topics
from infra.local.process import free_port
from infra.redis.client import connect
from pipeline.agents.settled.restore import Books, checkpoint_of

# private `_rebuild`: the command without its own event loop.
from pipeline.rebuild import _rebuild
from pipeline.sinks.redis import read_watermark
from schemas import redis_keys
from schemas.proto.tape_pb2 import SlotBatch
from schemas.solana.addresses import text
from schemas.topics import SETTLED_ACCOUNTS
from tests.integration.agents.accounts.conftest import read_key, without_revisions
from tests.integration.agents.accounts.oracle import expected
from tests.integration.agents.accounts.random_slots import random_batches
from tests.support.forked import Forked
from tests.support.systems import running_stores
from tests.support.waiting import eventually_async

PARTITIONS = range(SETTLED_ACCOUNTS.partitions)


class Killed:
    """The lane of accounts, and the agent that reads it."""

    def __init__(self, settings, folder):
        self.settings = settings
        self.redis = connect(settings)
        self.random = Random(15)
        self.sent = {partition: [] for partition in PARTITIONS}
        self.slot = 100
        self._producer = Producer(client.confluent_producer(settings))
        self._log = folder / "agents.log"

    def send(self, count):
        for whole in random_batches(self.random, count, self.slot, accounts=200, loses=False):
            self.slot = whole.slot
            for partition in PARTITIONS:
                batch = SlotBatch()
                batch.CopyFrom(whole)
                del batch.accounts[:]
                batch.accounts.extend(
                    each
                    for each in whole.accounts
                    if SETTLED_ACCOUNTS.partition(text(each.address)) == partition
                )
                self.sent[partition].append(batch)
                value = batch.SerializeToString()
                self._producer.produce(SETTLED_ACCOUNTS.name, value, None, partition)
        self._producer.flush()

    def start(self):
        settings = self.settings
        given = {
            "KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
            "KAFKA_SESSION_TIMEOUT_S": str(settings.kafka_session_timeout_s),
            "REDIS_URL": settings.redis_url,
            "CLICKHOUSE_URL": settings.clickhouse_url,
            "METRICS_PORT_BOOKS": str(free_port()),
            "SOLTAPE_DATA": str(settings.soltape_data),
            "BOOKS_CHECKPOINT_S": "1",
        }
        return Forked(("agents", "accounts"), os.environ | given, self._log)

    async def slots(self):
        names = [
            redis_keys.WATERMARK.make(tag=tag, group="accounts")
            for tag in redis_keys.account_tags()
        ]
        marks = [await read_watermark(self.redis, name) for name in names]
        return [mark.slot if mark else 0 for mark in marks]

    async def until(self, slot, child):
        async def is_there():
            assert child.poll() is None, self._log.read_text()[-3000:]
            return min(await self.slots()) >= slot

        await eventually_async(is_there, lambda: self._log.read_text()[-3000:])

    async def state(self):
        keys = {
            key: await read_key(self.redis, key)
            for name in await self.redis.keys("*")
            if (key := name.decode()).startswith(("acct:", "own:", "cover:", "accts:"))
            and not key.endswith(":away")
        }
        return without_revisions(keys)

    def wanted(self):
        found = {}
        for partition, tag in enumerate(redis_keys.account_tags()):
            found |= expected(self.sent[partition], tag)
        return found

    def has_checkpoints(self):
        books = [Books.of("accounts", SETTLED_ACCOUNTS, partition) for partition in PARTITIONS]
        with closing(clickhouse(self.settings)) as tables:
            return all(checkpoint_of(tables, each) for each in books)


@pytest.fixture
def stores(tmp_path):
    with running_stores(tmp_path) as settings:
        yield settings


@pytest.fixture
async def killed(fresh_embedded, stores, tmp_path):
    settings = fresh_embedded.settings.model_copy(
        update={"redis_url": stores.redis_url, "clickhouse_url": stores.clickhouse_url}
    )
    await topics.create(settings)
    work = Killed(settings, tmp_path)
    yield work
    await work.redis.aclose()


@pytest.mark.slow
@pytest.mark.processes
async def test_killed_at_any_moment_every_account_is_as_the_slots_say(killed):
    killed.send(100)
    for after_s in (0.0, 0.3, 0.7):
        child = killed.start()
        await killed.until(killed.sent[0][0].slot, child)
        killed.send(60)
        await asyncio.sleep(after_s)
        child.kill()
        child.wait()
    child = killed.start()
    killed.send(20)
    await killed.until(killed.slot, child)
    wanted = killed.wanted()
    child.kill()
    child.wait()
    assert await killed.state() == wanted
    finders = [key for key in wanted if key.startswith("own:")]
    with closing(clickhouse(killed.settings)) as tables:
        rows = tables.query("SELECT address, slot FROM accounts FINAL").result_rows
    kept = {text(address) for key in finders for address in wanted[key]}
    assert {address for address, _ in rows} == kept


@pytest.mark.slow
@pytest.mark.processes
async def test_a_lost_redis_is_filled_from_the_checkpoint_and_the_log(killed):
    killed.send(100)
    child = killed.start()
    await killed.until(killed.slot, child)
    await eventually_async(lambda: asyncio.to_thread(killed.has_checkpoints), killed.slots)
    killed.send(50)
    child.kill()
    child.wait()
    await killed.redis.flushdb()
    how = {"from_checkpoint": False, "from_log": False, "accept_loss": False}
    await _rebuild(killed.settings, ("accounts",), (), **how)
    assert min(await killed.slots()) > 100
    child = killed.start()
    await killed.until(killed.slot, child)
    wanted = killed.wanted()
    child.kill()
    child.wait()
    assert await killed.state() == wanted
