"""A settled lane on a real broker, workers of its counting group as processes, and their Redis."""

import asyncio
import hashlib
import os
import shutil
import signal
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

from infra.clickhouse.client import connect as clickhouse_client
from infra.clickhouse.embedded import server as clickhouse
from infra.kafka import client, topics
from infra.local.process import free_port
from infra.redis.client import connect
from infra.redis.embedded import valkey
from pipeline.agents.settled import restore
from pipeline.rebuild import Rebuild
from pipeline.sinks.redis import read_watermark
from schemas import redis_keys
from schemas.proto.tape_pb2 import SlotBatch, SlotGap
from schemas.topics import GAPS, SETTLED_BY_MINT, UNDECODED
from tests.support import systems
from tests.support.agents.committing import until_committed
from tests.support.forked import Forked
from tests.support.systems import Mortal, make_tables, running_tables
from tests.support.waiting import eventually_async

COUNTING = Path(systems.__file__).parent / "agents/counting.py"
PARTITIONS = range(SETTLED_BY_MINT.partitions)
UNREAD = b"\xff\xff\xff no protobuf"


class Lane:
    """The settled lane; knows what the stores hold when all is applied."""

    def __init__(self, settings):
        self.settings = settings
        self.producer = Producer(client.confluent_producer(settings))
        self.slot = 0
        self.slots = {partition: [] for partition in PARTITIONS}

    async def prepare(self):
        await topics.create(self.settings, [SETTLED_BY_MINT, UNDECODED, GAPS])
        async with topics.reader(self.settings) as consumer:
            places = await topics.partitions(self.settings, SETTLED_BY_MINT)
            consumer.assign(places)
            ends = await consumer.end_offsets(places)
            waiting = {place for place in places if ends[place]}
            await consumer.seek_to_beginning(*places)
            while waiting:
                for place, records in (await consumer.getmany(timeout_ms=200)).items():
                    for record in records:
                        self._note(place.partition, record.value)
                # The last entry may be the marker of a transaction, which is no record.
                for place in [*waiting]:
                    if await consumer.position(place) >= ends[place]:
                        waiting.discard(place)

    def _note(self, partition, value):
        """Note what a message must come to: `counting.py` in a few words."""
        try:
            batch = SlotBatch.FromString(value)
        except Exception:
            return
        slots = self.slots[partition]
        if batch.slot > self.slot:
            self.slot = batch.slot
        if batch.blockhash != "bad" and batch.slot > max(slots, default=0):
            slots.append(batch.slot)

    def send(self, count, blockhash="", unread_on=None):
        """Put slots on all partitions, as ingest does; one may get bytes that cannot be read."""
        for _ in range(count):
            parent, self.slot = self.slot, self.slot + 1
            batch = SlotBatch(slot=self.slot, parent=parent, block_time_ms=self.slot * 400)
            batch.blockhash = blockhash
            for partition in PARTITIONS:
                value = batch.SerializeToString()
                self.raw(partition, UNREAD if partition == unread_on else value)
        self.producer.flush()

    def raw(self, partition, value):
        self._note(partition, value)
        while True:
            try:
                self.producer.produce(SETTLED_BY_MINT.name, value, None, partition)
                break
            except BufferError:
                self.producer.poll(0.1)
        self.producer.poll(0)

    def expected(self):
        """Count and digest of each partition when all is applied."""
        found = {}
        for partition, slots in self.slots.items():
            digest = b""
            for slot in slots:
                digest = hashlib.sha256(digest + slot.to_bytes(8, "big")).digest()
            found[partition] = (len(slots), digest)
        return found


class Valkey(Mortal):
    """A durable Redis that can be put back in time as well."""

    def __init__(self, data):
        super().__init__(valkey(data, "127.0.0.1", free_port()))
        self.data = data

    def copy_to(self, place):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.data, place)

    def put_back(self, place):
        """Replace the data by an older copy, while it does not run."""
        shutil.rmtree(self.data)
        shutil.copytree(place, self.data)


