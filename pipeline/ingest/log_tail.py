"""Where the settled lanes end: the log is its own checkpoint."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Final

import structlog
from aiokafka import ConsumerRecord
from google.protobuf.message import Message

from infra.kafka.topics import last_records, newest_records
from infra.settings import Settings
from pipeline.domain.quote_book import Entry
from pipeline.ingest.finality import Counts, Gap, Unfinal
from schemas.codec import CodecError, parse
from schemas.proto import tape_pb2
from schemas.topics import GAPS, SETTLED_BY_MINT, SETTLED_BY_WALLET, Topic

log = structlog.get_logger(__name__)

LANES: Final = (SETTLED_BY_MINT, SETTLED_BY_WALLET)
UNFINAL_SLOTS: Final = 64  # a slot is final 32 blocks later

Partition = tuple[str, int]  # topic name, number


class LogUnreadable(Exception):
    """A settled lane ends on something from which ingest can not continue; the text says what."""


@dataclass(slots=True)
class LogTail:
    """What the settled lanes already have.

    A process that was killed leaves partitions that end on different slots: ingest continues
    after the least of them, and `last` says which partitions have a slot already.
    """

    settled: int | None = None  # all partitions have it and everything before
    block_time_ms: int = 0  # of that slot
    sol_usd: Decimal | None = None  # of that slot
    quotes: tuple[Entry, ...] = ()  # the book of quotes after that slot
    unfinal: tuple[Unfinal, ...] = ()  # the last slots up to that one, ascending
    gaps: tuple[Gap, ...] = ()  # the last ones
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
            batch = _parsed(topic, number, record)
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
        unfinal=await _unfinal(settings, least.slot),
        gaps=await _gaps(settings),
        last=last,
        some_empty=False,
    )


async def _unfinal(settings: Settings, settled: int) -> tuple[Unfinal, ...]:
    """Return what the lane by wallet says of the last slots, of which some may not be final.

    Only of slots that were read from all partitions: each has some of a slot's wallets.
    """
    slots: dict[int, tape_pb2.SlotBatch] = {}
    wallets: defaultdict[int, set[str]] = defaultdict(set)
    events: Counter[int] = Counter()
    found = await _newest(settings, SETTLED_BY_WALLET)
    firsts = []
    for number, records in found.items():
        of_partition = []
        for record in records:
            try:
                batch = _parsed(SETTLED_BY_WALLET, number, record)
            except LogUnreadable as error:  # what reads the lane puts it aside
                log.warning("a slot is left out of those that may be rolled back", why=str(error))
                continue
            assert isinstance(batch, tape_pb2.SlotBatch)
            of_partition.append(batch.slot)
            slots[batch.slot] = batch
            of_slot = wallets[batch.slot]
            of_slot.update(each.owner for each in batch.balances)
            of_slot.update(event.swap.wallet for event in batch.events if event.HasField("swap"))
            for perps in (batch.funding_payments, batch.perp_changes, batch.perp_gaps):
                of_slot.update(perp.wallet for perp in perps)
            events[batch.slot] += len(batch.events)
        firsts.append(min(of_partition, default=0))
    first = max(firsts)
    return tuple(
        Unfinal(
            slot,
            batch.parent if batch.HasField("parent") else None,
            batch.block_time_ms,
            Counts(
                batch.transactions,
                events[slot],
                batch.outcomes.decoded,
                batch.outcomes.unknown,
                batch.outcomes.malformed,
            ),
            frozenset(wallets[slot] - {""}),
        )
        for slot, batch in sorted(slots.items())
        if first <= slot <= settled
    )


async def _gaps(settings: Settings) -> tuple[Gap, ...]:
    found = []
    for number, records in (await _newest(settings, GAPS)).items():
        for record in records:
            try:
                gap = _parsed(GAPS, number, record)
            except LogUnreadable as error:
                log.warning("a gap is left out of the known ones", why=str(error))
                continue
            assert isinstance(gap, tape_pb2.SlotGap)
            if not gap.lost_by:  # one that an agent group alone has says nothing of the tape
                found.append(Gap(gap.first_slot, gap.last_slot, gap.reason))
    return tuple(found)


async def _newest(settings: Settings, topic: Topic) -> dict[int, list[ConsumerRecord]]:
    try:
        return await newest_records(settings, topic, UNFINAL_SLOTS)
    except TimeoutError as error:
        raise LogUnreadable(str(error)) from None


def _parsed(topic: Topic, number: int, record: ConsumerRecord) -> Message:
    try:
        return parse(topic, record.value)
    except CodecError as error:
        where = f"{topic.name}[{number}] offset {record.offset}"
        raise LogUnreadable(f"{where}: {error}") from None


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
