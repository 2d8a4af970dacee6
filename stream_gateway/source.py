"""The live streams as they grow: read from Redis in order, handed on, with gaps for holes.

Each process reads the streams for itself, from where it was, whatever becomes of Redis. When Redis
is away all clients get one notice, and another when it is back; they stay. Each stream then goes
on after the last entry that was handed on. If that entry is no longer there, either it was trimmed
while nobody read, which is a gap; or Redis lost it with its last second, or with everything, or is
as it was long before. What is lost in that way and not written again, the writer reports by a new
epoch, which is a gap too.

An event may come twice, under two ids, in one case: Redis showed it, lost it by being killed
before it was on disk, and the writer had no word of it and wrote it again. `signature` and
`event_index` identify the second.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import structlog
from redis.asyncio import Redis

from infra.backoff import Backoff
from infra.redis.client import RedisError, ask
from schemas import channels
from schemas.channels import Channel, Entry, LiveEvent
from stream_gateway.batches import Batch, Gap, Place, Reason
from stream_gateway.metrics import ENTRIES, EVENTS, GAPS, SOURCE_AWAY, UNREADABLE
from stream_gateway.recent import Recent

log = structlog.get_logger(__name__)

AWAY: Final = "source_away"
BACK: Final = "source_back"
AWAY_TEXT: Final = (
    "the store of events does not answer: nothing comes until it does; this connection stays, and "
    "goes on from where it was"
)
BACK_TEXT: Final = "the store of events answers again; what may have been lost is sent as a gap"

NOTHING: Final = "0-0"  # before every entry
BLOCK_MS: Final = 1_000
ANSWER_S: Final = 3.0  # beyond that Redis is taken to be away
# Of each stream at once. The writers keep more than this, so that less was never trimmed unseen.
READ_ENTRIES: Final = 32
PIECE_BYTES: Final = 256 << 10  # of frames that are handed on without a pause
EPOCHS: Final = 64
HANDED_ON: Final = 1024  # entries whose ids are kept: more than come in the second Redis may lose
_BACKOFF_S: Final = (0.05, 1.0)

Fields = Mapping[bytes, bytes]


@dataclass(slots=True)
class _Cursor:
    """How far a stream was handed on."""

    channel: Channel
    entry_id: str = NOTHING
    last: Place | None = None  # the last event
    handed_on: deque[str] = field(default_factory=lambda: deque(maxlen=HANDED_ON))
    epochs: dict[str, Place] = field(default_factory=dict)  # the last ones, where each was first
    hole: Reason | None = None  # in front of what comes next

    def at(self, entry_id: str) -> None:
        """Take note of an entry that was handed on."""
        self.entry_id = entry_id
        self.handed_on.append(entry_id)

    def sees(self, epoch: str, at: Place) -> bool:
        """Take note of an entry's epoch; return whether something may be missing before it.

        Another writer's entries may have the epoch before, for once: that is no hole.
        """
        if not epoch or epoch in self.epochs:  # none: written before there was one
            return False
        is_new = bool(self.epochs)
        self.epochs[epoch] = at
        if len(self.epochs) > EPOCHS:
            del self.epochs[next(iter(self.epochs))]
        return is_new


class Source:
    """Reads all live streams. `publish` and `gap` hear of each in its order, `notice` of Redis.

    `redis` is a client of its own that makes no retries.
    """

    def __init__(
        self,
        redis: Redis,
        *,
        publish: Callable[[Batch], None],
        gap: Callable[[Gap], None],
        notice: Callable[[str, str], None],
        recent: Recent,
    ) -> None:
        self.redis = redis
        self.recent = recent
        self.is_away = False
        # Memory holds the last seconds, and what comes is handed on. Stays set while Redis is away.
        self.ready = asyncio.Event()
        self._publish = publish
        self._gap = gap
        self._notice = notice
        self._cursors = {channel.stream: _Cursor(channel) for channel in channels.ALL}
        self._is_sure = False  # that the streams still have the entries to go on after

    @property
    def position(self) -> dict[str, str]:
        """The id of the last entry of each stream that was handed on."""
        return {stream: cursor.entry_id for stream, cursor in self._cursors.items()}

    def last(self, stream: str) -> Place | None:
        """Return where the last event of a stream is that was handed on."""
        return self._cursors[stream].last

    def epochs_until(self, stream: str, place: Place) -> set[str]:
        """Return epochs that a stream had up to a place: more of theirs after it are no hole."""
        return {epoch for epoch, at in self._cursors[stream].epochs.items() if at <= place}

    async def reached(self, stream: str, place: Place, within_s: float) -> bool:
        """Wait until an event, or one after it, was handed on; False where it was not in time."""
        deadline_s = time.monotonic() + within_s
        cursor = self._cursors[stream]
        while cursor.last is None or cursor.last < place:
            if time.monotonic() > deadline_s:
                return False
            await asyncio.sleep(0.005)
        return True

    async def run(self) -> NoReturn:
        """Read on until cancelled."""
        backoff = Backoff(*_BACKOFF_S)
        while True:
            try:
                if not self.ready.is_set():
                    await self._fill()
                while True:
                    await self._read()
                    backoff.reset()
            except (RedisError, OSError) as error:  # a timeout is an OSError
                self._is_sure = False
                self._lost_touch(error)
                await backoff.wait()

    async def _ask(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        async with asyncio.timeout(ANSWER_S):
            answers = await ask(self.redis, commands)
        if self.is_away:
            self.is_away = False
            SOURCE_AWAY.set(0)
            log.info("Redis answers again")
            self._notice(BACK, BACK_TEXT)
        return answers

    def _lost_touch(self, error: Exception) -> None:
        if self.is_away:
            return
        self.is_away = True
        SOURCE_AWAY.set(1)
        reason = f"{type(error).__name__}: {str(error) or 'no answer in time'}"
        log.warning("Redis is away: clients stay and get a notice", reason=reason)
        self._notice(AWAY, AWAY_TEXT)

    # From the beginning.

    async def _fill(self) -> None:
        """Take the last seconds of each stream into memory, for clients that come back to us."""
        # The clock of the server that has the streams: TIME goes where the command before it goes.
        _, (seconds, _) = await self._ask([("EXISTS", channels.SWAPS.stream), ("TIME",)])
        begin = f"{(int(seconds) - int(self.recent.seconds)) * 1000}-0"
        for cursor in self._cursors.values():
            stream = cursor.channel.stream
            self.recent.clear(stream)
            self._cursors[stream] = cursor = _Cursor(cursor.channel)
            earlier = ("XREVRANGE", stream, begin, "-", "COUNT", READ_ENTRIES)
            [before] = await self._ask([earlier])
            start = text(before[0][0]) if before else "-"
            for entry_id, fields in reversed(before[1:]):  # whose epochs are nothing new
                with suppress(ValueError):
                    epoch = unpack(cursor.channel, fields).epoch
                    cursor.sees(epoch, Place.in_entry(text(entry_id), 0))
            while True:
                [found] = await self._ask([("XRANGE", stream, start, "+", "COUNT", READ_ENTRIES)])
                for entry_id, fields in found:
                    await self._take(cursor, text(entry_id), fields, is_live=False)
                if len(found) < READ_ENTRIES:
                    break
                start = f"({cursor.entry_id}"
        self.ready.set()

    # From where we are.

    async def _read(self) -> None:
        """Hand on what has come; waits for it for a second at most."""
        cursors = list(self._cursors.values())
        is_sure, self._is_sure = self._is_sure, True
        checks = [each for each in cursors if not is_sure and each.entry_id != NOTHING]
        commands: list[tuple[Any, ...]] = []
        for cursor in checks:
            stream, at = cursor.channel.stream, cursor.entry_id
            commands += [
                ("XRANGE", stream, at, at, "COUNT", 1),
                ("XRANGE", stream, "-", "+", "COUNT", 1),
                ("XREVRANGE", stream, "+", "-", "COUNT", 1),
            ]
        streams = [cursor.channel.stream for cursor in cursors]
        places = [cursor.entry_id for cursor in cursors]
        wait = ("BLOCK", BLOCK_MS) if is_sure else ()
        commands.append(("XREAD", "COUNT", READ_ENTRIES, *wait, "STREAMS", *streams, *places))
        # One trip: what the checks find is true for what is read right after them.
        *found, read = await self._ask(commands)
        is_there = [
            await self._is_there(cursor, *found[3 * number : 3 * number + 3])
            for number, cursor in enumerate(checks)
        ]
        if not all(is_there):
            return  # read from somewhere else, then
        batches = _streams(read)
        if any(len(entries) >= READ_ENTRIES for _, entries in batches):
            self._is_sure = False  # we are behind: too late, perhaps
            if is_sure:
                return  # and read once more, with a look
        for stream, entries in batches:
            for entry_id, fields in entries:
                await self._take(self._cursors[stream], text(entry_id), fields, is_live=True)

    async def _is_there(
        self, cursor: _Cursor, at: list[Any], first: list[Any], last: list[Any]
    ) -> bool:
        """Whether a stream still has the entry to go on after; if not, find out what became of it.

        Returns False if reading must continue from another entry.
        """
        if at:
            return True
        place = Place.in_entry(cursor.entry_id, 0)
        newest = text(last[0][0]) if last else NOTHING
        if Place.in_entry(newest, 0) < place:
            log.warning(
                "Redis has lost what it had", stream=cursor.channel.stream, seen=cursor.entry_id,
                newest=newest,
            )  # fmt: skip
            # Where we know the newest, what follows it is new, whatever its id. Else nothing is
            # left of what we saw: another Redis, by another clock, and all that it has is new. But
            # a stream that was ever trimmed is an old state of ours: its entries were sent long
            # ago, so reading continues after its end, and a gap covers what may be missing.
            is_known = newest in cursor.handed_on
            if not is_known and last and not await self._is_whole(cursor.channel.stream):
                is_known, cursor.hole = True, "epoch"
            cursor.entry_id = newest if is_known else NOTHING
            return False
        if Place.in_entry(text(first[0][0]), 0) > place:
            cursor.hole = "trimmed"
        return True

    async def _is_whole(self, stream: str) -> bool:
        [info] = await self._ask([("XINFO", "STREAM", stream)])
        return is_whole(info)

    async def _take(
        self, cursor: _Cursor, entry_id: str, fields: Sequence[bytes], *, is_live: bool
    ) -> None:
        """Hand on an entry, and the gap before it if there is one."""
        channel = cursor.channel
        ENTRIES.labels(channel.channel).inc()
        try:
            entry = unpack(channel, fields)
        except ValueError as error:
            UNREADABLE.labels(channel.channel).inc()
            log.warning("unreadable", stream=channel.stream, entry=entry_id, reason=str(error))
            cursor.hole = "dropped"
            cursor.at(entry_id)
            return
        EVENTS.labels(channel.channel).inc(len(entry.events))
        first = Place.in_entry(entry_id, 0)
        if cursor.sees(entry.epoch, first):
            cursor.hole = "epoch"
        if cursor.last is not None and first <= cursor.last:
            # Redis was lost and goes on by another clock: ids of before say nothing any more.
            self.recent.clear(channel.stream)
            cursor.hole = "epoch"
        if cursor.hole is not None:
            gap = Gap(channel, cursor.hole, cursor.last, first)
            cursor.hole = None
            if is_live:
                GAPS.labels(channel.channel, gap.reason).inc()
                log.warning("gap", stream=channel.stream, reason=gap.reason, before=entry_id)
            self.recent.add(gap)
            if is_live:
                self._gap(gap)
        for batch in pieces(channel, entry_id, entry):
            if batch.first:
                await asyncio.sleep(0)  # others' turn, as an entry may have megabytes
            cursor.last = batch.end
            self.recent.add(batch)
            if is_live:
                self._publish(batch)
        cursor.at(entry_id)


def text(raw: bytes | str) -> str:
    """Return an id as text."""
    return raw.decode() if isinstance(raw, bytes) else raw


def is_whole(info: Any) -> bool:
    """Return whether nothing was ever trimmed of a stream, by what XINFO says of it."""
    items = info if isinstance(info, dict) else dict(zip(info[::2], info[1::2], strict=True))
    numbers = {text(name): value for name, value in items.items()}
    return bool(numbers.get("entries-added") == numbers["length"])


def unpack(channel: Channel, fields: Sequence[bytes]) -> Entry:
    """Return what an entry of a channel holds; raises ValueError if it is malformed.

    `fields` are names and values in turn.
    """
    entry = channels.unpack(dict(zip(fields[::2], fields[1::2], strict=True)))
    width = len(channel.index)
    for event in entry.events:
        try:
            if len(event.index) < width or not event.frame.startswith(b"{"):
                raise ValueError("no entry of a live stream: an event without its values or frame")
            hash(tuple(event.index))  # texts and numbers, to look groups up by
        except TypeError:
            raise ValueError("no entry of a live stream: an index of other forms") from None
    return entry


def pieces(channel: Channel, entry_id: str, entry: Entry) -> list[Batch]:
    """Return an entry as batches of a bounded size."""
    found: list[Batch] = []
    some: list[LiveEvent] = []
    size = first = 0
    for number, event in enumerate(entry.events):
        if some and size + len(event.frame) > PIECE_BYTES:
            found.append(Batch(channel, entry_id, entry.epoch, some, first))
            some, size, first = [], 0, number
        some.append(event)
        size += len(event.frame)
    found.append(Batch(channel, entry_id, entry.epoch, some, first))
    return found


def _streams(read: Any) -> list[tuple[str, list[Any]]]:
    """Return what XREAD found, in either form of the protocol."""
    if not read:
        return []
    items = read.items() if isinstance(read, dict) else read
    return [(text(stream), entries) for stream, entries in items]