class Workers:
    """Processes of one counting group."""

    def __init__(self, settings, log_file, **environment):
        self.settings = settings
        self.group = f"counting-{uuid.uuid4().hex[:8]}"
        self.log_file = log_file
        self.environment = environment
        self.running = []
        self.redis = connect(settings)

    def start(self, **environment):
        given = {
            "COUNTING_GROUP": self.group,
            "KAFKA_BOOTSTRAP": self.settings.kafka_bootstrap,
            "KAFKA_SESSION_TIMEOUT_S": str(self.settings.kafka_session_timeout_s),
            "REDIS_URL": self.settings.redis_url,
            "CLICKHOUSE_URL": self.settings.clickhouse_url,
            **self.environment,
            **environment,
        }
        child = Forked(COUNTING, os.environ | given, self.log_file)
        self.running.append(child)
        return child

    async def state(self):
        found = {}
        for partition in PARTITIONS:
            key = f"{self.group}:{redis_keys.tag_of_mints(partition)}"
            count, digest = await self.redis.hmget(key, ["count", "digest"])
            found[partition] = (int(count or 0), digest or b"")
        return found

    async def watermarks(self):
        return {
            partition: await read_watermark(
                self.redis,
                redis_keys.WATERMARK.make(tag=redis_keys.tag_of_mints(partition), group=self.group),
            )
            for partition in PARTITIONS
        }

    async def until(self, enough, within_s=150):
        """Wait until the state fulfils something."""
        state = None

        async def holds():
            nonlocal state
            state = await self.state()
            if enough(state):
                return True
            assert any(child.poll() is None for child in self.running), self.log[-3000:]
            return False

        await eventually_async(holds, lambda: (state, self.log[-3000:]), within_s)
        return state

    async def until_applied(self, lane, within_s=150):
        expected = lane.expected()
        await self.until(lambda state: state == expected, within_s)

    async def until_committed(self):
        """Wait until Kafka knows that all is applied: a restart reads on from there."""
        await until_committed(self.settings, f"soltape-{self.group}", SETTLED_BY_MINT)

    def has_checkpoints(self, slot):
        """Return whether ClickHouse has the books of each partition as of a slot."""
        with closing(clickhouse_client(self.settings)) as client:
            marks = [restore.checkpoint_of(client, books) for books in self.books()]
        return all(mark is not None and mark.slot == slot for mark in marks)

    def books(self):
        return [
            restore.Books.of(self.group, SETTLED_BY_MINT, partition) for partition in PARTITIONS
        ]

    async def gaps(self):
        """Return what is on record as lost: partition, first and last slot, as rows know a gap."""
        found = set()
        async for record in topics.records_so_far(self.settings, GAPS):
            gap = SlotGap.FromString(record.value)
            group, _, partition = gap.lost_by.partition(" ")
            if group == self.group:
                found.add((int(partition), gap.first_slot, gap.last_slot))
        return found

    async def rebuild(self, **how):
        """Do for this group what `soltape rebuild` does for those that there are."""
        with closing(clickhouse_client(self.settings)) as client:
            for partition, books in enumerate(self.books()):
                place = TopicPartition(SETTLED_BY_MINT.name, partition)
                work = Rebuild(self.settings, self.redis, client, books, place)
                await work.run(**how)

    @property
    def log(self):
        return self.log_file.read_text()

    async def end(self):
        for child in self.running:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                child.wait()
        await self.redis.aclose()


@pytest.fixture
async def redis_server(tmp_path):
    server = Valkey(tmp_path / "valkey")
    await server.start()
    yield server
    server.kill()


@pytest.fixture
async def lane(broker):
    lane = Lane(broker.settings)
    await lane.prepare()
    return lane


@pytest.fixture(scope="package")
def tables(tmp_path_factory):
    """The address of a ClickHouse with our tables, of all groups there are."""
    folder = tmp_path_factory.mktemp("tables")
    with running_tables(folder) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
async def workers(broker, redis_server, tables, tmp_path):
    settings = broker.settings.model_copy(
        update={"redis_url": redis_server.process.address, "clickhouse_url": tables}
    )
    workers = Workers(settings, tmp_path / "workers.log")
    workers.log_file.touch()
    yield workers
    await workers.end()


@pytest.fixture
async def rows_server(tmp_path, workers):
    """A ClickHouse with our tables, which the workers write to."""
    data = await asyncio.to_thread(make_tables, tmp_path / "clickhouse")
    server = Mortal(clickhouse(data, free_port()))
    await server.start()
    workers.settings = workers.settings.model_copy(
        update={"clickhouse_url": server.process.address}
    )
    workers.environment["COUNTING_ROWS"] = "1"
    yield server
    server.kill()
