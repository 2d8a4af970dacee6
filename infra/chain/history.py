"""Blocks the local chain still has, and how far the cluster has agreed on them. Pure state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from infra.chain.source import (
    AccountWrite,
    BlockHeader,
    ChainTransaction,
    Reward,
    SlotCompleted,
    SlotConfirmed,
    SlotDead,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
)
from infra.chain.updates import WRITE_BYTES, Written
from schemas.proto.geyser_pb2 import CONFIRMED, FINALIZED, PROCESSED, CommitmentLevel

_SETTLING_SLOTS: Final = 128  # a slot is final long before so many follow it


class BrokenSource(Exception):
    """A source reported something impossible; the text says what."""


@dataclass(slots=True)
class SlotRecord:
    """One slot's life so far; a block once it has a header."""

    slot: int
    parent_slot: int
    transactions: list[ChainTransaction] = field(default_factory=list)
    header: BlockHeader | None = None
    rewards: tuple[Reward, ...] = ()
    has_entries: bool = False
    commitment: CommitmentLevel | None = None  # None until completed
    dead: bool = False
    pruned: bool = False  # its transactions were dropped to stay within the memory limit
    size_bytes: int = 0
    # The last write of each account, in the order of the first ones; None once it is too old.
    written: dict[bytes, Written] | None = field(default_factory=dict)
    written_bytes: int = 0


