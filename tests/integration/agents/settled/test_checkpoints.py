"""Checkpoints of books in ClickHouse, and a Redis that is filled from them."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from aiokafka.structs import TopicPartition

from infra.clickhouse.client import connect as connect_clickhouse
from infra.redis.client import connect
from pipeline.agents.settled import restore
from pipeline.agents.settled.books import Writes
from pipeline.agents.settled.changes import ALL_TRACKED
from pipeline.agents.settled.checkpoints import BooksLost, Checkpoints
from pipeline.agents.settled.flush import Flush
from pipeline.agents.settled.partition_work import PartitionWork, Taken

# private `_now_ms`: the clock of the rebuild, so that both agree.
from pipeline.rebuild import CannotRebuild, Rebuild, _now_ms
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.redis import Watermark, read_watermark
from schemas import redis_keys
from schemas.redis_keys import tag_of_wallets
from schemas.topics import SETTLED_BY_WALLET
from tests.support.systems import running_stores

GROUP = "pnl"
HASHES = [redis_keys.POSITIONS, redis_keys.BALANCES]
ZSETS = [redis_keys.TOP_OF_MINT]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    with running_stores(tmp_path_factory.mktemp("checkpoints")) as settings:
        yield settings


class Books:
    """A partition whose flushes are written as the lane writes them."""

    def __init__(self, settings, partition):
        self.partition, self.tag = partition, tag_of_wallets(partition)
        self.redis = connect(settings)
        self.sink = ClickHouseSink(settings)
        self.client = connect_clickhouse(settings)
        self.place = restore.Books.of(GROUP, SETTLED_BY_WALLET, partition)
        self.open()

    def open(self):
        """Begin as another process would."""
        self.work = PartitionWork(
            TopicPartition("lane", self.partition),
            self.place.watermark,
            self.place.changed,
            None,
            lambda: None,
            None,
            None,
        )
        self.flush = Flush(GROUP, self.redis, self.sink, lambda: [self.work], 1)
        self.checkpoints = Checkpoints(
            GROUP,
            self.redis,
            self.sink,
            3600,
            self.flush.lock,
            lambda: [self.work],
            SETTLED_BY_WALLET,
        )

    async def write(self, slot, commands):
        mark = Watermark(slot, slot * 2, slot * 400)
        # private `_commit`: writes commands as given, at a watermark of the test's.
        await self.flush._commit(Taken(self.work, Writes(commands=commands), mark, []))
        assert self.work.written == mark

    async def state(self):
        """All that Redis has of the partition, without what is about checkpoints."""
        found = {}
        async for key in self.redis.scan_iter(f"*{self.tag}*"):
            kind = (await self.redis.type(key)).decode()
            if key.startswith(b"changed:"):
                continue
            if kind == "hash":
                found[key] = await self.redis.hgetall(key)
                if key.startswith(b"wm:"):
                    found[key] = dict.fromkeys((b"slot", b"offset", b"time_ms")) | {
                        name: found[key].get(name) for name in (b"slot", b"offset", b"time_ms")
                    }
            elif kind == "zset":
                found[key] = dict(await self.redis.zrange(key, 0, -1, withscores=True))
            elif kind == "set":
                found[key] = await self.redis.smembers(key)
            else:
                found[key] = await self.redis.get(key)
        return found

    async def restored(self):
        """Empty Redis, and fill it from the checkpoint."""
        await self.redis.flushdb()
        mark = await asyncio.to_thread(restore.checkpoint_of, self.client, self.place)
        claimed = await restore.claim(self.redis, self.place)
        await restore.restore(self.redis, self.client, self.place, claimed, lambda _: None)
        await restore.finish(self.redis, self.place, claimed, mark, 1)
        self.open()
        self.work.written = await read_watermark(self.redis, self.place.watermark)

    async def close(self):
        await self.redis.aclose()
        await self.sink.close()
        self.client.close()


@pytest.fixture
async def books(stores, request):
    made = Books(stores, request.param)
    await made.redis.flushdb()
    yield made
    await made.close()


def some_commands(random, tag):
    """Commands as books have them: what a checkpoint must follow, in any order."""
    wallet, mint = f"W{random.randrange(6)}", f"M{random.randrange(4)}"
    field = random.randbytes(3) + b"\0"
    of_wallet = redis_keys.POSITIONS.make(tag=tag, wallet=wallet)
    top = redis_keys.TOP_OF_MINT.make(tag=tag, mint=mint)
    lots = redis_keys.LOTS.make(tag=tag, wallet=wallet, mint=mint, chunk=random.randrange(3))
    name = bytes([random.randrange(8)])
    yield from random.choices(
        [
            ("HSET", of_wallet, name, random.randbytes(20), field, b""),
            ("HDEL", of_wallet, name),
            ("ZADD", top, random.randrange(-(2**52), 2**52), name, 10, field),
            ("ZREM", top, name),
            ("ZREMRANGEBYSCORE", top, "-inf", f"({random.randrange(-(2**50), 100)}"),
            ("UNLINK", top, lots),
            ("UNLINK", of_wallet),
            ("SET", lots, random.randbytes(30)),
            ("SETBIT", redis_keys.AWAY.make(tag=tag), random.randrange(2_000), 1),
            ("SET", redis_keys.BOOKS_CLOCK.make(tag=tag), random.randrange(10**12)),
        ],
        k=random.randrange(1, 6),
    )


@pytest.mark.parametrize("books", [1], indirect=True)
@pytest.mark.parametrize("seed", range(4))
async def test_a_redis_that_lost_all_is_as_at_the_last_checkpoint(books, seed):
    random = Random(seed)
    await restore.clear(books.redis, books.place)
    books.client.command("TRUNCATE TABLE book_checkpoints")
    if seed:  # else books of an earlier version: the first checkpoint has all
        await books.checkpoints.begin(books.work)
    expected = None
    for slot in range(1, 120):
        await books.write(slot, list(some_commands(random, books.tag)))
        if random.random() < 0.1 or slot == 1:
            assert await books.checkpoints.take(books.work) == slot
            expected = await books.state()
        if random.random() < 0.02 and expected is not None:
            await books.restored()
            assert await books.state() == expected
            # What came after is applied again, to other cuts of the same slots or not.
            slot_again = books.work.written.slot
            assert slot_again <= slot
        if random.random() < 0.03:  # the set of what changed does not fit, or is lost
            await books.redis.unlink(books.place.changed)
    await books.restored()
    assert await books.state() == expected


@pytest.mark.parametrize("books", [2], indirect=True)
async def test_a_checkpoint_that_was_cut_off_is_made_up_for(books):
    await books.checkpoints.begin(books.work)
    top = redis_keys.TOP_OF_MINT.make(tag=books.tag, mint="M")
    await books.write(1, [("ZADD", top, 1, b"a", 1, b"b")])
    assert await books.checkpoints.take(books.work) == 1
    await books.write(2, [("ZADD", top, 2, b"a")])
    # It took the names and died before ClickHouse had their values.
    taken = redis_keys.CHECKPOINTING.make(tag=books.tag, group=GROUP)
    await books.redis.sunionstore(taken, [books.place.changed])
    await books.redis.delete(books.place.changed)
    await books.redis.sadd(books.place.changed, ALL_TRACKED)
    books.open()
    books.work.written = await read_watermark(books.redis, books.place.watermark)
    await books.write(3, [("ZADD", top, 3, b"b")])
    assert await books.checkpoints.take(books.work) == 3
    assert not await books.redis.exists(taken)
    await books.restored()
    assert dict(await books.redis.zrange(top, 0, -1, withscores=True)) == {b"a": 2, b"b": 3}


@pytest.mark.parametrize("books", [6], indirect=True)
async def test_a_redis_behind_its_checkpoint_writes_none_until_it_is_past_it(books):
    """What was put away in the time that Redis lost is named by nobody any more."""
    await books.checkpoints.begin(books.work)
    key = redis_keys.POSITIONS.make(tag=books.tag, wallet="W")
    await books.write(1, [("HSET", key, b"a", b"1", b"b", b"1")])
    assert await books.checkpoints.take(books.work) == 1
    before = {name: await books.redis.dump(name) for name in await books.redis.keys()}
    await books.write(2, [("UNLINK", key)])
    assert await books.checkpoints.take(books.work) == 2
    await books.redis.flushdb()
    for name, value in before.items():
        await books.redis.restore(name, 0, value)
    books.open()
    books.work.written = await read_watermark(books.redis, books.place.watermark)
    assert await books.checkpoints.take(books.work) is None
    await books.write(3, [("HSET", key, b"a", b"3")])
    assert await books.checkpoints.take(books.work) == 3
    await books.restored()
    assert await books.redis.hgetall(key) == {b"a": b"3", b"b": b"1"}


@pytest.mark.parametrize("books", [6], indirect=True)
async def test_books_that_an_agent_just_wrote_are_not_replaced(stores, books):
    await books.redis.hset(books.place.watermark, mapping={"slot": 1, "at_ms": _now_ms()})
    place = TopicPartition("lane", 6)
    rebuild = Rebuild(stores, books.redis, books.client, books.place, place)
    with pytest.raises(CannotRebuild, match="stop the agents of pnl first"):
        await rebuild.run(from_log=True)


@pytest.mark.parametrize("books", [5], indirect=True)
async def test_a_clickhouse_that_lost_its_checkpoint_gets_a_whole_one(books):
    await books.checkpoints.begin(books.work)
    top = redis_keys.TOP_OF_MINT.make(tag=books.tag, mint="M")
    await books.write(1, [("ZADD", top, 1, b"a", 1, b"b")])
    assert await books.checkpoints.take(books.work) == 1
    books.client.command("TRUNCATE TABLE book_checkpoints")
    await books.write(2, [("ZADD", top, 2, b"a")])
    assert await books.checkpoints.take(books.work) == 2
    await books.restored()
    assert dict(await books.redis.zrange(top, 0, -1, withscores=True)) == {b"a": 2, b"b": 1}


@pytest.mark.parametrize("books", [3], indirect=True)
async def test_books_that_redis_lost_do_not_begin_anew_over_filled_tables(books):
    await books.checkpoints.begin(books.work)
    await books.checkpoints.begin(books.work)  # as after a kill at once
    await books.redis.flushdb()
    with pytest.raises(BooksLost, match=r"partition 3.*run `soltape rebuild pnl`"):
        await books.checkpoints.begin(books.work)
    assert not await books.redis.exists(books.place.watermark)


class Overtaken:
    """A Redis that has answered when another process begins, before the answer arrives."""

    def __init__(self, redis, begin):
        self.redis, self.begin = redis, begin

    def __getattr__(self, name):
        return getattr(self.redis, name)

    async def hexists(self, key, field):
        answer = await self.redis.hexists(key, field)
        await self.begin()
        return answer


@pytest.mark.parametrize("books", [6], indirect=True)
async def test_of_two_processes_that_begin_at_once_none_finds_its_books_lost(books, stores):
    other = Books(stores, books.partition)
    overtaken = Overtaken(books.redis, lambda: other.checkpoints.begin(other.work))
    lane = SETTLED_BY_WALLET
    late = Checkpoints(GROUP, overtaken, books.sink, 3600, asyncio.Lock(), list, lane)
    await late.begin(books.work)
    assert await books.redis.hexists(books.place.watermark, "begun")
    await other.close()


@pytest.mark.parametrize("books", [4], indirect=True)
async def test_more_values_than_a_page_come_back(books, monkeypatch):
    monkeypatch.setattr(restore, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(restore, "VALUES_AT_ONCE", 3)
    await books.checkpoints.begin(books.work)
    key = redis_keys.POSITIONS.make(tag=books.tag, wallet="W")
    other = redis_keys.TOP_OF_MINT.make(tag=books.tag, mint="M")
    fields = [part for n in range(40) for part in (bytes([n, 0, 255 - n]), bytes([n]))]
    scores = [part for n in range(20) for part in (n * 2**47, bytes([n]))]
    commands = [("HSET", key, *fields), ("ZADD", other, *scores)]
    away = redis_keys.AWAY.make(tag=books.tag)
    await books.write(1, commands + [("SETBIT", away, 7 * n, 1) for n in range(9)])
    await books.checkpoints.take(books.work)
    expected = await books.state()
    await books.restored()
    assert await books.state() == expected
