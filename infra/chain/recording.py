"""Recordings: a Yellowstone stream kept in a file, and replayed as a chain source.

Layout: zstd frames; inside, a magic line, then for each update its length (u32), the time it
was received (u64, Unix ms), both little-endian, and the SubscribeUpdate's bytes as they came.
A frame is closed every few seconds, so a recording cut off by a crash is readable up to there.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import structlog
import zstandard
from google.protobuf.message import DecodeError

from infra.chain.recorded import MAINNET_SLOTS_PER_EPOCH, UnreadableFile
from infra.chain.source import (
    Account,
    AccountWrite,
    BlockHeader,
    ChainTransaction,
    SlotCompleted,
    SlotConfirmed,
    SlotDead,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
    TokenSupply,
    VoteAccount,
)
from schemas.proto.geyser_pb2 import (
    SLOT_CONFIRMED,
    SLOT_DEAD,
    SLOT_FINALIZED,
    SubscribeUpdate,
    SubscribeUpdateBlockMeta,
    SubscribeUpdateSlot,
)
from schemas.solana import networks

log = structlog.get_logger(__name__)

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_MAGIC: Final = b"soltape recording 1\n"
_HEADER: Final = struct.Struct("<IQ")
_MAX_UPDATE_BYTES: Final = 1 << 30
_FRAME_S: Final = 5.0
# Slots that never name their parent are forgotten this far behind the newest one.
_MAX_OPEN_SLOTS: Final = 64


def is_recording(path: Path) -> bool:
    """Return whether a file is a recording, by its content."""
    with path.open("rb") as file:
        return file.read(len(_ZSTD_MAGIC)) == _ZSTD_MAGIC


class RecordingWriter:
    """Appends updates to a new file; use as a context manager."""

    def __init__(self, path: Path) -> None:
        """Create the file; raises FileExistsError rather than overwriting one."""
        self._file = path.open("xb")
        self._stream = zstandard.ZstdCompressor(level=3).stream_writer(self._file, closefd=True)
        self._stream.write(_MAGIC)
        self._frame_began = time.monotonic()
        self.updates = 0
        self.update_bytes = 0

    def write(self, update: bytes, received_ms: int) -> None:
        """Append one SubscribeUpdate."""
        self._stream.write(_HEADER.pack(len(update), received_ms) + update)
        self.updates += 1
        self.update_bytes += len(update)
        if time.monotonic() - self._frame_began > _FRAME_S:
            self._stream.flush(zstandard.FLUSH_FRAME)
            self._frame_began = time.monotonic()

    def file_bytes(self) -> int:
        """Return the size of the file so far."""
        return self._file.tell()

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._stream.close()  # type: ignore[no-untyped-call]


def read_recording(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (received Unix ms, SubscribeUpdate bytes).

    Raises UnreadableFile if it is no recording; one that was cut off ends with a warning.
    """
    with path.open("rb") as file:
        stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        try:
            head = stream.read(len(_MAGIC))
        except zstandard.ZstdError:
            head = b""
        if head != _MAGIC:
            raise UnreadableFile(f"{path}: not a recording of `soltape record`")
        count = 0
        try:
            while header := _read(stream, _HEADER.size):
                size, received_ms = _HEADER.unpack(header)
                if size > _MAX_UPDATE_BYTES:
                    raise EOFError
                update = _read(stream, size)
                if len(update) != size:
                    raise EOFError
                yield received_ms, update
                count += 1
        except (EOFError, zstandard.ZstdError):
            log.warning("recording cut off", file=str(path), updates=count)


def _read(stream: zstandard.ZstdDecompressionReader, size: int) -> bytes:
    """Return exactly `size` bytes, or none at the end; raises EOFError in between."""
    parts = []
    missing = size
    while missing and (part := stream.read(missing)):
        parts.append(part)
        missing -= len(part)
    if missing and missing != size:
        raise EOFError
    return b"".join(parts)