class History:
    """A bounded number of slots, oldest dropped first, and the tips of the chain.

    What was written in a slot is kept for fewer: those behind which no stream can begin.

    Beyond `max_bytes` the oldest blocks lose their transactions and can no longer be fetched,
    but are still known, so that votes for them count.
    """

    def __init__(self, max_slots: int, max_bytes: int, written_slots: int = 150) -> None:
        self._max_slots = max_slots
        self._written_slots = written_slots + _SETTLING_SLOTS
        self._max_bytes = max_bytes
        self._records: dict[int, SlotRecord] = {}
        self._places: dict[bytes, tuple[int, ChainTransaction]] = {}
        self._tips: dict[CommitmentLevel, SlotRecord] = {}
        self.size_bytes = 0

    def apply(self, event: SlotEvent) -> SlotRecord:
        """Take in one event and return the slot's record; raises BrokenSource."""
        match event:
            case SlotStarted():
                return self._start(event)
            case SlotTransactions():
                return self._extend(event)
            case SlotCompleted():
                record = self._complete(event)
                self._write(record, ((write, None) for write in event.writes))
                return record
            case SlotConfirmed():
                return self._promote(event.slot, CONFIRMED)
            case SlotFinalized():
                return self._promote(event.slot, FINALIZED)
            case SlotDead():
                record = self._record(event.slot)
                record.dead = True
                return record

    def record(self, slot: int) -> SlotRecord | None:
        """Return what is known of a slot."""
        return self._records.get(slot)

    def tip(self, commitment: CommitmentLevel) -> SlotRecord | None:
        """Return the newest block of the commitment, or None before there is one."""
        return self._tips.get(commitment)

    def block(self, slot: int, commitment: CommitmentLevel) -> SlotRecord | None:
        """Return the slot's block if it has reached the commitment."""
        record = self._records.get(slot)
        if record is None or record.commitment is None or record.commitment < commitment:
            return None
        if record.pruned:
            return None
        return record

    def blocks(self, first: int, last: int, commitment: CommitmentLevel) -> Iterator[SlotRecord]:
        """Yield the blocks of the commitment between two slots, both included, ascending."""
        for slot in sorted(slot for slot in self._records if first <= slot <= last):
            if record := self.block(slot, commitment):
                yield record

    def newest_blocks(self, commitment: CommitmentLevel, last: int) -> Iterator[SlotRecord]:
        """Yield the blocks of the commitment up to a slot, descending."""
        for slot in reversed(self._records):
            if slot <= last and (record := self.block(slot, commitment)):
                yield record

    def first_block(self) -> int:
        """Return the oldest rooted or confirmed block that is kept, or 0 before there is one."""
        return next((record.slot for record in self.blocks(0, 2**64, CONFIRMED)), 0)

    def transaction(
        self, signature: bytes, commitment: CommitmentLevel
    ) -> tuple[SlotRecord, ChainTransaction] | None:
        """Find a transaction in a block of the commitment."""
        place = self._places.get(signature)
        if place is None:
            return None
        record = self.block(place[0], commitment)
        return None if record is None else (record, place[1])

    def _record(self, slot: int) -> SlotRecord:
        record = self._records.get(slot)
        if record is None:
            raise BrokenSource(f"slot {slot} was never started, or is long gone")
        return record

    def _start(self, event: SlotStarted) -> SlotRecord:
        if event.slot in self._records:
            raise BrokenSource(f"slot {event.slot} was started twice")
        if event.slot <= event.parent_slot:
            raise BrokenSource(f"slot {event.slot} is not after its parent {event.parent_slot}")
        record = self._records[event.slot] = SlotRecord(event.slot, event.parent_slot)
        self._drop_oldest()
        return record

    def _extend(self, event: SlotTransactions) -> SlotRecord:
        record = self._record(event.slot)
        if record.commitment is not None:
            raise BrokenSource(f"slot {event.slot} got transactions after it was completed")
        for transaction in event.transactions:
            if transaction.writes:
                signature = transaction.signature
                self._write(record, ((write, signature) for write in transaction.writes))
                transaction = transaction.without_writes()
            record.transactions.append(transaction)
            record.size_bytes += len(transaction.info)
            self.size_bytes += len(transaction.info)
        return record

    def _write(
        self, record: SlotRecord, writes: Iterable[tuple[AccountWrite, bytes | None]]
    ) -> None:
        written = record.written
        if written is None:
            return
        size = 0
        for write, signature in writes:
            before = written.get(write.address)
            if before is not None:
                size -= len(before.write.data) + WRITE_BYTES
            written[write.address] = Written(write, signature)
            size += len(write.data) + WRITE_BYTES
        record.written_bytes += size
        self.size_bytes += size

    def _forget_written(self, record: SlotRecord) -> None:
        self.size_bytes -= record.written_bytes
        record.written = None
        record.written_bytes = 0

    def _complete(self, event: SlotCompleted) -> SlotRecord:
        header = event.header
        record = self._record(header.slot)
        if record.commitment is not None:
            raise BrokenSource(f"slot {header.slot} was completed twice")
        record.header = header
        record.rewards = event.rewards
        record.has_entries = event.has_entries
        record.commitment = PROCESSED
        self._advance(PROCESSED, record)
        return record

    def _promote(self, slot: int, commitment: CommitmentLevel) -> SlotRecord:
        record = self._record(slot)
        if record.commitment is None:
            raise BrokenSource(f"slot {slot} was voted for before it was completed")
        if record.commitment < CONFIRMED:
            # Only now: the same transaction may be on two forks.
            for transaction in record.transactions:
                self._places[transaction.signature] = (slot, transaction)
        record.commitment = max(record.commitment, commitment)
        self._advance(CONFIRMED, record)
        if commitment == FINALIZED:
            self._advance(FINALIZED, record)
            self._roll_back(record)
        return record

    def _roll_back(self, final: SlotRecord) -> None:
        """Take back what was confirmed on a fork that a final slot is not on."""
        for slot in range(final.parent_slot + 1, final.slot):
            record = self._records.get(slot)
            if record is not None and record.commitment == CONFIRMED:
                record.commitment = PROCESSED
                for transaction in record.transactions:
                    if self._places.get(transaction.signature, (None,))[0] == slot:
                        del self._places[transaction.signature]

    def _advance(self, commitment: CommitmentLevel, record: SlotRecord) -> None:
        tip = self._tips.get(commitment)
        if tip is None or tip.slot < record.slot:
            self._tips[commitment] = record

    def _drop_oldest(self) -> None:
        while len(self._records) > self._max_slots:
            self._prune(self._records.pop(next(iter(self._records))))
        old = len(self._records) - self._written_slots
        for record in islice(self._records.values(), max(old, 0)):
            if record.written is not None:
                self._forget_written(record)
        for record in self._records.values():
            if self.size_bytes <= self._max_bytes:
                break
            if record.commitment is not None or record.dead:  # never one that still fills
                self._prune(record)

    def _prune(self, record: SlotRecord) -> None:
        for transaction in record.transactions:
            place = self._places.get(transaction.signature)
            if place is not None and place[0] == record.slot:
                del self._places[transaction.signature]
        self._forget_written(record)
        self.size_bytes -= record.size_bytes
        record.transactions = []
        record.rewards = ()
        record.size_bytes = 0
        record.pruned = True
