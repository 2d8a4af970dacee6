from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from infra.chain import updates
from infra.chain.faults import Disturbance, Faults
from infra.chain.recorded import UnreadableFile
from infra.chain.recording import (
    RecordedStream,
    RecordingWriter,
    SlotAssembler,
    is_recording,
    read_recording,
)
from infra.chain.server import LocalChain
from infra.chain.source import SlotCompleted, SlotConfirmed, SlotEvent, SlotTransactions
from infra.chain.updates import AccountsUpdate, BlockUpdate, SlotUpdate, TransactionUpdate, Update


class _NoSource:
    """A source for a chain that is fed by hand."""

    def genesis_accounts(self) -> tuple[()]:
        return ()


def rendered(update: Update) -> bytes | None:
    match update:
        case TransactionUpdate():
            return updates.transaction_update(b"", update)
        case SlotUpdate():
            return None if update.silent else updates.slot_update(b"", update)
        case BlockUpdate():
            return updates.block_meta_update(b"", update)
        case AccountsUpdate():
            return None  # a recording has no accounts


def sequence(events: list[SlotEvent]) -> list[Update]:
    chain = LocalChain(_NoSource())  # type: ignore[arg-type]
    for event in events:
        chain.publish(event)
    return chain.replay.read(0, 1_000_000)


def merged(events: list[SlotEvent]) -> list[SlotEvent | tuple[object, ...]]:
    """Events with the batches of a slot joined: how they were cut does not matter."""
    batches: dict[int, list[bytes]] = {}
    out: list[SlotEvent | tuple[object, ...]] = []
    for event in events:
        if isinstance(event, SlotTransactions):
            batches.setdefault(event.slot, []).extend(t.info for t in event.transactions)
        elif isinstance(event, SlotCompleted):
            out.append(replace(event, writes=(), rewards=(), has_entries=False))
        else:
            out.append(event)
    return [*out, *((slot, *infos) for slot, infos in sorted(batches.items()))]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "tape"
    with RecordingWriter(file) as writer:
        writer.write(b"first", 1_795_233_522_001)
        writer.write(b"", 1_795_233_522_002)
        writer.write(b"x" * 100_000, 1_795_233_522_003)
    assert is_recording(file)
    assert writer.updates == 3
    assert list(read_recording(file)) == [
        (1_795_233_522_001, b"first"),
        (1_795_233_522_002, b""),
        (1_795_233_522_003, b"x" * 100_000),
    ]


def test_a_recording_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "tape"
    file.write_text("precious")
    with pytest.raises(FileExistsError):
        RecordingWriter(file)
    assert not is_recording(file)


def test_one_that_was_cut_off_is_read_up_to_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # private `_FRAME_S`: makes each update a frame of its own.
    monkeypatch.setattr("infra.chain.recording._FRAME_S", 0.0)  # a frame an update
    file = tmp_path / "tape"
    with RecordingWriter(file) as writer:
        for number in range(50):
            writer.write(bytes([number]) * 500, number)
    whole = file.read_bytes()
    for size in (len(whole) - 20, len(whole) * 2 // 3, len(whole) // 2):
        file.write_bytes(whole[:size])
        read = list(read_recording(file))
        assert 20 <= len(read) < 50
        assert read == [(number, bytes([number]) * 500) for number in range(len(read))]


def test_other_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "tape"
    file.write_bytes(zstandard.compress(b"something else entirely"))
    with pytest.raises(UnreadableFile, match="not a recording"):
        RecordedStream(file)
    empty = tmp_path / "empty"
    with RecordingWriter(empty):
        pass
    with pytest.raises(UnreadableFile, match="no update"):
        RecordedStream(empty)


def test_an_orderly_stream_becomes_the_same_events(market_events: list[SlotEvent]) -> None:
    assembler = SlotAssembler()
    events = [
        event
        for update in sequence(market_events)
        if (data := rendered(update)) is not None
        for event in assembler.feed(data)
    ]
    assert merged(events) == merged(market_events)
    assert assembler.left_out == 0


def test_a_disturbed_stream_becomes_orderly_slots(market_events: list[SlotEvent]) -> None:
    disturbance = Disturbance(
        Faults(duplicates=0.2, reorder_window=60, missing_statuses=0.3, malformed=0.05)
    )
    disturbed = [*disturbance.feed(sequence(market_events)), *disturbance.flush()]
    assembler = SlotAssembler()
    chain = LocalChain(_NoSource())  # type: ignore[arg-type]
    confirmed = set()
    for update in disturbed:
        if (data := rendered(update)) is not None:
            for event in assembler.feed(data):
                chain.publish(event)  # refuses what cannot be
                if isinstance(event, SlotConfirmed):
                    confirmed.add(event.slot)
    assert assembler.left_out >= disturbance.take_counts()["duplicate"]
    assert confirmed <= {e.slot for e in market_events if isinstance(e, SlotConfirmed)}
    assert len(confirmed) > 10


async def test_a_recording_keeps_its_pace(tmp_path: Path, market_events: list[SlotEvent]) -> None:
    file = tmp_path / "tape"
    with RecordingWriter(file) as writer:
        for number, update in enumerate(sequence(market_events)):
            if (data := rendered(update)) is not None:
                writer.write(data, 1_000_000 + number)
    span_s = (number) / 1000
    began = time.monotonic()
    events = [event async for event in RecordedStream(file, speed=4).events()]
    assert merged(events) == merged(market_events)
    assert time.monotonic() - began > span_s / 4 * 0.9
