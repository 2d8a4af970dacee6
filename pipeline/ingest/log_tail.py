"""Where the settled lanes end: the log is its own checkpoint."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Final

from infra.kafka.topics import last_records
from infra.settings import Settings
from pipeline.domain.quote_book import Entry
from schemas.codec import CodecError, parse
from schemas.proto import tape_pb2
from schemas.topics import SETTLED_BY_MINT, SETTLED_BY_WALLET

LANES: Final = (SETTLED_BY_MINT, SETTLED_BY_WALLET)

Partition = tuple[str, int]  # topic name, number


class LogUnreadable(Exception):
    """A settled lane ends on something from which ingest can not continue; the text says what."""


@dataclass(slots=True)
class LogTail:
    """What the settled lanes already have.

    A process that was killed leaves partitions that end on different slots: ingest continues
    after the least of them, and `last` tells which partitions have a slot already.
    """

    settled: int | None = None  # all partitions have it and everything before
    block_time_ms: int = 0  # of that slot
    sol_usd: Decimal | None = None  # of that slot
    quotes: tuple[Entry, ...] = ()  # the book of quotes after that slot
    last: dict[Partition, int] = field(default_factory=dict)
    some_empty: bool = True  # partitions without any slot: a new tape, or one just begun

    def has(self, partition: Partition, slot: int) -> bool:
        """Say whether a partition already has a slot."""
        last = self.last.get(partition)
        return last is not None and slot <= last


async def read_log_tail(settings: Settings) -> LogTail:
    """Read the ends of all partitions of the settled lanes.

    Raises KafkaUnreachable, TopicsWrong, and LogUnreadable where a record is not ours.
    """
    batches: dict[Partition, tape_pb2.SlotBatch] = {}
    try:
        ends = await asyncio.gather(*(last_records(settings, topic) for topic in LANES))
    except TimeoutError as error:
        raise LogUnreadable(str(error)) from None
    for topic, records in zip(LANES, ends, strict=True):
        for number, record in records.items():
            try:
                batch = parse(topic, record.value)
            except CodecError as error:
                where = f"{topic.name}[{number}] offset {record.offset}"
                raise LogUnreadable(f"{where}: {error}") from None
            assert isinstance(batch, tape_pb2.SlotBatch)
            batches[topic.name, number] = batch
    if not batches:
        return LogTail()
    last = {partition: batch.slot for partition, batch in batches.items()}
    least = min(batches.values(), key=lambda batch: batch.slot)
    if len(batches) < sum(topic.partitions for topic in LANES):
        # Killed while the first slot of a new tape was written, which no other slot overtakes.
        return LogTail(settled=least.slot - 1, last=last)
    return LogTail(
        settled=least.slot,
        block_time_ms=least.block_time_ms,
        sol_usd=_price(least),
        quotes=tuple((each.mint, each.lamports, each.amount_raw) for each in least.quotes),
        last=last,
        some_empty=False,
    )


def _price(batch: tape_pb2.SlotBatch) -> Decimal | None:
    if not batch.sol_usd:
        return None
    try:
        price = Decimal(batch.sol_usd)
    except InvalidOperation:
        price = Decimal("NaN")
    if not price.is_finite():
        raise LogUnreadable(f"slot {batch.slot}: sol_usd {batch.sol_usd!r} is no price")
    return price
