"""A rebuild from a checkpoint, where the log lost slots since: ClickHouse goes back with Redis."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

import pytest

from pipeline import rebuild
from pipeline.agents.pnl import checkpoint_day
from pipeline.agents.settled import restore
from pipeline.rebuild import Rebuild
from pipeline.sinks.clickhouse import ClickHouseSink, RowsRefused
from pipeline.sinks.redis import read_watermark
from schemas.solana.base58 import decode
from schemas.times import DAY_MS
from schemas.topics import FEWEST_SETTLED, SETTLED_BY_WALLET, use_settled_partitions
from tests.integration.agents.pnl.conftest import Market
from tests.integration.agents.settled.test_quarantine import PARTITION, Lane, OfPartition
from tests.support.systems import running_stores

HISTORY = ("positions", "wallet_days", "lot_matches")
COLD = ("cold_positions", "cold_wallets")
STEP_MS = 30 * 60_000
CHECKPOINT, LOG_BEGINS = 60, 76  # slots in the log before each; both are of the second day
SLOTS = 120  # until the third day
RECEIVED = (52, 66, 90)  # slots in which a wallet at rest receives: it rests at each of the cuts


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    with running_stores(tmp_path_factory.mktemp("lost-slots")) as settings:
        yield settings.model_copy(update={"pnl_received_cold_after_hours": 1})


class History(Lane):
    """The partition's work, and its rows in ClickHouse."""

    async def begin(self):
        await super().begin()
        for table in COLD:
            self.client.command(f"TRUNCATE TABLE {table}")

    def rows(self):
        """What ClickHouse has of the partition's wallets."""
        return {
            table: [
                row
                for row in self.client.query(
                    f"SELECT * FROM {table} FINAL ORDER BY ALL",
                    column_formats={"packed": "bytes"} if table in COLD else None,
                ).named_results()
                if SETTLED_BY_WALLET.partition(row["wallet"]) == PARTITION
            ]
            for table in HISTORY + COLD
        }

    def count_others(self):
        """How many rows of other partitions' wallets each table has."""
        where = f"CRC32(wallet) % {SETTLED_BY_WALLET.partitions} != {PARTITION}"
        return {
            table: self.client.command(f"SELECT count() FROM {table} WHERE {where}")
            for table in HISTORY + COLD
        }

    def add_others(self):
        """Add a row of another partition's wallet to each table, of a slot after all others."""
        other = Market(37).address()
        assert SETTLED_BY_WALLET.partition(other) != PARTITION
        for table in HISTORY + COLD:
            self.client.command(f"INSERT INTO {table} (wallet, slot) VALUES ('{other}', {2**40})")

    def merge(self):
        """Have the newest row of a day replace the others for good."""
        for table in HISTORY:
            self.client.command(f"OPTIMIZE TABLE {table} FINAL")

    def rebuild(self):
        return Rebuild(self.settings, self.redis, self.client, self.place, self.work.tp)

    async def lose_redis_and_rebuild(self):
        await self.redis.flushdb()
        assert await self.rebuild().run()


@pytest.fixture
async def lane(request, stores, monkeypatch):
    async def shorter_log(settings, place, offset):
        return offset >= LOG_BEGINS

    monkeypatch.setattr(rebuild, "has_all_from", shorter_log)
    # Many parts of everything.
    monkeypatch.setattr(checkpoint_day, "WALLETS_AT_ONCE", 2)
    monkeypatch.setattr(checkpoint_day, "ROWS_AT_ONCE", 3)
    use_settled_partitions(getattr(request, "param", FEWEST_SETTLED))
    made = History(stores)
    await made.begin()
    yield made
    await made.close()
    use_settled_partitions(FEWEST_SETTLED)


