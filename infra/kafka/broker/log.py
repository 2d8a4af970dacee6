"""The log of one partition: segments on disk, an index of the newest one's batches in memory.

Writes go to the page cache: they survive the broker's death, not the machine's. The oldest
segments are dropped by age and by size. The index of an older segment is made again when somebody
reads it, so memory does not grow with the log.
"""

from __future__ import annotations

import os
from array import array
from asyncio import Future
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from infra.kafka.broker.batch import NO_PRODUCER, Batch, CorruptBatch, read, split

SEGMENT_BYTES: Final = 4 << 20
_REMEMBERED: Final = 5  # batches a producer may have in flight, as librdkafka and Java do


class OutOfRange(Exception):
    """An offset that the log does not hold."""


class OutOfOrderSequence(Exception):
    """A producer's batch came without the one before it."""


class OldEpoch(Exception):
    """A producer's batch is of an older epoch than one that is here."""


class Index:
    """Where each batch of a segment begins, and how young the segment is there."""

    __slots__ = ("offsets", "positions", "timestamps")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.positions = array("q")  # bytes
        self.timestamps = array("q")  # ms, the latest up to and with this batch

    def add(self, offset: int, position: int, timestamp_ms: int) -> None:
        """Add the next batch."""
        self.offsets.append(offset)
        self.positions.append(position)
        self.timestamps.append(timestamp_ms)


