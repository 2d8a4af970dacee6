"""The log of a partition: offsets, recovery, retention, and producers that send twice."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from infra.kafka.broker import log as module
from infra.kafka.broker.batch import HEADER_SIZE, CorruptBatch, read, split
from infra.kafka.broker.log import OldEpoch, OutOfOrderSequence, OutOfRange, PartitionLog


def batch(
    records: int = 1,
    *,
    body: bytes = b"x",
    timestamp_ms: int = 0,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = -1,
) -> bytes:
    """A v2 record batch; the broker never looks into the body."""
    after_crc = b"".join(
        (
            (0).to_bytes(2, "big"),
            (records - 1).to_bytes(4, "big"),
            timestamp_ms.to_bytes(8, "big"),
            timestamp_ms.to_bytes(8, "big"),
            producer.to_bytes(8, "big", signed=True),
            epoch.to_bytes(2, "big", signed=True),
            sequence.to_bytes(4, "big", signed=True),
            records.to_bytes(4, "big"),
            body,
        )
    )
    after_length = (0).to_bytes(4, "big") + b"\x02" + crc32c(after_crc).to_bytes(4, "big")
    length = len(after_length) + len(after_crc)
    return (0).to_bytes(8, "big") + length.to_bytes(4, "big") + after_length + after_crc


def append(log: PartitionLog, data: bytes) -> int:
    (one,) = split(data)
    return log.append(one)


def offsets(data: bytes) -> list[int]:
    return [int.from_bytes(each.data[:8], "big") for each in split(data)]


def test_offsets_count_records(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "0")
    assert [append(log, batch(records)) for records in (1, 3, 2)] == [0, 1, 4]
    assert log.end_offset == 6
    assert offsets(log.read(0, 1 << 20)) == [0, 1, 4]
    assert offsets(log.read(2, 1 << 20)) == [1, 4], "an offset inside a batch gives the batch"
    assert log.read(6, 1 << 20) == b""
    for bad in (-1, 7):
        with pytest.raises(OutOfRange):
            log.read(bad, 1)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(0, 400))
def test_a_read_returns_whole_batches_within_its_limit(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], limit: int
) -> None:
    log = PartitionLog(tmp_path_factory.mktemp("log") / "0")
    written = [batch(body=b"x" * size) for size in sizes]
    for data in written:
        append(log, data)
    at = 0
    seen: list[int] = []
    while at < log.end_offset:
        got = log.read(at, limit)
        found = offsets(got)
        assert found
        assert len(found) == 1 or len(got) <= limit
        seen += found
        at = found[-1] + 1
    assert seen == list(range(len(sizes)))
    log.close()


def test_a_restart_keeps_what_was_written_and_cuts_what_was_not(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "0")
    append(log, batch(2))
    append(log, batch(1, body=b"second"))
    log.close()
    (segment,) = (tmp_path / "0").glob("*.log")
    whole = segment.read_bytes()
    for cut in (1, 20, len(batch(1, body=b"second"))):
        segment.write_bytes(whole[: len(whole) - cut])
        recovered = PartitionLog(tmp_path / "0")
        assert recovered.end_offset == 2
        assert append(recovered, batch(1, body=b"third")) == 2
        assert offsets(recovered.read(0, 1 << 20)) == [0, 2]
        recovered.close()
    segment.write_bytes(whole)
    assert PartitionLog(tmp_path / "0").end_offset == 3


def test_retention_by_size_and_by_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 300)
    log = PartitionLog(tmp_path / "0")
    for n in range(40):
        append(log, batch(body=b"y" * 100, timestamp_ms=1000 + n))
    log.retain(oldest_ms=0, max_bytes=1000)
    assert log.size <= 1000
    assert log.start_offset > 0
    with pytest.raises(OutOfRange):
        log.read(0, 100)
    assert offsets(log.read(log.start_offset, 1))[0] == log.start_offset
    for _ in range(2):
        log.retain(oldest_ms=10_000, max_bytes=1 << 30)
        assert offsets(log.read(log.start_offset, 1 << 20))[-1] == 39, "where the log ended"
        assert log.size <= 600
    assert append(log, batch(timestamp_ms=10_000)) == 40
    log.retain(oldest_ms=10_000, max_bytes=1 << 30)
    assert log.start_offset == 40, "all before it was too old"
    log.close()
    assert PartitionLog(tmp_path / "0").end_offset == 41


@pytest.mark.parametrize(("oldest_ms", "max_bytes"), [(10_000, 1 << 30), (0, 0), (10_000, 0)])
def test_retention_leaves_the_last_record(tmp_path: Path, oldest_ms: int, max_bytes: int) -> None:
    log = PartitionLog(tmp_path / "0")
    log.retain(oldest_ms, max_bytes)
    assert log.start_offset == log.end_offset == 0, "nothing was written yet"
    append(log, batch(2, timestamp_ms=1_000, producer=7, sequence=0))
    for _ in range(2):  # as written, and as recovered
        log.retain(oldest_ms, max_bytes)
        log.retain(oldest_ms, max_bytes)
        assert (log.start_offset, log.end_offset) == (0, 2)
        assert offsets(log.read(0, 1 << 20)) == [0]
        assert log.offset_at(500) == (0, 1_000)
        log.close()
        log = PartitionLog(tmp_path / "0")
    assert append(log, batch(1, timestamp_ms=10_000, producer=7, sequence=2)) == 2
    log.retain(oldest_ms, max_bytes)
    assert offsets(log.read(2, 1 << 20)) == [2]
    assert log.start_offset == (2 if oldest_ms else 0)
    assert log.delete_before(3) == 3, "who asks for it has all deleted"


def indexes(log: PartitionLog) -> int:
    """How many batches have an entry in memory."""
    # private `_segments`, `_index`: the bound on memory; answers are the same without it.
    return sum(len(segment._index.offsets) for segment in log._segments if segment._index)


def test_indexes_do_not_grow_with_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 1_000)
    log = PartitionLog(tmp_path / "0")
    a_segment = 1_000 // len(batch(2)) + 1
    for n in range(20 * a_segment):
        append(log, batch(2, timestamp_ms=1_000 + n))
        assert indexes(log) <= 2 * a_segment
    for _ in range(2):  # as written, and as recovered
        assert indexes(log) <= 2 * a_segment
        for n in (0, 19 * a_segment, 7 * a_segment + 3, 7 * a_segment - 1, a_segment, 0):
            assert offsets(log.read(2 * n + 1, 1)) == [2 * n]
            assert offsets(log.read(2 * n, 1 << 20))[0] == 2 * n
            assert log.offset_at(1_000 + n) == (2 * n, 1_000 + n)
            assert indexes(log) <= 2 * a_segment
        log.close()
        log = PartitionLog(tmp_path / "0")
    log.retain(oldest_ms=0, max_bytes=3_000)
    assert offsets(log.read(log.start_offset, 1)) == [log.start_offset]
    assert append(log, batch(2, timestamp_ms=10_000)) == 40 * a_segment
    assert offsets(log.read(40 * a_segment, 1)) == [40 * a_segment]


def test_delete_records(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "0")
    for _ in range(5):
        append(log, batch())
    assert log.delete_before(3) == 3
    with pytest.raises(OutOfRange):
        log.read(2, 1)
    assert offsets(log.read(3, 1 << 20)) == [3, 4]
    with pytest.raises(OutOfRange):
        log.delete_before(6)


def test_a_batch_sent_twice_is_written_once(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "0")
    first = batch(3, producer=7, sequence=0)
    assert append(log, first) == 0
    assert append(log, batch(2, producer=7, sequence=3)) == 3
    assert append(log, first) == 0, "the answer of the first time"
    assert log.end_offset == 5
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(1, producer=7, sequence=9))
    assert append(log, batch(1, producer=7, epoch=1, sequence=0)) == 5, "a new epoch begins anew"
    assert append(log, batch(1, producer=8, sequence=0)) == 6


def test_a_restart_remembers_what_a_producer_has_written(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "0")
    append(log, batch(2, producer=7, sequence=0))
    unanswered = batch(3, producer=7, sequence=2)
    append(log, unanswered)
    log.close()
    again = PartitionLog(tmp_path / "0")
    assert append(again, unanswered) == 2, "sent again, as its answer was lost"
    with pytest.raises(OutOfOrderSequence):
        append(again, batch(1, producer=7, sequence=9))
    assert append(again, batch(1, producer=7, sequence=5)) == 5
    assert again.end_offset == 6


def test_a_batch_that_the_disk_did_not_take_can_be_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = PartitionLog(tmp_path / "0")
    append(log, batch(1, producer=7, sequence=0))
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:20]))
    with pytest.raises(OSError, match="the disk took part"):
        append(log, batch(1, producer=7, sequence=1))
    monkeypatch.undo()
    assert append(log, batch(1, producer=7, sequence=1)) == 1
    assert offsets(log.read(0, 1 << 20)) == [0, 1]


def test_a_producer_is_forgotten_with_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 300)
    log = PartitionLog(tmp_path / "0")
    for producer in range(50):
        append(log, batch(body=b"y" * 100, producer=producer, sequence=0))
    log.retain(oldest_ms=0, max_bytes=1000)
    # private `_producers`: the bound on memory; answers are the same without it.
    assert 0 < len(log._producers) < 12
    assert append(log, batch(producer=49, sequence=1)) == 50


def test_a_time_finds_its_batch(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "0")
    for timestamp_ms in (10, 30, 20, 40):
        append(log, batch(timestamp_ms=timestamp_ms))
    assert log.offset_at(5) == (0, 10)
    assert log.offset_at(11) == (1, 30)
    assert log.offset_at(31) == (3, 40)
    assert log.offset_at(41) is None


async def test_an_append_wakes_those_who_wait(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "0")
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    log.wait(waiter)
    append(log, batch())
    await asyncio.wait_for(waiter, 120)
    assert waiter.done()


@given(st.integers(0, 200), st.integers(1, 255))
def test_damage_is_seen(at: int, flip: int) -> None:
    data = bytearray(batch(body=b"z" * 100))
    at %= len(data)
    data[at] ^= flip
    if at < 8 or 12 <= at < 16:  # offset and leader epoch are the broker's to write
        assert read(bytes(data), 0)
    else:
        with pytest.raises(CorruptBatch):
            read(bytes(data), 0)


def test_a_header_alone_is_no_batch() -> None:
    with pytest.raises(CorruptBatch, match="a header has"):
        read(b"\0" * (HEADER_SIZE - 1), 0)


def test_an_older_epoch_is_refused_after_a_restart_too(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "0")
    append(log, batch(producer=1, epoch=3, sequence=0))
    append(log, batch(producer=1, epoch=5, sequence=0))
    log.close()
    again = PartitionLog(tmp_path / "0")
    with pytest.raises(OldEpoch):
        append(again, batch(producer=1, epoch=3, sequence=1))
    with pytest.raises(OutOfOrderSequence):
        append(again, batch(producer=1, epoch=6, sequence=1))
    assert append(again, batch(producer=1, epoch=5, sequence=1)) == 2
    assert append(again, batch(producer=1, epoch=6, sequence=0)) == 3