class RecordedStream:
    """Replays a recording at its own pace (times `speed`), then stays as it is."""

    genesis_hash: Final = networks.RECORDED
    slots_per_epoch: Final = MAINNET_SLOTS_PER_EPOCH

    def __init__(self, path: Path, *, speed: float = 1.0) -> None:
        """Check the file's head; raises UnreadableFile."""
        if next(read_recording(path), None) is None:
            raise UnreadableFile(f"{path}: the recording holds no update")
        self._path = path
        self._speed = speed

    async def events(self) -> AsyncIterator[SlotEvent]:
        """Yield the slots' events as they were recorded."""
        clock = asyncio.get_running_loop().time
        began = clock()
        first_ms: int | None = None
        assembler = SlotAssembler()
        for received_ms, data in read_recording(self._path):
            if first_ms is None:
                first_ms = received_ms
            wait = began + (received_ms - first_ms) / 1000 / self._speed - clock()
            if wait > 0.001:
                await asyncio.sleep(wait)
            for event in assembler.feed(data):
                yield event
        log.info("recording replayed", file=str(self._path), left_out=assembler.left_out)

    def genesis_accounts(self) -> tuple[AccountWrite, ...]:
        """Return none: a recording has no accounts."""
        return ()

    def vote_accounts(self, _: int) -> tuple[VoteAccount, ...]:
        """Return none: a recording has no validators."""
        return ()

    def account(self, _: bytes) -> Account | None:
        """Return None: a recording has no account data."""
        return None

    def token_supply(self, _: bytes) -> TokenSupply | None:
        """Return None: a recording has no supplies."""
        return None


class SlotAssembler:
    """Makes a source's orderly slots of updates as some provider sent them.

    Counted in `left_out`: updates that cannot be parsed, come twice, come after their block was
    complete, or belong to slots the recording does not have enough of.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._slots: dict[int, _OpenSlot] = {}

    def feed(self, data: bytes) -> Iterator[SlotEvent]:
        """Yield the events of one update."""
        try:
            update = SubscribeUpdate.FromString(data)
        except DecodeError:
            self.left_out += 1
            return
        match update.WhichOneof("update_oneof"):
            case "transaction":
                transaction = ChainTransaction.from_info(update.transaction.transaction)
                yield from self._transaction(update.transaction.slot, transaction)
            case "slot":
                yield from self._status(update.slot)
            case "block_meta":
                yield from self._block(update.block_meta)

    def _open(self, slot: int) -> _OpenSlot:
        if slot not in self._slots:
            self._slots[slot] = _OpenSlot()
            for old in [old for old in self._slots if old < slot - _MAX_OPEN_SLOTS]:
                self.left_out += len(self._slots.pop(old).waiting)
        return self._slots[slot]

    def _start(self, slot: int, parent_slot: int) -> Iterator[SlotEvent]:
        state = self._open(slot)
        if state.started:
            return
        state.started = True
        yield SlotStarted(slot, parent_slot)
        if state.waiting:
            yield SlotTransactions(slot, tuple(state.waiting))
            state.waiting.clear()

    def _transaction(self, slot: int, transaction: ChainTransaction) -> Iterator[SlotEvent]:
        state = self._open(slot)
        if state.completed or transaction.signature in state.signatures:
            self.left_out += 1
            return
        state.signatures.add(transaction.signature)
        if state.started:
            yield SlotTransactions(slot, (transaction,))
        else:
            state.waiting.append(transaction)

    def _status(self, update: SubscribeUpdateSlot) -> Iterator[SlotEvent]:
        state = self._open(update.slot)
        if update.HasField("parent") and not state.completed:
            yield from self._start(update.slot, update.parent)
        if update.status == SLOT_DEAD and state.started and not state.completed:
            yield SlotDead(update.slot, update.dead_error)
        if update.status in (SLOT_CONFIRMED, SLOT_FINALIZED) and state.completed:
            if not state.confirmed:
                state.confirmed = True
                yield SlotConfirmed(update.slot)
            if update.status == SLOT_FINALIZED and not state.finalized:
                state.finalized = True
                yield SlotFinalized(update.slot)

    def _block(self, meta: SubscribeUpdateBlockMeta) -> Iterator[SlotEvent]:
        state = self._open(meta.slot)
        if state.completed:
            return
        yield from self._start(meta.slot, meta.parent_slot)
        state.completed = True
        yield SlotCompleted(
            BlockHeader(
                slot=meta.slot,
                parent_slot=meta.parent_slot,
                blockhash=meta.blockhash,
                parent_blockhash=meta.parent_blockhash,
                block_time=meta.block_time.timestamp,
                block_height=meta.block_height.block_height,
            )
        )


class _OpenSlot:
    def __init__(self) -> None:
        self.started = False
        self.completed = False
        self.confirmed = False
        self.finalized = False
        self.signatures: set[bytes] = set()
        self.waiting: list[ChainTransaction] = []
