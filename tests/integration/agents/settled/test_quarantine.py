"""A value that cannot be read: its wallet is left out, all others go on, rebuild mends it."""

from __future__ import annotations

from collections import defaultdict

import orjson
import pytest
from aiokafka.structs import TopicPartition

from infra.clickhouse.client import connect as connect_clickhouse
from infra.redis.client import connect
from pipeline import rebuild
from pipeline.agents.pnl.agent import GROUP, open_pnl
from pipeline.agents.settled import restore
from pipeline.agents.settled.checkpoints import Checkpoints
from pipeline.agents.settled.flush import Flush
from pipeline.agents.settled.partition_work import Entry, PartitionWork
from pipeline.rebuild import CannotRebuild, Rebuild
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.redis import read_watermark
from schemas.positions import unpack_position
from schemas.redis_keys import tag_of_wallets
from schemas.solana.base58 import decode
from schemas.topics import SETTLED_BY_WALLET
from tests.integration.agents.pnl.conftest import Market
from tests.support.systems import running_stores

PARTITION = 3
TAG = tag_of_wallets(PARTITION)
TABLES = ("positions", "wallet_days", "lot_matches", "book_checkpoints")


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    with running_stores(tmp_path_factory.mktemp("quarantine")) as settings:
        yield settings


class Lane:
    """The partition's work as the frame does it; a list of slots is the log."""

    def __init__(self, settings):
        self.settings = settings
        self.redis = connect(settings)
        self.sink = ClickHouseSink(settings)
        self.client = connect_clickhouse(settings)
        self.place = restore.Books.of(GROUP, SETTLED_BY_WALLET, PARTITION)

    async def begin(self):
        await self.redis.flushdb()
        for table in TABLES:
            self.client.command(f"TRUNCATE TABLE {table}")

    async def open(self):
        """Begin as another process would: nothing is in memory."""
        self.work = PartitionWork(
            TopicPartition("lane", PARTITION),
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
        watermark = await read_watermark(self.redis, self.work.key)
        if watermark is None:
            await self.checkpoints.begin(self.work)
        await self.work.open(watermark, lambda p: open_pnl(self.settings, self.redis, self.sink, p))

    async def play(self, log):
        """Apply what is in the log after the watermark."""
        for offset, batch in enumerate(log):
            if self.work.written is None or offset > self.work.written.offset:
                self.work.accept(Entry(offset, batch, 10, 1), lambda: lambda: None)
        # private `_waiting`, `_apply_chunk`: the work's loop, step by step and without its task.
        while self.work._waiting:
            await self.work._apply_chunk()
            await self.flush.once()

    async def state(self):
        """What Redis has of the books, by key."""
        found = {}
        async for key in self.redis.scan_iter(f"*{TAG}*"):
            if key.startswith((b"wm:", b"changed:", b"quarantine:")):
                continue
            kind = await self.redis.type(key)
            if kind == b"hash":
                found[key.decode()] = await self.redis.hgetall(key)
            elif kind == b"zset":
                found[key.decode()] = dict(await self.redis.zrange(key, 0, -1, withscores=True))
            else:
                found[key.decode()] = await self.redis.get(key)
        return found

    async def records(self):
        found = await self.redis.hgetall(self.place.quarantine)
        return {name.decode(): orjson.loads(record) for name, record in found.items()}

    def rows(self):
        """What ClickHouse has of the wallets."""
        return {
            table: self.client.query(f"SELECT * FROM {table} FINAL ORDER BY ALL").result_rows
            for table in TABLES[:3]
        }

    async def rest(self):
        """Have the last write be long ago, as where the agents are stopped."""
        await self.redis.hset(self.place.watermark, "at_ms", 0)

    async def close(self):
        await self.redis.aclose()
        await self.sink.close()
        self.client.close()


@pytest.fixture
async def lane(stores, monkeypatch):
    async def begins_at(settings, place):
        return 0

    async def has_all_from(settings, place, offset):
        return True

    monkeypatch.setattr(rebuild, "begins_at", begins_at)
    monkeypatch.setattr(rebuild, "has_all_from", has_all_from)
    made = Lane(stores)
    await made.begin()
    yield made
    await made.close()


def of_others(state, wallet):
    """The parts of a state that are about one wallet alone, without one wallet."""
    found = defaultdict(dict)
    for key, value in state.items():
        family = key.partition(":")[0]
        if family in ("pos", "bal", "lots") and wallet not in key:
            found[key] = value
        elif family in ("wallets", "days", "top"):
            found[key] = {name: each for name, each in value.items() if name != decode(wallet)}
    return found


def busiest(log):
    """The wallet with most trades at the end of a log."""
    count = defaultdict(int)
    for batch in log:
        for event in batch.events:
            count[event.swap.wallet] += 1
    return max(sorted(count), key=lambda wallet: count[wallet])


def place_of(state, what, wallet):
    """The key and field of a value of a wallet."""
    if what == "total":
        return f"wallets:{TAG}", decode(wallet)
    if what == "lots":
        return min(key for key in state if key.startswith("lots:") and wallet in key), None
    key = f"pos:{TAG}:{wallet}"
    return key, max(state[key], key=lambda mint: (unpack_position(state[key][mint])[0].buys, mint))


@pytest.mark.parametrize("what", ["total", "position", "lots"])
async def test_one_bad_value_holds_up_its_wallet_alone_until_rebuild_mends_it(lane, what):
    log = Market(31, wallets=5, mints=2).slots(240)
    await lane.open()
    await lane.play(log)
    wanted, rows = await lane.state(), lane.rows()
    await lane.begin()
    await lane.open()
    await lane.play(log[:100])
    checkpoint = await lane.checkpoints.take(lane.work)
    assert checkpoint == log[99].slot
    await lane.play(log[:120])
    wallet = busiest(log[120:])
    key, field = place_of(await lane.state(), what, wallet)
    if field is None:
        await lane.redis.set(key, b"\x01")
    else:
        await lane.redis.hset(key, field, b"\x01\x02\x03")
    await lane.open()
    await lane.play(log)
    assert lane.work.written.slot == log[-1].slot
    records = await lane.records()
    assert records.keys() == {wallet}
    assert log[119].slot < records[wallet]["slot"] <= log[-1].slot
    assert key in records[wallet]["place"]
    state = await lane.state()
    assert of_others(state, wallet) == of_others(wanted, wallet)
    assert state != wanted

    # Another process leaves it out as well, and no checkpoint takes the place of the good one.
    # The names of what changed, which only a checkpoint would need, do not pile up meanwhile.
    await lane.open()
    await lane.play([*log, Market(32).one()])
    assert await lane.redis.exists(lane.place.changed)
    assert await lane.checkpoints.take(lane.work) is None
    assert not await lane.redis.exists(lane.place.changed)
    assert lane.work.changes == 0

    mend = Rebuild(lane.settings, lane.redis, lane.client, lane.place, lane.work.tp)
    with pytest.raises(CannotRebuild, match="stop the agents of pnl first"):
        await mend.run()
    await lane.rest()
    assert await mend.run()
    assert not await lane.records()
    await lane.open()
    assert lane.work.written.slot == checkpoint
    await lane.play(log)
    assert not await lane.records()
    assert await lane.state() == wanted
    assert lane.rows() == rows
    assert await lane.checkpoints.take(lane.work) == log[-1].slot


class OfPartition(Market):
    """A tape of wallets that are all of the partition."""

    def address(self):
        found = super().address()
        while SETTLED_BY_WALLET.partition(found) != PARTITION:
            found = super().address()
        return found


async def test_books_that_begin_with_a_shorter_log_leave_no_rows_of_former_ones(lane, monkeypatch):
    """Sums of a position begin anew: a day's change is the difference of two rows."""
    log = OfPartition(35, wallets=4, mints=2).slots(120, step_ms=30 * 60_000)
    await lane.open()
    await lane.play(log[60:])
    wanted = lane.rows()
    await lane.begin()
    await lane.open()
    await lane.play(log)
    assert lane.rows() != wanted
    other = Market(37).address()
    assert SETTLED_BY_WALLET.partition(other) != PARTITION
    for table in wanted:
        lane.client.command(f"INSERT INTO {table} (wallet, slot) VALUES ('{other}', 1)")

    async def shorter_log(settings, place):
        return 60

    monkeypatch.setattr(rebuild, "begins_at", shorter_log)
    await lane.rest()
    mend = Rebuild(lane.settings, lane.redis, lane.client, lane.place, lane.work.tp)
    await mend.run(from_log=True, accept_loss=True)
    await lane.open()
    await lane.play(log[60:])
    found = lane.rows()
    assert found.keys() == wanted.keys()
    for table, rows in found.items():
        assert [row for row in rows if row[0] != other] == wanted[table]
        assert len(rows) == len(wanted[table]) + 1


async def test_a_log_that_began_anew_lacks_the_tape_before_it(lane, monkeypatch):
    log = OfPartition(38, wallets=4, mints=2).slots(40)
    await lane.open()
    await lane.play(log)
    await lane.checkpoints.take(lane.work)
    await lane.rest()

    async def another_log(settings, place, offset):
        return False

    monkeypatch.setattr(rebuild, "has_all_from", another_log)
    mend = Rebuild(lane.settings, lane.redis, lane.client, lane.place, lane.work.tp)
    state = await lane.state()
    with pytest.raises(CannotRebuild, match="the log begins anew"):
        await mend.run(from_log=True)
    assert await lane.state() == state
    assert all(lane.rows().values())
    await mend.run(from_log=True, accept_loss=True)
    mark = await read_watermark(lane.redis, lane.place.watermark)
    assert mark is not None
    assert mark.offset == -2, "of no log: what is missing before its first message is a gap"
    assert not any(lane.rows().values())


async def test_a_checkpoint_never_has_a_value_that_cannot_be_read(lane):
    log = Market(33, wallets=4).slots(60)
    await lane.open()
    await lane.play(log[:30])
    assert await lane.checkpoints.take(lane.work) == log[29].slot
    await lane.play(log[:40])
    wallet = busiest(log[30:40])
    await lane.redis.hset(f"wallets:{TAG}", decode(wallet), b"cut")
    assert await lane.checkpoints.take(lane.work) is None
    await lane.flush.once()
    assert (await lane.records()).keys() == {wallet}
    mark = restore.checkpoint_of(lane.client, lane.place)
    assert mark is not None
    assert mark.slot == log[29].slot


async def test_rebuild_refuses_to_lose_slots_of_all_others_for_one(lane, monkeypatch):
    log = Market(34, wallets=4).slots(40)
    await lane.open()
    await lane.play(log[:20])
    await lane.checkpoints.take(lane.work)
    await lane.play(log[:25])
    wallet = busiest(log[25:])
    await lane.redis.hset(f"wallets:{TAG}", decode(wallet), b"cut")
    await lane.open()
    await lane.play(log)
    await lane.rest()

    async def shorter_log(settings, place, offset):
        return False

    monkeypatch.setattr(rebuild, "has_all_from", shorter_log)
    mend = Rebuild(lane.settings, lane.redis, lane.client, lane.place, lane.work.tp)
    with pytest.raises(CannotRebuild, match="would lose those slots"):
        await mend.run()
    assert (await lane.records()).keys() == {wallet}
