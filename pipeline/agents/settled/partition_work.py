"""One partition of a settled lane: which messages are applied, in which order, and which not.

The slot is the truth: a slot is applied once, and only one above the last. Offsets are hints of
where to look. A message beyond the next expected one means that the consumer is ahead of the
store (Redis has lost its last second, or Faust has dropped messages in a rebalance): we go back to
the expected one and let pass what was fetched before. A store without a watermark expects the
first message of the log. Where the log does not have the expected one any more, which only the log
itself can say and no delay, we go on with the first there is, and the slots between count as lost.

The slots of messages that cannot be read count as lost, too. The next slot's parent shows which
they are: none where the parent is the last slot applied. Until that next slot is applied, the
watermark's offset stays before the unreadable message: a process that opens the books reads it
again.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from infra.backoff import Backoff
from infra.clickhouse.client import ClickHouseError
from infra.redis.client import RedisError
from pipeline.agents import metrics
from pipeline.agents.consumer import GroupConsumer
from pipeline.agents.settled.books import Books, Open, Writes
from pipeline.agents.settled.lost import LOG_LACKS, UNREADABLE, Lost, because
from pipeline.agents.settled.quarantine import Quarantine
from pipeline.sinks.clickhouse import PERMANENT
from pipeline.sinks.redis import Watermark, transient
from schemas.codec import CodecError
from schemas.proto.tape_pb2 import SlotBatch

log = structlog.get_logger(__name__)

CHUNK_EVENTS: Final = 2_000  # loaded together
SLICE_S: Final = 0.01  # of applying, then the event loop is given a turn
MAX_UNWRITTEN_EVENTS: Final = 40_000  # applied and not in the stores: beyond it we wait
BACKOFF_S: Final = (0.1, 2.0)
SEEK_AGAIN_S: Final = 5.0
SEEKS: Final = 3  # in vain; then the log is asked whether it has the message at all


class Reopen(Exception):
    """The books are not those of the store any more: open them again; the text says why."""


class BadSlot(Reopen):
    """The content of a slot cannot be applied; it is put aside, the books may be half-way."""

    def __init__(self, slot: int, offset: int, data: bytes, reason: str) -> None:
        super().__init__(f"slot {slot}: {reason}")
        self.slot = slot
        self.offset = offset
        self.data = data


class BooksFailed(Exception):
    """The books failed over a slot, which is a bug; the text says where."""

    def __init__(self, place: str, offset: int, slot: int, error: Exception) -> None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        super().__init__(f"{place}@{offset} slot {slot}: {type(error).__name__}: {error} ({where})")


@dataclass(slots=True)
class Entry:
    """A message on its way through the books; without a batch there is nothing to apply."""

    offset: int
    batch: SlotBatch | None  # None as it comes: it cannot be read
    size: int  # events, or what costs the same
    bytes: int
    is_left_out: bool = False  # its content cannot be applied, which is on record
    moves_offset: bool = True  # of the watermark
    done: Callable[[], None] = lambda: None


@dataclass(slots=True)
class Taken:
    """What a flush writes of one partition."""

    work: PartitionWork
    writes: Writes
    mark: Watermark
    entries: list[Entry]


@dataclass(slots=True)
class PartitionWork:
    """The state of one partition; made anew whenever its books are opened."""

    tp: TopicPartition
    key: str  # of its watermark
    changed_key: str  # names what changed since the last checkpoint
    consumer: GroupConsumer
    made_room: Callable[[], None]  # less waits than before
    first_from: Callable[[TopicPartition, int], Awaitable[int | None]]  # of the log, KafkaError
    none_between: Callable[[TopicPartition, int, int], Awaitable[bool]]  # of the log, KafkaError
    waiting_bytes: int = 0
    written: Watermark | None = None  # what we believe to be in Redis
    applied: Watermark | None = None
    unwritten_events: int = 0
    reopen: str | None = None  # why it has to be opened again
    paused: bool = False
    changes: int = 0  # values written since the last checkpoint, at most
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _books: Books | None = None
    _expected: int = 0  # offset of the next message
    _last_slot: int = -1  # of what was accepted
    _causes: set[str] = field(default_factory=set)  # why slots after the last may be missing
    _seeking_since: float | None = None
    _seeks: int = 0
    _waiting: deque[Entry] = field(default_factory=deque)
    _unwritten: list[Entry] = field(default_factory=list)
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)
    _ticked: bool = False

    # Opening.

    async def open(self, watermark: Watermark | None, open_books: Open) -> None:
        """Open the books at the store's watermark. Raises RedisError, ClickHouseError."""
        self._books = await open_books(self.tp.partition)
        self.written = self.applied = watermark
        if watermark is not None:
            self._expected = watermark.offset + 1
            self._last_slot = watermark.slot

    async def go_back(self) -> None:
        """Have the consumer go on at the expected message, or the first there is after it."""
        wanted = self._expected
        self._seeking_since = time.monotonic()
        try:
            found = await self.consumer.seek(self.tp, wanted)
        except KafkaError as error:  # a rebalance, or the broker is away
            log.warning("cannot go back yet", place=self._place, to=wanted, reason=str(error))
            return  # `seek_again` tries again
        if found is None:
            return  # not ours any more
        if found > wanted:
            self._causes.add(LOG_LACKS)
        self._expected = found
        self._seeks += 1

    @property
    def expected(self) -> int:
        """The offset of the next message that will be accepted."""
        return self._expected

    @property
    def at(self) -> int | None:
        """The offset of the first message whose facts are not in the stores."""
        if self._unwritten:
            return self._unwritten[0].offset
        return self._waiting[0].offset if self._waiting else self._expected

    # Routing.

    async def pass_markers(self, offset: int) -> None:
        """Expect the message at an offset next if the log has none from the expected one to it.

        Transactions' markers take offsets without being messages.
        """
        wanted = self._expected
        if offset <= wanted or self._seeking_since is not None:
            return
        try:
            none_between = await self.none_between(self.tp, wanted, offset)
        except (KafkaError, TimeoutError) as error:  # going back finds out as well
            log.warning("cannot see what the log has", place=self._place, reason=str(error))
            return
        if none_between and self._expected == wanted:
            self._expected = offset

    async def wants(self, offset: int) -> bool:
        """Return whether to read a message; if one is missing before it, go back for that."""
        if offset <= self._expected:
            return True
        if self._seeking_since is None:
            log.warning("going back", place=self._place, at=offset, to=self._expected)
            metrics.SEEKS_BACK.labels(self.tp.topic).inc()
            await self.go_back()
        return False

    async def seek_again(self) -> None:
        """Do so where what we went back for does not come; raises KafkaError."""
        if self._seeking_since is None or time.monotonic() - self._seeking_since < SEEK_AGAIN_S:
            return
        if self._seeks >= SEEKS:
            wanted, self._seeks = self._expected, 0
            found = await self.first_from(self.tp, wanted)
            if self._expected != wanted:
                return  # it came meanwhile
            if found is not None and found > wanted:
                log.warning("the log has no such message", place=self._place, goes_on_at=found)
                self._expected = found
                self._causes.add(LOG_LACKS)
        await self.go_back()

    def accept(self, entry: Entry, begin: Callable[[], Callable[[], None]]) -> None:
        """Take a message that is wanted; a slot not above the last is dealt with as it is."""
        batch = entry.batch
        is_unread = batch is None
        if batch is not None and batch.slot <= self._last_slot:
            metrics.SKIPPED_SLOTS.labels(self.tp.topic).inc()
            batch = None
        if batch is not None:
            self._causes.clear()
            self._last_slot = batch.slot
        elif entry.offset < self._expected:
            return  # it was dealt with already
        elif is_unread:
            self._causes.add(UNREADABLE)
        entry.batch = None if entry.is_left_out else batch
        entry.moves_offset = not self._causes
        entry.done = begin()
        self._expected = entry.offset + 1
        self._seeking_since = None
        self._seeks = 0
        self._waiting.append(entry)
        self.waiting_bytes += entry.bytes
        self._stirred.set()

    def lost_before(self, entry: Entry) -> Lost | None:
        """Return what is lost once this message is accepted."""
        batch = entry.batch
        if batch is None or batch.slot <= self._last_slot:
            return None
        # Of a lower offset: the topic is another one, and began anew.
        causes = self._causes | ({LOG_LACKS} if entry.offset < self._expected else set())
        if not causes:
            return None
        # Where a slot names no parent, any slot before it may be one that is missing.
        parent = batch.parent if batch.HasField("parent") else batch.slot - 1
        if parent <= self._last_slot:
            return None
        first = self._last_slot + 1
        if self._last_slot < 0 or (self._last_slot == 0 and LOG_LACKS not in causes):
            # The books begin here. Of what could not be read before, only the last slot is known.
            if UNREADABLE not in causes:
                return None
            first = parent
        return Lost(first, parent, because(causes))

    # Applying.

    async def run(self) -> None:
        """Apply what waits, for ever. Raises Reopen; anything else is a bug of the books."""
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            if self.reopen is not None:
                raise Reopen(self.reopen)
            while self._waiting and not self.paused and not self.reopen:
                if self.unwritten_events >= MAX_UNWRITTEN_EVENTS:
                    break  # `wrote` stirs us
                async with self.lock:
                    await self._apply_chunk()
                self.made_room()

    def stir(self) -> None:
        """Look again for work."""
        self._stirred.set()

    def open_again(self, why: str) -> None:
        """Have `run` end with Reopen: what is in memory is not what the store has."""
        self.reopen = f"the watermark has moved: {why}"
        self.stir()

    async def _apply_chunk(self) -> None:
        chunk = await self._load(self._next_chunk())
        assert self._books is not None
        turn_at = time.monotonic() + SLICE_S
        for entry in chunk:
            batch = entry.batch
            if batch is not None:
                try:
                    self._books.apply(batch)
                except CodecError as error:
                    raise self._bad(entry, batch, error) from None
                except Exception as error:
                    self.reopen = "a slot is half applied"  # nothing of it is written
                    raise BooksFailed(self._place, entry.offset, batch.slot, error) from error
                self.applied = Watermark(batch.slot, entry.offset, batch.block_time_ms)
                entry.batch = None  # its memory is not needed until it is written
            elif self.applied is not None and entry.moves_offset:
                # The slot stays: by it and the next batch's parent books see that they lack one.
                self.applied = self.applied._replace(offset=entry.offset)
            self._waiting.popleft()
            self.waiting_bytes -= entry.bytes
            self._unwritten.append(entry)
            self.unwritten_events += entry.size
            if time.monotonic() > turn_at:
                await asyncio.sleep(0)
                turn_at = time.monotonic() + SLICE_S

    def _next_chunk(self) -> list[Entry]:
        chunk: list[Entry] = []
        size = 0
        for entry in self._waiting:
            if chunk and size + entry.size > CHUNK_EVENTS:
                break
            chunk.append(entry)
            size += entry.size
        return chunk

    async def _load(self, chunk: list[Entry]) -> list[Entry]:
        """Have the books load what waits first; return how much of it they have loaded.

        Where a batch cannot be, that is what comes before it, or a part of that.
        """
        assert self._books is not None
        backoff = Backoff(*BACKOFF_S)
        while True:
            batches = [entry.batch for entry in chunk if entry.batch is not None]
            if not batches:
                return chunk
            try:
                await self._books.load(batches)
            except CodecError as error:
                if len(chunk) > 1:
                    chunk = chunk[: len(chunk) // 2]
                    continue
                raise self._bad(chunk[0], batches[0], error) from None
            except RedisError as error:
                if not transient(error):
                    raise
                await self._store_away(error, backoff)
            except ClickHouseError as error:
                if getattr(error, "code", None) in PERMANENT:
                    raise
                await self._store_away(error, backoff)
            else:
                return chunk

    def _bad(self, entry: Entry, batch: SlotBatch, error: CodecError) -> BadSlot:
        self.reopen = "a slot is half applied"  # nothing of it is written
        return BadSlot(batch.slot, entry.offset, batch.SerializeToString(), str(error))

    async def _store_away(self, error: Exception, backoff: Backoff) -> None:
        log.warning(
            "nothing to be read from a store: waiting", place=self._place, reason=str(error)
        )
        await backoff.wait()

    # Writing.

    async def tick(self) -> None:
        """Let the books do what they do by the clock."""
        tick = getattr(self._books, "tick", None)
        if tick is not None:
            async with self.lock:
                await tick()
                self._ticked = True

    @property
    def has_unwritten(self) -> bool:
        """Whether there is something to be taken."""
        return bool(self._unwritten or self._ticked)

    async def take(self) -> Taken | None:
        """Take what is due to be written, None where there is nothing."""
        if not self.has_unwritten:
            return None
        async with self.lock:
            if self._books is None or self.applied is None or self.reopen is not None:
                return None
            taken = Taken(self, self._books.take(), self.applied, self._unwritten)
            self._unwritten = []
            self._ticked = False
            return taken

    async def evict(self) -> Writes | None:
        """Return what makes room in a full Redis, None where nothing does; the lock is held."""
        evict = getattr(self._books, "evict", None)
        if evict is None or self.written is None or self.reopen is not None:
            return None
        evicted: Writes | None = await evict(self.written.slot)
        return evicted

    @property
    def quarantine(self) -> Quarantine | None:
        """What the books leave out; None for books that have no state to be wrong."""
        return getattr(self._books, "quarantine", None)

    async def leave_out(self, found: Iterable[tuple[str, str, str]]) -> None:
        """Have the books go on without some names: each with a place and a cause."""
        async with self.lock:
            quarantine = self.quarantine
            if quarantine is None or self.written is None:
                return
            quarantine.slot = (self.applied or self.written).slot + 1
            for name, place, cause in found:
                quarantine.put(name, place, cause)
            self._ticked = True  # the next flush writes it

    async def wrote(self, taken: Taken) -> None:
        """Hear that what was taken is in the stores."""
        self.written = taken.mark
        self.unwritten_events -= sum(entry.size for entry in taken.entries)
        async with self.lock:
            if self._books is not None:
                self._books.written()
        for entry in taken.entries:
            entry.done()
        self.stir()

    @property
    def idle(self) -> bool:
        """Whether all we have accepted is in the stores."""
        return not (self._waiting or self._unwritten or self.unwritten_events or self._ticked)

    @property
    def _place(self) -> str:
        return f"{self.tp.topic}[{self.tp.partition}]"


def size_of(batch: SlotBatch) -> int:
    """Return about how much work a batch is, in events."""
    moved = (len(batch.balances) + len(batch.movements)) // 4
    perps = len(batch.funding_payments) + len(batch.perp_changes)
    return 1 + len(batch.events) + moved + perps + len(batch.accounts)
