"""Recordings that a stranger wrote: what would fill the memory or stop the lane is refused."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import zstandard

from pipeline.ingest.accounts.recorded import (
    MOST_AHEAD_SLOTS,
    BadRecording,
    check_slots,
    last_of,
    read_recording,
    recording,
)
from schemas.accounts import MAX_SIZE, compress
from schemas.proto.tape_pb2 import AccountVersion, Covered, SlotBatch
from schemas.solana.addresses import STAKE_PROGRAM

ADDRESS = bytes(range(32))


def written(file: Path, *batches: SlotBatch) -> Path:
    raw = [batch.SerializeToString() for batch in batches]
    file.write_bytes(zstandard.compress(b"".join(struct.pack("<I", len(r)) + r for r in raw)))
    return file


def covered(slot: int) -> SlotBatch:
    return SlotBatch(covered=[Covered(kind=Covered.PROGRAM, address=STAKE_PROGRAM, slot=slot)])


def test_a_small_part_of_very_large_accounts_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    large = AccountVersion(
        address=ADDRESS, program=STAKE_PROGRAM, size=MAX_SIZE, data=compress(bytes(MAX_SIZE))
    )
    file = written(tmp_path / "bomb", SlotBatch(slot=5, accounts=[large] * 26), covered(5))
    assert file.stat().st_size < 10_000
    with pytest.raises(BadRecording, match="bytes of accounts"):
        list(read_recording(file))


def test_coverage_from_a_slot_of_which_there_is_no_part_is_refused(tmp_path: Path) -> None:
    part = SlotBatch(slot=5)
    assert len(list(read_recording(written(tmp_path / "good", part, covered(5))))) == 2
    with pytest.raises(BadRecording, match="covers from slot 6"):
        list(read_recording(written(tmp_path / "bad", part, covered(6))))


def test_a_part_that_the_lane_will_not_reach_is_refused() -> None:
    """It would keep all that bootstrap brings waiting behind it."""
    check_slots(SlotBatch(slot=100 + MOST_AHEAD_SLOTS), least=90, settled=100)
    with pytest.raises(BadRecording, match="another chain"):
        check_slots(SlotBatch(slot=101 + MOST_AHEAD_SLOTS), least=90, settled=100)
    with pytest.raises(BadRecording, match="Record again"):
        check_slots(SlotBatch(slot=89), least=90, settled=100)
    check_slots(covered(5), least=90, settled=100)
    far = covered(5)
    far.slot = 1 << 63
    with pytest.raises(BadRecording, match="another chain"):
        check_slots(far, least=90, settled=100)


def test_the_end_of_a_recording_is_found(tmp_path: Path) -> None:
    with recording(tmp_path / "real.zst") as writer:
        writer.part(7, [])
        writer.covered({STAKE_PROGRAM: 7})
    assert last_of(tmp_path / "real.zst") == covered(7)