class Segment:
    """A file of batches that follow each other."""

    def __init__(self, path: Path, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.max_timestamp_ms = 0
        self._index: Index | None = Index()  # None: not in memory
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, batch: Batch) -> None:
        """Write a batch at the next offset; raises OSError where the disk does not take it."""
        if os.write(self._fd, batch.at(self.next_offset)) != len(batch.data):
            os.truncate(self._fd, self.size)
            raise OSError(f"{self.path.name}: the disk took part of a batch")
        self._take(batch)

    def recover(self) -> Iterator[tuple[int, Batch]]:
        """Index what the file holds and yield it by offset; what a crash left half is cut off."""
        data = self.path.read_bytes()
        while self.size < len(data):
            try:
                batch = read(data, self.size)
            except CorruptBatch:
                os.truncate(self._fd, self.size)
                break
            offset = self.next_offset
            self._take(batch)
            yield offset, batch

    @property
    def index(self) -> Index:
        """The index, made again from the file where it is not in memory."""
        if self._index is None:
            self._index = Index()
            offset = self.base_offset
            position = youngest_ms = 0
            for batch in split(os.pread(self._fd, self.size, 0), check=False):
                youngest_ms = max(youngest_ms, batch.max_timestamp_ms)
                self._index.add(offset, position, youngest_ms)
                offset += batch.last_offset_delta + 1
                position += len(batch.data)
        return self._index

    def forget_index(self) -> None:
        """Drop the index from memory."""
        self._index = None

    def _take(self, batch: Batch) -> None:
        self.max_timestamp_ms = max(self.max_timestamp_ms, batch.max_timestamp_ms)
        self.index.add(self.next_offset, self.size, self.max_timestamp_ms)
        self.next_offset += batch.last_offset_delta + 1
        self.size += len(batch.data)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one that holds `offset`: one, or as many as fit."""
        index = self.index
        positions = index.positions
        first = bisect_right(index.offsets, offset) - 1
        start = positions[first]
        last = bisect_right(positions, start + max_bytes) - 1
        if last == len(positions) - 1 and self.size - start <= max_bytes:
            end = self.size
        else:
            last = max(last, first + 1)
            end = positions[last] if last < len(positions) else self.size
        return os.pread(self._fd, end - start, start)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def delete(self) -> None:
        """Close and remove the file."""
        self.close()
        self.path.unlink(missing_ok=True)


@dataclass(slots=True)
class _Producer:
    """What an idempotent producer last wrote here."""

    epoch: int
    next_sequence: int = 0
    last_offset: int = 0
    # (sequence, offset) of what it may send again
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class PartitionLog:
    """The batches of one partition, by offset."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._segments: list[Segment] = []
        self._producers: dict[int, _Producer] = {}
        self._waiters: list[Future[None]] = []
        self._read_last: Segment | None = None  # of those before the newest, the one with an index
        for path in sorted(folder.glob("*.log")):
            segment = Segment(path, int(path.stem))
            for offset, batch in segment.recover():
                self._remember(batch, offset)
            self._add(segment)
        if not self._segments:
            self._roll(0)
        self.start_offset = self._segments[0].base_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record will have."""
        return self._segments[-1].next_offset

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(segment.size for segment in self._segments)

    def append(self, batch: Batch) -> int:
        """Write a batch and return its base offset; a batch sent twice is written once.

        That holds across a restart too. Raises OldEpoch, OutOfOrderSequence, and OSError where the
        disk does not take the batch, which may be sent again then.
        """
        duplicate = self._duplicate(batch)
        if duplicate is not None:
            return duplicate
        if self._segments[-1].size >= SEGMENT_BYTES:
            self._roll(self.end_offset)
        offset = self.end_offset
        self._segments[-1].append(batch)
        self._remember(batch, offset)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        return offset

    def _duplicate(self, batch: Batch) -> int | None:
        """Return the offset of a batch that is here already.

        Raises OldEpoch and OutOfOrderSequence.
        """
        known = self._producers.get(batch.producer_id)
        if known is None:
            return None
        if batch.producer_epoch < known.epoch:
            raise OldEpoch(f"epoch {batch.producer_epoch} after {known.epoch}")
        if batch.producer_epoch > known.epoch:
            if batch.base_sequence:
                raise OutOfOrderSequence(f"sequence {batch.base_sequence} begins an epoch")
            return None
        for sequence, offset in known.recent:
            if sequence == batch.base_sequence:
                return offset
        if batch.base_sequence != known.next_sequence:
            raise OutOfOrderSequence(
                f"sequence {batch.base_sequence} where {known.next_sequence} comes next"
            )
        return None

    def _remember(self, batch: Batch, offset: int) -> None:
        """Note what an idempotent producer has written."""
        if batch.producer_id == NO_PRODUCER:
            return
        producer = self._producers.get(batch.producer_id)
        if producer is None or batch.producer_epoch > producer.epoch:
            producer = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        producer.next_sequence = (batch.base_sequence + batch.last_offset_delta + 1) & 0x7FFFFFFF
        producer.last_offset = offset
        producer.recent.append((batch.base_sequence, offset))

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one that holds `offset`; nothing at the end.

        Raises OutOfRange.
        """
        if offset == self.end_offset:
            return b""
        if not self.start_offset <= offset < self.end_offset:
            raise OutOfRange(f"{offset} of {self.start_offset} to {self.end_offset}")
        bases = [segment.base_offset for segment in self._segments]
        segment = self._segments[bisect_right(bases, offset) - 1]
        self._reading(segment)
        return segment.read(offset, max_bytes)

    def offset_at(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first batch that is as young as a time."""
        for segment in self._segments:
            if segment.size and segment.max_timestamp_ms >= timestamp_ms:
                self._reading(segment)
                index = segment.index
                at = bisect_left(index.timestamps, timestamp_ms)
                return max(index.offsets[at], self.start_offset), index.timestamps[at]
        return None

    def wait(self, waiter: Future[None]) -> None:
        """Set the result of a future when something is appended."""
        self._waiters = [each for each in self._waiters if not each.done()]
        self._waiters.append(waiter)

    def delete_before(self, offset: int) -> int:
        """Forget the records before an offset and return where the log begins now.

        Raises OutOfRange.
        """
        if offset > self.end_offset or offset < 0:
            raise OutOfRange(f"{offset} of {self.start_offset} to {self.end_offset}")
        self.start_offset = max(self.start_offset, offset)
        while len(self._segments) > 1 and self._segments[0].next_offset <= self.start_offset:
            self._segments.pop(0).delete()
        return self.start_offset

    def retain(self, oldest_ms: int, max_bytes: int) -> None:
        """Drop the oldest segments: those wholly older than a time, or beyond a size.

        The last one with records stays, however old, until there is a younger record: ingest reads
        from it where the tape ended. Without it ingest would take a tape that was off for longer
        than the retention for a new one, and record no gap for the slots between.
        """
        size = self.size
        active = self._segments[-1]
        if active.size and active.max_timestamp_ms < oldest_ms:
            self._roll(self.end_offset)
        while len(self._segments) > 1:
            oldest = self._segments[0]
            if oldest.max_timestamp_ms >= oldest_ms and size <= max_bytes:
                break
            if oldest.size and oldest.next_offset == self.end_offset:
                break  # those after it are empty
            size -= oldest.size
            self._segments.pop(0).delete()
        self.start_offset = max(self.start_offset, self._segments[0].base_offset)
        self._producers = {
            number: producer
            for number, producer in self._producers.items()
            if producer.last_offset >= self.start_offset
        }

    def close(self) -> None:
        """Close the files."""
        for segment in self._segments:
            segment.close()

    def delete(self) -> None:
        """Remove the log from disk."""
        for segment in self._segments:
            segment.delete()
        self._folder.rmdir()

    def _roll(self, base_offset: int) -> None:
        self._add(Segment(self._folder / f"{base_offset:020}.log", base_offset))

    def _add(self, newest: Segment) -> None:
        """Add a segment; the index of the one before it stays until another one is read."""
        self._segments.append(newest)
        if len(self._segments) > 1:
            self._reading(self._segments[-2])

    def _reading(self, segment: Segment) -> None:
        """Let the index of a segment take the place of that of the older one read last."""
        if segment is self._segments[-1]:
            return
        if self._read_last is not None and self._read_last is not segment:
            self._read_last.forget_index()
        self._read_last = segment
