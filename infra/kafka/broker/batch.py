"""Record batches as producers send them: kept whole, only their offset is written.

Layout of a v2 batch (Kafka's message format): base offset i64, length i32 (of what follows),
leader epoch i32, magic i8, CRC-32C u32 (of what follows), attributes i16, last offset delta
i32, base and max timestamp i64, producer id i64, producer epoch i16, base sequence i32,
record count i32, records. The offset is outside the CRC, so assigning it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from crc32c import crc32c

_HEADER: Final = Struct(">qiibIhiqqqhii")
_OFFSET: Final = Struct(">q")
_LENGTH_END: Final = 12  # offset and length come before what `length` counts
_CRC_END: Final = 21
HEADER_SIZE: Final = _HEADER.size
MAGIC: Final = 2
NO_PRODUCER: Final = -1
_TRANSACTIONAL: Final = 0x10  # of the attributes


class CorruptBatch(Exception):
    """Bytes that are no v2 record batch; the text says what is wrong with them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch; `data` is all of it, with whatever offset it came with."""

    data: bytes
    last_offset_delta: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool = False

    def at(self, offset: int) -> bytes:
        """Return the batch's bytes with its base offset written."""
        return _OFFSET.pack(offset) + self.data[8:]


def split(records: bytes, *, check: bool = True) -> Iterator[Batch]:
    """Yield the batches of a produce request or a segment.

    Raises CorruptBatch.
    """
    at = 0
    while at < len(records):
        batch = read(records, at, check=check)
        yield batch
        at += len(batch.data)


def read(records: bytes, at: int, *, check: bool = True) -> Batch:
    """Read the batch that begins at a place.

    Raises CorruptBatch.
    """
    if len(records) - at < HEADER_SIZE:
        raise CorruptBatch(f"{len(records) - at} bytes, a header has {HEADER_SIZE}")
    (
        _, length, _, magic, crc, attributes, last_delta,
        _, max_timestamp, producer, epoch, sequence, _,
    ) = _HEADER.unpack_from(records, at)  # fmt: skip
    end = at + _LENGTH_END + length
    if magic != MAGIC:
        raise CorruptBatch(f"magic {magic}, only {MAGIC} is read")
    if length < HEADER_SIZE - _LENGTH_END or end > len(records):
        raise CorruptBatch(f"length {length} at {at} of {len(records)} bytes")
    if last_delta < 0:
        raise CorruptBatch(f"last offset delta {last_delta}")
    if check and crc32c(memoryview(records)[at + _CRC_END : end]) != crc:
        raise CorruptBatch("CRC does not match")
    return Batch(
        records[at:end],
        last_delta,
        max_timestamp,
        producer,
        epoch,
        sequence,
        bool(attributes & _TRANSACTIONAL),
    )
