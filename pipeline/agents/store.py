"""Agent `store`: the tape itself to ClickHouse: swaps, other events, slots, outcomes, gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import faust
import structlog
from google.protobuf.message import DecodeError

from pipeline.agents import metrics
from pipeline.agents.context import Context
from pipeline.agents.launchpads import Launchpads, ReadLaunchpads, reader
from pipeline.agents.poison import undecoded
from pipeline.agents.settled.lane import Books, Writes
from pipeline.agents.settled.lane import attach as attach_settled
from schemas import rows, tape_rows, topics
from schemas.codec import CodecError
from schemas.proto.tape_pb2 import SlotBatch, SlotGap

log = structlog.get_logger(__name__)

GROUP: Final = "store"


class TapeBooks:
    """The rows of one partition: those of a slot, and from the slots before the launch platforms.

    The settled lane carries a platform where the swap itself names one; the table has the token's.
    """

    def __init__(self, partition: int, read_launchpads: ReadLaunchpads) -> None:
        # Every partition carries every slot; one of them stores it.
        self._stores_slots = partition == 0
        self._rows: dict[str, list[rows.Row]] = {}
        self._launchpads = Launchpads(read_launchpads)

    async def load(self, batches: Sequence[SlotBatch]) -> None:
        """Read which launch platforms the tokens are of; raises ClickHouseError."""
        await self._launchpads.load(batches)

    def apply(self, batch: SlotBatch) -> None:
        """Make the rows of a slot; raises CodecError, and then keeps none of it."""
        launchpads = self._launchpads
        swaps: list[rows.Row] = []
        creations: list[rows.Row] = []
        migrations: list[rows.Row] = []
        for event in batch.events:
            match event.WhichOneof("event"):
                case "swap":
                    swap = event.swap
                    swap.platform = launchpads.of_swap(swap.mint, swap.platform)
                    swaps.append(tape_rows.swap_row(swap))
                case "creation":
                    creations.append(tape_rows.creation_row(event.creation))
                    launchpads.created(event.creation.mint, event.creation.platform)
                case "migration":
                    migrations.append(tape_rows.migration_row(event.migration))
                    launchpads.migrated(event.migration.mint, event.migration.platform)
        slots, outcomes = [], []
        if self._stores_slots:
            slots, outcomes = [tape_rows.slot_row(batch)], tape_rows.outcome_rows(batch)
        for table, made in (
            (rows.SWAPS, swaps),
            (rows.CREATIONS, creations),
            (rows.MIGRATIONS, migrations),
            (rows.SLOTS, slots),
            (rows.OUTCOMES, outcomes),
        ):
            if made:
                self._rows.setdefault(table.name, []).extend(made)

    def take(self) -> Writes:
        """Return the rows made since the last time."""
        taken, self._rows = self._rows, {}
        return Writes(rows=taken)

    def written(self) -> None:
        """Nothing to forget."""


def attach(app: faust.App, context: Context) -> None:
    """Put the agent on an app: the lane by mint, and beside it the gaps."""
    read_launchpads = reader(context.clickhouse)

    async def open_books(partition: int) -> Books:
        return TapeBooks(partition, read_launchpads)

    attach_settled(app, context, GROUP, topics.SETTLED_BY_MINT, open_books)
    # acks=False: `progress` commits, not Faust.
    source = app.topic(topics.GAPS.name, key_serializer="raw", value_serializer="raw", acks=False)

    @app.agent(source, name=f"{GROUP}-gaps", concurrency=1)
    async def gaps(stream: Any) -> None:
        async for event in stream.events():
            done = context.progress.begin(event.message)
            try:
                await _store_gap(context, event.message, event.value, done)
            except Exception as error:
                context.stop(f"{GROUP}: {type(error).__name__}: {error}")
                await asyncio.get_running_loop().create_future()  # no next message, until the end


async def _store_gap(
    context: Context, source: Any, value: bytes | None, done: Callable[[], None]
) -> None:
    place = f"{source.topic}[{source.partition}]@{source.offset}"
    try:
        row = tape_rows.gap_row(SlotGap.FromString(value or b""))
    except (CodecError, DecodeError) as error:
        metrics.POISON.labels(source.topic).inc()
        log.warning("poison message put aside", place=place, reason=str(error))
        await context.kafka.send([undecoded(value, place, str(error))], done)
        return
    await context.clickhouse.insert(rows.GAPS.name, [row], place)
    done()
