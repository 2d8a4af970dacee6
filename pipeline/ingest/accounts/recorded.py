"""Accounts in a file: what bootstrap asks a node for, to be loaded elsewhere.

A zstd stream of messages, each behind its length (u32): a SlotBatch a part, whose `slot` is the
context slot of the answer; last one whose `covered` names the programs that the file has whole.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import IO, Any, Final

import zstandard
from google.protobuf.message import DecodeError

from infra.settings import Settings
from infra.solana_rpc.client import MOST_ANSWER_BYTES
from pipeline.ingest.accounts.ledger import UNSEEN, Update
from schemas.accounts import BadAccount, compress, decompress
from schemas.proto.tape_pb2 import AccountVersion, Covered, SlotBatch

FOLDER: Final = "recordings"  # of SOLTAPE_DATA: where ingest looks for the names it is given

_LENGTH: Final = Struct("<I")
_MOST: Final = 64 << 20  # bytes of a part; one of bootstrap's has some 20
MOST_AHEAD_SLOTS: Final = 1_000
"""How far behind a part's slot the lane may be: what follows the part waits until it is there."""
_NAME: Final = re.compile(r"\w[\w.-]{0,99}")


ADDRESS_BYTES: Final = 32


class BadRecording(Exception):
    """A file is no recording of accounts, or was cut; the text says which and where."""


@contextmanager
def recording(file: Path) -> Iterator[Writer]:
    """Write a recording; one that is not finished has no coverage, and loads as cut."""
    with file.open("wb") as raw, zstandard.ZstdCompressor(level=3).stream_writer(raw) as out:
        yield Writer(out)


class Writer:
    """Writes parts, then what is covered."""

    def __init__(self, out: Any) -> None:
        self._out = out

    def part(self, slot: int, updates: Iterable[Update]) -> None:
        """Write an answer."""
        batch = SlotBatch(slot=slot)
        for each in updates:
            batch.accounts.append(
                AccountVersion(
                    address=each.address,
                    program=each.owner,
                    lamports=each.lamports,
                    size=len(each.data),
                    data=compress(each.data),
                )
            )
        self._write(batch)

    def covered(self, programs: dict[bytes, int]) -> None:
        """Write the end: programs, each with the least slot of its parts."""
        self._write(
            SlotBatch(
                covered=[
                    Covered(kind=Covered.PROGRAM, address=program, slot=slot)
                    for program, slot in sorted(programs.items())
                ]
            )
        )

    def _write(self, batch: SlotBatch) -> None:
        raw = batch.SerializeToString()
        self._out.write(_LENGTH.pack(len(raw)) + raw)


def file_of(settings: Settings, name: str) -> Path:
    """Return the file of a recording that ingest is given the name of; raises BadRecording.

    A name and no path: who writes into Redis must not choose what is read of this machine.
    """
    if not _NAME.fullmatch(name):
        raise BadRecording(f"{name[:100]!r} is no name of a recording")
    return settings.soltape_data / FOLDER / name


def read_recording(file: Path) -> Iterator[SlotBatch]:
    """Yield the messages of a recording; raises BadRecording, OSError."""
    try:
        with _regular(file) as raw, zstandard.ZstdDecompressor().stream_reader(raw) as source:
            last = None
            highest = -1
            while head := source.read(_LENGTH.size):
                if len(head) < _LENGTH.size or (size := _LENGTH.unpack(head)[0]) > _MOST:
                    raise BadRecording(f"{file}: no recording of accounts")
                body = source.read(size)
                if len(body) < size:
                    raise BadRecording(f"{file} ends amid a part: it was cut")
                last = _checked(SlotBatch.FromString(body), file)
                if last.accounts or not last.covered:
                    highest = max(highest, last.slot)
                # What is stored with a slot below its coverage is not alive: it would all be gone.
                if from_slots := [each.slot for each in last.covered if each.slot > highest]:
                    raise BadRecording(
                        f"{file} covers from slot {from_slots[0]}, with no part of it"
                    )
                yield last
            if last is None or not last.covered:
                raise BadRecording(f"{file} has no end: its recording was interrupted")
    except (zstandard.ZstdError, DecodeError) as error:
        raise BadRecording(f"{file}: no recording of accounts ({error})") from None


def last_of(file: Path) -> SlotBatch:
    """Return the last message of a recording; raises BadRecording, OSError."""
    return deque(read_recording(file), maxlen=1)[0]


def check_slots(part: SlotBatch, least: int, settled: int) -> None:
    """Refuse a part that the lane cannot take; raises BadRecording.

    The lane is known from `least` on, and has come to `settled`.
    """
    if part.covered and not part.accounts and not part.slot:
        return  # it says what is covered, and is of no slot itself
    if part.slot < least:
        raise BadRecording(
            f"it is of slot {part.slot}; this process has the lane from slot {least} on, and what "
            "changed before is not known. Record again"
        )
    if part.slot > settled + MOST_AHEAD_SLOTS:
        raise BadRecording(
            f"it is of slot {part.slot}, and the lane is at slot {settled}: it is of another "
            "chain, or of a node far ahead"
        )


def _regular(file: Path) -> IO[bytes]:
    """Open a file that is neither a link nor a pipe, which would never end."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadRecording(f"{file} is no regular file")
    return os.fdopen(descriptor, "rb")


def _checked(batch: SlotBatch, file: Path) -> SlotBatch:
    addresses = [each.address for each in batch.covered]
    addresses += [address for each in batch.accounts for address in (each.address, each.program)]
    if any(len(address) != ADDRESS_BYTES for address in addresses):
        raise BadRecording(f"{file}: an address in slot {batch.slot} has not 32 bytes")
    if any(each.kind != Covered.PROGRAM or not each.HasField("slot") for each in batch.covered):
        raise BadRecording(f"{file} says that it covers something else than programs")
    opened = sum(each.size for each in batch.accounts)
    if opened > MOST_ANSWER_BYTES:  # no node gives more at once; zeros compress to nearly nothing
        raise BadRecording(f"{file}: a part has {opened} bytes of accounts")
    return batch


def updates_of(batch: SlotBatch) -> Iterator[tuple[int, Update]]:
    """Yield (context slot, account) of a part; raises BadRecording."""
    for each in batch.accounts:
        try:
            data = decompress(each.data, each.size)
        except BadAccount as error:
            raise BadRecording(f"slot {batch.slot}: {error}") from None
        yield batch.slot, Update(each.address, each.program, each.lamports, data, UNSEEN)
