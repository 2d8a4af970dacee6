"""`soltape rebuild`: the books of the agents back into a Redis that lost them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, Final

import click
import orjson
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from clickhouse_connect.driver.client import Client
from google.protobuf.message import DecodeError
from redis.asyncio import Redis

from infra.bench import progress
from infra.clickhouse.client import ClickHouseError, ClickHouseUnavailable
from infra.clickhouse.client import check as reach_clickhouse
from infra.clickhouse.client import connect as connect_clickhouse
from infra.clickhouse.migrations import MigrationError, migrate
from infra.kafka.client import KafkaUnreachable
from infra.kafka.topics import (
    TopicsWrong,
    begins_at,
    has_all_from,
    records_so_far,
    settled_partitions,
)
from infra.partitions import why_wrong
from infra.redis.client import RedisError
from infra.redis.client import connect as connect_redis
from infra.redis.partitions import PartitionsWrong
from infra.settings import Settings, load
from pipeline.agents import store
from pipeline.agents.accounts import agent as accounts
from pipeline.agents.market import agent as market
from pipeline.agents.pnl import agent as pnl
from pipeline.agents.pnl.checkpoint_day import CheckpointDay
from pipeline.agents.pnl.store import Store
from pipeline.agents.settled import restore
from pipeline.agents.settled.restore import Books
from pipeline.sinks.clickhouse import ClickHouseSink, RowsRefused
from pipeline.sinks.redis import Watermark, read_watermark
from pipeline.status import GROUPS
from schemas import tape_rows
from schemas.codec import CodecError
from schemas.proto.tape_pb2 import SlotGap
from schemas.rows import (
    ACCOUNTS,
    BOOK_CHECKPOINTS,
    COLD_MARKETS,
    COLD_POSITIONS,
    COLD_WALLETS,
    LOT_MATCHES,
    POSITIONS,
    WALLET_DAYS,
    Table,
)
from schemas.rows import GAPS as GAP_ROWS
from schemas.topics import (
    GAPS,
    SETTLED_ACCOUNTS,
    SETTLED_BY_MINT,
    SETTLED_BY_WALLET,
    Topic,
)

UNTIL_S: Final = 600  # an answer of ClickHouse
REACHED_WITHIN_S: Final = 10.0
AT_REST_S: Final = 15.0
ADDRESSES_AT_ONCE: Final = 1_000
_HISTORY: Final = (POSITIONS, WALLET_DAYS, LOT_MATCHES)


class CannotRebuild(Exception):
    """The books cannot be made again as asked; the text says why and what can be done."""


@click.command()
@click.argument("groups", nargs=-1, type=click.Choice(sorted(GROUPS)), metavar="[GROUP]...")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(0),
    help="Only this one; may be repeated.",
)
@click.option(
    "--from-checkpoint",
    is_flag=True,
    help="Replace books that Redis has by the checkpoint, as after ClickHouse came from a backup.",
)
@click.option(
    "--from-log",
    is_flag=True,
    help="Remove the books and have the agents compute them from the log's first message.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Rebuild even though the log lacks slots: they become a gap, and history that counts them "
    "is deleted.",
)
def rebuild(
    groups: tuple[str, ...],
    partitions: tuple[int, ...],
    from_checkpoint: bool,
    from_log: bool,
    accept_loss: bool,
) -> None:
    """Fill a Redis that lost the books of GROUPs (pnl, market, store,
    accounts; all if none is named) from ClickHouse and the log.

    An agent whose books are gone from Redis, while ClickHouse has rows of them, ends and names
    this command. Each partition gets its last checkpoint (BOOKS_CHECKPOINT_S), and the agents read
    what came after it from the log: nothing is lost. Partitions whose books are in Redis are left
    alone, unless --from-checkpoint or --from-log is given: stop the group's agents for these.
    Otherwise they may run: they wait for the watermark, which is written last. A rebuild that was
    interrupted begins again. Run one at a time: of two the one that began later goes on.

    A partition without a checkpoint, and any with --from-log, is computed from the log's first
    message. Where the log no longer has the beginning of the tape that is refused: with
    --accept-loss the slots that are missing become a gap, which health and answers name. The
    history of wallets then begins with the log as well: their days, positions and matches of lots
    from before are deleted from ClickHouse. Swaps, funding and perp changes stay.

    Where the log lost slots after a checkpoint these become a gap as well; to mend what is in
    quarantine at that price needs --accept-loss. Days, positions and matches of lots then go back
    to the checkpoint: rows of slots after it are deleted from ClickHouse, and the agents write
    those again that the log still has. Swaps, funding and perp changes stay here, too.

    What the log no longer has of accounts is asked of the chain again: until then wallets are
    not complete, and say so.

    Where a stored value cannot be read, the agents leave its wallet or mint out (quarantine;
    /health names how many). Such a partition is rebuilt as well: stop the group's agents first.
    It gets no checkpoint meanwhile, so that the last one and the log since then mend it: rebuild
    before the log forgets. Where the value is one that was put away into ClickHouse, the partition
    is computed from the log's first message.

    Where ClickHouse was lost and comes from a backup, Redis is ahead of it: --from-checkpoint goes
    back to the checkpoint in the backup, and the agents write the rows after it again. Take such
    backups while no agent runs, so that no table lacks rows of slots before its checkpoint
    (`soltape clickhouse backup`, `restore`). Gaps that the log names are written again as well.

    \b
    What Redis had beside the books comes back by itself, or not at all:
      last prices, live streams  with the next trades
      names and symbols          are asked of the chain again
      API keys                   are not in ClickHouse: `soltape keys import` from an export

    \b
    Examples:
      soltape rebuild                           whatever is missing
      soltape rebuild pnl --from-log            compute the books of wallets anew
      soltape rebuild market --partition 3
    """
    settings = load()
    try:
        asyncio.run(
            _rebuild(
                settings,
                groups or tuple(GROUPS),
                partitions,
                from_checkpoint=from_checkpoint,
                from_log=from_log,
                accept_loss=accept_loss,
            )
        )
    except (
        *(CannotRebuild, restore.Overtaken, PartitionsWrong, MigrationError, RowsRefused),
        *(ClickHouseUnavailable, ClickHouseError, RedisError, KafkaUnreachable, KafkaError),
        *(TopicsWrong, TimeoutError, OSError),
    ) as error:
        click.echo(f"soltape: not rebuilt: {error or type(error).__name__}", err=True)
        sys.exit(1)


async def _rebuild(
    settings: Settings,
    groups: tuple[str, ...],
    partitions: tuple[int, ...],
    *,
    from_checkpoint: bool,
    from_log: bool,
    accept_loss: bool,
) -> None:
    await reach_clickhouse(settings, REACHED_WITHIN_S)
    await asyncio.to_thread(migrate, settings)
    found = await settled_partitions(settings)
    if found and (why := why_wrong(found, f"the tape on {settings.kafka_bootstrap}")):
        raise CannotRebuild(why)
    await asyncio.to_thread(restore.require_checkpoints, settings)
    redis = connect_redis(settings)
    client = await asyncio.to_thread(connect_clickhouse, settings, answer_timeout_s=UNTIL_S)
    began = time.monotonic()
    with closing(client):
        try:
            values = 0
            for books, place in _places(groups, partitions):
                values += await Rebuild(settings, redis, client, books, place).run(
                    from_checkpoint=from_checkpoint, from_log=from_log, accept_loss=accept_loss
                )
            if from_checkpoint and store.GROUP in groups:
                await _write_gaps(settings, client)
        finally:
            await redis.aclose()
    took_s = time.monotonic() - began
    click.echo(f"{values:,} values in {took_s:.1f} s")


def _places(
    groups: tuple[str, ...], partitions: tuple[int, ...]
) -> Iterator[tuple[Books, TopicPartition]]:
    for group in groups:
        topic = GROUPS[group]
        if wrong := [number for number in partitions if number >= topic.partitions]:
            raise CannotRebuild(f"{group} has partitions 0 to {topic.partitions - 1}, not {wrong}")
        for number in partitions or range(topic.partitions):
            yield Books.of(group, topic, number), TopicPartition(topic.name, number)


async def _write_gaps(settings: Settings, client: Client) -> None:
    """Write the gaps that the log names: an agent that has read them reads them no second time."""
    found = []
    async for record in records_so_far(settings, GAPS):
        with suppress(CodecError, DecodeError):  # it was put aside when it was read first
            found.append(tape_rows.gap_row(SlotGap.FromString(record.value or b"")))
    if found:
        await asyncio.to_thread(client.insert, GAP_ROWS.name, found, list(GAP_ROWS.columns))
    progress(f"{len(found)} gaps of the log are in ClickHouse")


class Rebuild:
    """The work on one partition of a group."""

    def __init__(
        self, settings: Settings, redis: Redis, client: Client, books: Books, place: TopicPartition
    ) -> None:
        self._settings = settings
        self._redis = redis
        self._client = client
        self._books = books
        self._place = place
        self._name = f"{books.group} {place.partition}"

    async def run(
        self, *, from_checkpoint: bool = False, from_log: bool = False, accept_loss: bool = False
    ) -> int:
        """Rebuild it where that is needed; return how many values were written."""
        if from_log or from_checkpoint:
            await self._check_at_rest()
        if not from_log:
            mark = await read_watermark(self._redis, self._books.watermark)
            left_out = await self._quarantine()
            if mark is not None and not from_checkpoint:
                if not left_out:
                    progress(f"{self._name}: is in Redis, at slot {mark.slot}")
                    return 0
                progress(f"{self._name}: {len(left_out)} in quarantine")
                await self._check_at_rest()
            mark = await asyncio.to_thread(restore.checkpoint_of, self._client, self._books)
            if mark is not None and not any(map(_is_of_clickhouse, left_out.values())):
                if left_out:
                    await self._check_log(mark, accept_loss)
                return await self._from_checkpoint(mark)
        await self._from_log(accept_loss)
        return 0

    async def _quarantine(self) -> dict[bytes, bytes]:
        """Return the records of what the books leave out, by wallet or mint."""
        found: Any = self._redis.hgetall(self._books.quarantine)
        return await found  # type: ignore[no-any-return]

    async def _check_log(self, mark: Watermark, accept_loss: bool) -> None:
        """Raise CannotRebuild where to mend some would lose slots of all others."""
        if await self._has_lost_after(mark) and not accept_loss:
            raise CannotRebuild(
                f"{self._name} has its last checkpoint at slot {mark.slot}, and the log does not "
                "have all that came after it: to mend what is in quarantine, the other wallets or "
                "mints would lose those slots. With --accept-loss they become a gap"
            )

    async def _has_lost_after(self, mark: Watermark) -> bool:
        """Return whether the log has deleted records that came after a checkpoint, or began anew.

        The next record may have a later offset without that: transactions' markers take some.
        """
        return not await has_all_from(self._settings, self._place, mark.offset + 1)

    async def _check_at_rest(self) -> None:
        """Raise CannotRebuild where an agent wrote just now: it would go on with its own state."""
        at_ms = int(await self._redis.hget(self._books.watermark, "at_ms") or 0)
        if _now_ms() - at_ms < AT_REST_S * 1000:
            raise CannotRebuild(
                f"{self._name} was written less than {AT_REST_S:g} s ago: stop the agents of "
                f"{self._books.group} first (soltape agents {self._books.group})"
            )

    async def _from_checkpoint(self, mark: Watermark) -> int:
        claimed = await restore.clear(self._redis, self._books)
        values = await restore.restore(
            self._redis,
            self._client,
            self._books,
            claimed,
            lambda so_far: progress(f"{self._name}: {so_far:,} values"),
        )
        lost = await self._has_lost_after(mark)
        if lost and self._books.group == pnl.GROUP:
            await self._rewind_history(mark)
        await restore.finish(self._redis, self._books, claimed, mark, _now_ms())
        progress(
            f"{self._name}: {values:,} values as of slot {mark.slot}; the agents go on from there"
            + (", and record the slots after it that the log no longer has as a gap" * lost)
        )
        return values

    async def _from_log(self, accept_loss: bool) -> None:
        begins = await self._log_begins()
        if begins and not accept_loss:
            raise CannotRebuild(
                f"{self._name} has no checkpoint to start from, and the log begins {begins}: what "
                "came before would be missing. With --accept-loss the agents begin there, and the "
                "missing slots become a gap"
            )
        claimed = await restore.clear(self._redis, self._books)
        await asyncio.to_thread(self._forget_rows)
        mark = Watermark(0, -1, 0)
        if begins:
            if self._books.group == pnl.GROUP:
                await asyncio.to_thread(self._forget_history, _HISTORY)
            # Of an offset that no log has: what is missing before the first message is a gap.
            mark = Watermark(await asyncio.to_thread(self._slot_before_tape), -2, 0)
        await restore.finish(self._redis, self._books, claimed, mark, _now_ms())
        progress(f"{self._name}: the agents compute it from the log's first message")

    async def _log_begins(self) -> str | None:
        """Return where the log begins if that is after the tape's beginning, None where it is not.

        A log that ends before the checkpoint is not the one that the books were made of.
        """
        if first := await begins_at(self._settings, self._place):
            return f"at message {first}"
        if await asyncio.to_thread(self._was_raised):
            return "where its partitions were raised"
        mark = await asyncio.to_thread(restore.checkpoint_of, self._client, self._books)
        return "anew, after the tape" if mark and await self._has_lost_after(mark) else None

    def _forget_rows(self) -> None:
        """Delete state in ClickHouse that the books would read: it is of slots still to come."""
        of_partition = "partition = {partition:UInt16}"
        self._delete(
            BOOK_CHECKPOINTS.name,
            f"agent_group = {{group:String}} AND {of_partition} AND kind != 'begun'",
            self._books.parameters,
        )
        if self._books.group == pnl.GROUP:
            self._delete(COLD_POSITIONS.name, of_partition, self._books.parameters)
            self._forget_addresses(COLD_WALLETS, "wallet", SETTLED_BY_WALLET)
        elif self._books.group == market.GROUP:
            self._forget_addresses(COLD_MARKETS, "mint", SETTLED_BY_MINT)
        elif self._books.group == accounts.GROUP:
            self._forget_addresses(ACCOUNTS, "address", SETTLED_ACCOUNTS)

    def _forget_history(self, tables: tuple[Table, ...], after_slot: int | None = None) -> None:
        """Delete what former books wrote of the wallets, all of it or of slots after one.

        The log does not replace all of it, and the difference of two rows of a position would be
        one between two countings. Rows that are written from here on are not deleted.
        """
        where = "CRC32(wallet) % {count:UInt32} = {number:UInt32}"  # as Topic.partition
        parameters = {"count": SETTLED_BY_WALLET.partitions, "number": self._place.partition}
        if after_slot is not None:
            where += " AND slot > {slot:UInt64}"
            parameters["slot"] = after_slot
        for table in tables:
            self._delete(table.name, where, parameters)

    async def _rewind_history(self, mark: Watermark) -> None:
        """Take the wallets' rows in ClickHouse back to a checkpoint, as Redis is.

        What was put away after it goes as well: it would come back with slots that are lost.
        """
        progress(f"{self._name}: deletes rows of slots after {mark.slot}")
        tables = (*_HISTORY, COLD_POSITIONS, COLD_WALLETS)
        await asyncio.to_thread(self._forget_history, tables, mark.slot)
        number = self._place.partition
        sink = ClickHouseSink(self._settings)
        try:
            day = CheckpointDay(Store(self._redis, number), self._client, sink, number, mark.slot)
            rows = await day.write()
        finally:
            await sink.close()
        progress(f"{self._name}: {rows:,} rows of the day of slot {mark.slot} are as of that slot")

    def _forget_addresses(self, table: Table, column: str, topic: Topic) -> None:
        """Delete the rows of the partition's addresses from a table that has no partitions."""
        found = self._client.query(f"SELECT DISTINCT {column} FROM {table.name}")  # noqa: S608
        addresses = [
            address
            for (address,) in found.result_rows
            if topic.place_of(address) == self._books.place
        ]
        for at in range(0, len(addresses), ADDRESSES_AT_ONCE):
            part = addresses[at : at + ADDRESSES_AT_ONCE]
            self._delete(table.name, f"{column} IN {{part:Array(String)}}", {"part": part})

    def _was_raised(self) -> bool:
        """Return whether the books were of fewer partitions before."""
        found = self._client.query(
            f"SELECT count() FROM {BOOK_CHECKPOINTS.name} "  # noqa: S608
            "WHERE kind = 'begun' AND partition < {first:UInt16}",
            parameters={"first": self._books.place - self._place.partition},
        )
        [(count,)] = found.result_rows
        return bool(count)

    def _delete(self, table: str, where: str, parameters: dict[str, Any]) -> None:
        self._client.command(
            f"ALTER TABLE {table} DELETE WHERE {where}",
            parameters=parameters,
            settings={"mutations_sync": 2},
        )

    def _slot_before_tape(self) -> int:
        """Return the slot before the tape's first, 0 where there is no tape."""
        answer = self._client.query("SELECT min(slot), count() FROM slots")
        [(slot, count)] = answer.result_rows
        return max(0, int(slot) - 1) if count else 0


def _is_of_clickhouse(record: bytes) -> bool:
    """Return whether a value that cannot be read is one that was put away: no checkpoint has it."""
    return str(orjson.loads(record)["place"]).startswith("cold_")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