def tape():
    """Three days of trades, and a wallet that receives a little and rests in between."""
    market = OfPartition(41, wallets=6, mints=3)
    log = market.slots(SLOTS, step_ms=STEP_MS)
    resting = market.address()
    for index in RECEIVED:
        log[index].movements.add(
            signature=f"received {index}",
            tx_index=2_000,
            wallet=resting,
            mint=market.mints[0],
            received_raw=7,
        )
    days = [batch.block_time_ms // DAY_MS for batch in log]
    assert days[RECEIVED[0]] == days[CHECKPOINT - 1] == days[LOG_BEGINS] == days[0] + 1
    assert days[-1] == days[0] + 2
    return log, resting


def log_since(log):
    """What the agents read after a rebuild: before the checkpoint nothing is read again."""
    return log[:CHECKPOINT] + log[LOG_BEGINS:]


async def first_life(lane, log):
    """Play a whole log with a checkpoint on the way; return the rows there were at it."""
    await lane.open()
    await lane.play(log[:CHECKPOINT])
    assert await lane.checkpoints.take(lane.work) == log[CHECKPOINT - 1].slot
    at_checkpoint = lane.rows()
    await lane.play(log)
    assert lane.rows() != at_checkpoint
    lane.add_others()
    lane.merge()
    return at_checkpoint


async def books_of(lane, log):
    """Play a log from the beginning; return all that is in both stores."""
    await lane.begin()
    await lane.open()
    await lane.play(log)
    return lane.rows(), await lane.state()


def check_one_counting(rows):
    """Check that sums of positions never fall, and that matches of lots add up to them."""
    realized, last = defaultdict(int), {}
    for match in rows["lot_matches"]:
        if match["kind"] != "transfer" and match["cost_usd_micros"] is not None:
            place = match["wallet"], match["mint"]
            proceeds = match["proceeds_usd_micros"]
            if proceeds is not None:
                realized[place] += proceeds - match["cost_usd_micros"]
    for row in sorted(rows["positions"], key=lambda row: row["day"]):
        place = row["wallet"], row["mint"]
        before = last.get(place, row)
        for name in ("buys", "sells", "bought_raw_low", "sold_raw_low", "lots_opened"):
            assert row[name] >= before[name], (place, row["day"], name)
        last[place] = row
    for place, row in last.items():
        gain = row["matched_proceeds_usd_micros_low"] - row["matched_cost_usd_micros_low"]
        assert gain == realized[place], place


@pytest.mark.parametrize("lane", [8, 16], indirect=True)
async def test_rows_go_back_to_the_checkpoint_and_on_without_the_lost_slots(lane):
    log, resting = tape()
    wanted = await books_of(lane, log_since(log))
    check_one_counting(wanted[0])
    await lane.begin()
    at_checkpoint = await first_life(lane, log)
    others = lane.count_others()
    assert set(others.values()) == {1}

    await lane.lose_redis_and_rebuild()
    assert lane.rows() == at_checkpoint
    assert lane.count_others() == others
    assert not await lane.redis.exists(f"pos:{lane.place.tag}:{resting}")
    [at_rest] = [row for row in at_checkpoint["positions"] if row["wallet"] == resting]
    assert at_rest["received_raw_low"] == 7

    await lane.open()
    await lane.play(log_since(log))
    found = lane.rows()
    for table in HISTORY:  # what is put away when depends on how slots were cut
        assert found[table] == wanted[0][table]
    check_one_counting(found)
    if lane.place.place == PARTITION:
        assert await lane.state() == wanted[1]


async def test_a_second_rebuild_of_the_same_checkpoint_writes_its_rows_again(lane):
    """The insert is the same, and ClickHouse knows it: what it wrote is gone all the same."""
    log, _ = tape()
    at_checkpoint = await first_life(lane, log)
    for _ in range(2):
        await lane.lose_redis_and_rebuild()
        assert lane.rows() == at_checkpoint
        await lane.open()
        await lane.play(log_since(log))
        lane.merge()
        assert lane.rows() != at_checkpoint


@pytest.mark.parametrize("where", ["first table", "positions", "watermark"])
async def test_a_rebuild_that_was_interrupted_begins_again(lane, monkeypatch, where):
    log, _ = tape()
    at_checkpoint = await first_life(lane, log)
    with monkeypatch.context() as patch:
        insert = ClickHouseSink.insert

        async def cut_off(*_):
            raise RowsRefused("cut off")

        async def insert_days(sink, table, rows, token):
            if table == "positions":
                raise RowsRefused("cut off")
            await insert(sink, table, rows, token)

        if where == "watermark":
            patch.setattr(restore, "finish", cut_off)
        else:
            patch.setattr(
                ClickHouseSink, "insert", cut_off if where == "first table" else insert_days
            )
        await lane.redis.flushdb()
        with pytest.raises(RowsRefused):
            await lane.rebuild().run()
    assert await read_watermark(lane.redis, lane.place.watermark) is None
    assert (lane.rows() == at_checkpoint) == (where == "watermark")
    assert await lane.rebuild().run()
    assert lane.rows() == at_checkpoint


async def test_of_two_rebuilds_at_once_the_one_that_began_later_goes_on(lane, monkeypatch):
    """What it removed and did not write yet the other one has written, and does not again."""
    log, _ = tape()
    await first_life(lane, log)
    await lane.lose_redis_and_rebuild()
    wanted, rows = await lane.state(), lane.rows()
    monkeypatch.setattr(restore, "COMMANDS_AT_ONCE", 2)
    is_half, is_cleared, is_over = (asyncio.Event() for _ in range(3))
    asked = Counter()
    ask = restore.ask

    async def in_turns(redis, commands):
        found = await ask(redis, commands)
        name = asyncio.current_task().get_name()
        asked[name] += 1
        if name == "earlier" and asked[name] == 5:
            is_half.set()
            await is_cleared.wait()
        elif name == "later" and asked[name] == 2:
            is_cleared.set()
            await is_over.wait()
        return found

    monkeypatch.setattr(restore, "ask", in_turns)
    await lane.redis.flushdb()
    earlier = asyncio.create_task(lane.rebuild().run(), name="earlier")
    await is_half.wait()
    later = asyncio.create_task(lane.rebuild().run(), name="later")
    with pytest.raises(restore.Overtaken, match="pnl 3 as well, and began later"):
        await earlier
    assert await read_watermark(lane.redis, lane.place.watermark) is None, "no agent begins yet"
    is_over.set()
    assert await later
    assert await lane.state() == wanted
    assert lane.rows() == rows


async def test_rows_stay_where_the_log_has_all_since_the_checkpoint(lane, monkeypatch):
    async def whole_log(settings, place, offset):
        return True

    log, _ = tape()
    await first_life(lane, log)
    rows = lane.rows()
    monkeypatch.setattr(rebuild, "has_all_from", whole_log)
    await lane.lose_redis_and_rebuild()
    assert lane.rows() == rows


async def test_a_value_that_cannot_be_read_holds_up_no_rebuild(lane):
    log, resting = tape()
    at_checkpoint = await first_life(lane, log)
    wallet = next(row["wallet"] for row in at_checkpoint["wallet_days"] if row["wallet"] != resting)
    lane.client.command(
        "INSERT INTO book_checkpoints SELECT * REPLACE ('cut' AS value) FROM book_checkpoints "
        f"FINAL WHERE key LIKE 'pos:%{wallet}' "
        f"OR key LIKE 'days:%' AND field = unhex('{decode(wallet).hex()}')"
    )
    await lane.lose_redis_and_rebuild()
    for table in HISTORY:
        assert [row for row in lane.rows()[table] if row["wallet"] != wallet] == [
            row for row in at_checkpoint[table] if row["wallet"] != wallet
        ]
