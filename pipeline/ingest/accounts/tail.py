"""Where the lane of accounts ends: the log is its own checkpoint."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from infra.kafka.topics import newest_records
from infra.settings import Settings
from pipeline.ingest.finality import Counts, Unfinal
from pipeline.ingest.log_tail import LogUnreadable
from schemas.codec import CodecError, parse
from schemas.proto.tape_pb2 import AccountVersion, Covered, SlotBatch
from schemas.topics import SETTLED_ACCOUNTS

NEWEST: Final = 64  # slots that may not be final


@dataclass(slots=True)
class AccountTail:
    """What the lane has already.

    A process that was killed leaves partitions that end on different slots: ingest continues after
    the least of them.
    """

    settled: int | None = None  # all partitions have it and everything before
    block_time_ms: int = 0  # of that slot
    unfinal: tuple[Unfinal, ...] = ()  # the last slots up to that one, ascending
    last: dict[int, int] = field(default_factory=dict)  # of each partition
    some_empty: bool = True  # partitions without any slot
    versions: dict[int, list[AccountVersion]] = field(default_factory=dict)  # of the last slots
    incomplete: frozenset[int] = frozenset()  # of the last slots
    # Slots that may lack changes: all that were read here, where `settled` is not complete. What
    # came late, or was rolled back, is asked for after its slot was complete.
    unmended: tuple[int, ...] = ()
    is_all_unmended: bool = False  # of the slots read here none is complete: holes began before
    covered: list[Covered] = field(default_factory=list)  # of the last slots, ascending
    all_withdrawn: int = -1  # the last of these slots in which all was withdrawn
    broken: list[Covered] = field(default_factory=list)  # of slots that not all partitions have

    def has(self, partition: int, slot: int) -> bool:
        """Return whether a partition has a slot already."""
        return slot <= self.last.get(partition, -1)


async def read_account_tail(settings: Settings) -> AccountTail:
    """Read the ends of all partitions.

    Raises KafkaUnreachable, TopicsWrong, and LogUnreadable where a record is not ours.
    """
    try:
        records = await newest_records(settings, SETTLED_ACCOUNTS, NEWEST)
    except TimeoutError as error:
        raise LogUnreadable(str(error)) from None
    found: dict[int, list[SlotBatch]] = {}
    for partition, values in records.items():
        batches = []
        for record in values:
            try:
                batch = parse(SETTLED_ACCOUNTS, record.value)
            except CodecError as error:
                where = f"{SETTLED_ACCOUNTS.name}[{partition}] offset {record.offset}"
                raise LogUnreadable(f"{where}: {error}") from None
            assert isinstance(batch, SlotBatch)
            batches.append(batch)
        if batches:
            found[partition] = batches
    return tail_of(found)


def tail_of(found: dict[int, list[SlotBatch]]) -> AccountTail:
    """Return the tail from the last batches of each partition, ascending."""
    if not found:
        return AccountTail()
    last = {partition: batches[-1].slot for partition, batches in found.items()}
    least = min((batches[-1] for batches in found.values()), key=lambda batch: batch.slot)
    if len(found) < SETTLED_ACCOUNTS.partitions:
        # Killed while the first slot of a new tape was written, which no other slot overtakes.
        return AccountTail(settled=least.slot - 1, last=last)
    slots: dict[int, SlotBatch] = {}
    incomplete: set[int] = set()
    versions: defaultdict[int, list[AccountVersion]] = defaultdict(list)
    covered: list[tuple[int, Covered]] = []
    for batches in found.values():
        for batch in batches:
            slots[batch.slot] = batch
            if not batch.complete:
                incomplete.add(batch.slot)
            versions[batch.slot] += batch.accounts
            covered += [(batch.slot, each) for each in batch.covered]
    whole = [slot for slot in slots if slot <= least.slot and slot not in incomplete]
    settled = [slot for slot in sorted(slots) if slot <= least.slot]
    # Each is in all partitions; of a slot what is withdrawn comes before what is given.
    distinct = {(slot, each.HasField("slot"), each.SerializeToString()) for slot, each in covered}
    covered = [(slot, Covered.FromString(raw)) for slot, _, raw in sorted(distinct)]
    return AccountTail(
        settled=least.slot,
        block_time_ms=least.block_time_ms,
        unfinal=tuple(
            Unfinal(
                slot,
                batch.parent if batch.HasField("parent") else None,
                batch.block_time_ms,
                Counts(),
                frozenset(),
            )
            for slot, batch in sorted(slots.items())
            if slot <= least.slot
        ),
        last=last,
        some_empty=False,
        versions=dict(versions),
        incomplete=frozenset(incomplete),
        unmended=tuple(settled) if least.slot in incomplete else (),
        is_all_unmended=not whole,
        covered=[each for _, each in covered],
        all_withdrawn=max((at for at, each in covered if each.kind == Covered.ALL), default=-1),
        broken=[each for slot, each in covered if slot > least.slot],
    )
