"""The two requests that carry records, by hand: what the broker does all day.

Everything else goes through `kio`'s data types; these copy no record and build no object
a record. Versions: Produce 3 to 8, Fetch 4 to 11 (Kafka protocol guide).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct, error, pack
from typing import Final

_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")


class BadFrame(Exception):
    """A request that does not follow the protocol; the text says where."""


class Cursor:
    """Reads a request from its beginning."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def _number(self, layout: Struct) -> int:
        try:
            value: int = layout.unpack_from(self.data, self.at)[0]
        except error as reason:
            raise BadFrame(f"at byte {self.at}: {reason}") from None
        self.at += layout.size
        return value

    def i8(self) -> int:
        """Read a signed byte."""
        return self.take(1)[0]

    def i16(self) -> int:
        """Read a signed 16-bit integer."""
        return self._number(_I16)

    def i32(self) -> int:
        """Read a signed 32-bit integer."""
        return self._number(_I32)

    def i64(self) -> int:
        """Read a signed 64-bit integer."""
        return self._number(_I64)

    def take(self, size: int) -> bytes:
        """Read bytes."""
        if size < 0 or self.at + size > len(self.data):
            raise BadFrame(f"at byte {self.at}: {size} bytes of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str:
        """Read a string; null is empty."""
        size = self.i16()
        return "" if size < 0 else self.take(size).decode("utf-8", "replace")

    def records(self) -> bytes:
        """Read a length-prefixed run of bytes; null is empty."""
        size = self.i32()
        return b"" if size < 0 else self.take(size)


@dataclass(frozen=True, slots=True)
class ProduceData:
    """Records for one partition."""

    topic: str
    partition: int
    records: bytes


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """Records for some partitions; `acks` 0 wants no answer."""

    acks: int
    data: Sequence[ProduceData]


@dataclass(frozen=True, slots=True)
class Produced:
    """What became of the records for one partition."""

    topic: str
    partition: int
    error: int
    base_offset: int = -1
    start_offset: int = -1


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """Where a consumer wants to go on reading."""

    topic: str
    partition: int
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """What a consumer wants to read, and how long it will wait for how much."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: Sequence[FetchPartition]


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one partition has to read."""

    topic: str
    partition: int
    error: int
    end_offset: int = -1
    start_offset: int = -1
    records: bytes = b""


def read_produce(data: bytes, at: int, version: int) -> ProduceRequest:
    """Read a Produce request; raises BadFrame."""
    cursor = Cursor(data, at)
    cursor.text()  # transactional id
    acks = cursor.i16()
    cursor.i32()  # timeout: a write is done or refused at once
    found = []
    for _ in range(cursor.i32()):
        topic = cursor.text()
        for _ in range(cursor.i32()):
            partition = cursor.i32()
            found.append(ProduceData(topic, partition, cursor.records()))
    return ProduceRequest(acks, found)


def write_produce(answers: Iterable[Produced], version: int) -> bytes:
    """Write a Produce response."""
    parts = []
    answers = list(answers)
    parts.append(_I32.pack(len(answers)))
    for answer in answers:
        name = answer.topic.encode()
        parts.append(pack(f">h{len(name)}sii", len(name), name, 1, answer.partition))
        parts.append(pack(">hqq", answer.error, answer.base_offset, -1))
        if version >= 5:
            parts.append(_I64.pack(answer.start_offset))
        if version >= 8:
            parts.append(pack(">ih", 0, -1))  # record errors, error message
    parts.append(_I32.pack(0))  # throttle time
    return b"".join(parts)


def read_fetch(data: bytes, at: int, version: int) -> FetchRequest:
    """Read a Fetch request; raises BadFrame."""
    cursor = Cursor(data, at)
    cursor.i32()  # replica id
    max_wait_ms, min_bytes, max_bytes = cursor.i32(), cursor.i32(), cursor.i32()
    cursor.i8()  # isolation level: nothing is transactional
    if version >= 7:
        cursor.take(8)  # session id and epoch: every fetch is a full one
    found = []
    for _ in range(cursor.i32()):
        topic = cursor.text()
        for _ in range(cursor.i32()):
            partition = cursor.i32()
            if version >= 9:
                cursor.i32()  # leader epoch
            offset = cursor.i64()
            if version >= 5:
                cursor.i64()  # log start offset of a follower
            found.append(FetchPartition(topic, partition, offset, cursor.i32()))
    return FetchRequest(max_wait_ms, min_bytes, max_bytes, found)


def write_fetch(answers: Iterable[Fetched], version: int) -> bytes:
    """Write a Fetch response."""
    answers = list(answers)
    parts = [_I32.pack(0)]  # throttle time
    if version >= 7:
        parts.append(pack(">hi", 0, 0))  # no error, no session
    parts.append(_I32.pack(len(answers)))
    for answer in answers:
        name = answer.topic.encode()
        parts.append(pack(f">h{len(name)}sii", len(name), name, 1, answer.partition))
        parts.append(pack(">hqq", answer.error, answer.end_offset, answer.end_offset))
        if version >= 5:
            parts.append(_I64.pack(answer.start_offset))
        parts.append(_I32.pack(-1))  # aborted transactions
        if version >= 11:
            parts.append(_I32.pack(-1))  # preferred read replica
        parts.append(_I32.pack(len(answer.records)))
        parts.append(answer.records)
    return b"".join(parts)
