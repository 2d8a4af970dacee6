"""What a client missed since an event, in order, and then what comes: nothing between, none twice.

From memory where it goes back so far, else from the stream in pages. Each step is bounded and steps
take turns, so that a thousand clients that come back at once hold nobody up; and a client's next
step waits until it has read the last and its key's budget has some left. The end is one step
without a wait: the last look at memory, and the subscription.

An id is where to go on, whether it is an event's or not: `<ms>-0-0` is a time. Where the stream
does not go back so far, or the id is of a history that was lost, the client gets a gap. So does one
for which the stream grows faster than it reads, or than its budget lets it: it would read what is
about to be trimmed for ever, and goes on with what is live.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from infra.redis.client import ask
from schemas.channels import Channel
from stream_gateway.batches import Batch, Gap, Place, Reason
from stream_gateway.fanout import Fanout, Subscriber
from stream_gateway.metrics import REPLAYS
from stream_gateway.source import ANSWER_S, NOTHING, Source, is_whole, pieces, text, unpack
from stream_gateway.subscriptions import BY_NAME, Filter, fulfils

STEP_BYTES: Final = 256 << 10  # sent to a client without a pause
STEP_EVENTS: Final = 1_000  # looked at without a pause
PAGE_BYTES: Final = 256 << 10  # of the stream, about
FIRST_PAGE_ENTRIES: Final = 16
MAX_PAGE_ENTRIES: Final = 256
PAGES_AT_ONCE: Final = 2
LOOK_BYTES: Final = 4 << 10  # that a look into the stream costs, whatever is found
EVENT_BYTES: Final = 256  # that looking at an event in memory costs, wanted or not
REACHED_WITHIN_S: Final = 5.0
MOST_TRIMMED: Final = 3  # times that a walk finds its next entry gone: that may be by chance
_BEFORE_ALL: Final = Place.in_entry(NOTHING, 0)


class Reader(Subscriber, Protocol):
    """A subscriber that is sent events of before."""

    @property
    def turn(self) -> asyncio.Lock:
        """Of the key: one of its readers at a time reads the stream."""

    def replay(self, data: bytes, events: int) -> None:
        """Take whole frames with events of before; never waits, may drop them."""

    def charge(self, size: int) -> None:
        """Pay for so many bytes that were read, whether any of it was wanted or not."""

    async def may_replay(self) -> bool:
        """Wait until events of before may be sent; False when the connection is closed."""


@dataclass(slots=True)
class _Pages:
    """Where in the stream one reads on."""

    anchor: str | None = None  # the last entry seen, to be there still; None: from the oldest on
    epochs: set[str] = field(default_factory=set)  # seen; none: what comes first is as it is
    hole: Reason | None = None  # in front of what comes next
    entries: int = FIRST_PAGE_ENTRIES


@dataclass(slots=True)
class _Walk:
    """A client that catches up to the live events."""

    subscriber: Reader
    filter: Filter
    place: Place  # the client has what its filter takes up to here
    pages: _Pages | None = None  # once memory did not do
    trimmed: int = 0  # times that what came next was gone
    _parts: list[bytes] = field(default_factory=list)  # not sent yet
    _events: int = 0

    @property
    def channel(self) -> Channel:
        return BY_NAME[self.filter.channel]

    def send_gap(self, gap: Gap) -> None:
        """Report that events are missing."""
        self.send()
        self.subscriber.send(gap.frame)

    def gap(self, reason: Reason, before: Place | None) -> None:
        """Report that events are missing from the place reached."""
        self.send_gap(Gap(self.channel, reason, self.place, before))

    def take(self, batch: Batch) -> int:
        """Queue what the filter takes of a batch beyond the place reached; return its bytes."""
        had, self.place = self.place, max(self.place, batch.end)
        skip = had.place - batch.first + 1 if had >= batch.begin else 0  # within the same entry
        conditions = self.filter.conditions()
        if not skip and not conditions:
            self._parts.append(batch.joined)
            self._events += len(batch.events)
            return len(batch.joined)
        wanted = [
            number
            for number, event in enumerate(batch.events)
            if number >= skip and fulfils(event.index, conditions)
        ]
        if not wanted:
            return 0
        own = batch.frames_of(self.filter.health_below)
        frames = [own[number] for number in wanted]
        self._parts += frames
        self._events += len(frames)
        return sum(map(len, frames))

    def send(self) -> None:
        """Send what was taken, in one write."""
        if self._parts:
            self.subscriber.replay(b"".join(self._parts), self._events)
            self._parts.clear()
            self._events = 0


class Replay:
    """Brings subscribers from an event they had to what is live."""

    def __init__(self, source: Source, fanout: Fanout) -> None:
        self._source = source
        self._fanout = fanout
        self._turns = asyncio.Lock()
        self._reading = asyncio.Semaphore(PAGES_AT_ONCE)

    async def catch_up(self, subscriber: Reader, chosen: Filter, since: str) -> None:
        """Send what a filter takes after an event, then attach; not where the subscriber left.

        Raises ValueError for what is no event's id; RedisError and OSError where the store is
        needed and does not answer: then nothing is attached.
        """
        walk = _Walk(subscriber, chosen, Place.of(since))
        while await subscriber.may_replay():
            async with self._turns:
                if self._step(walk):
                    REPLAYS.labels("memory" if walk.pages is None else "redis").inc()
                    return
                await asyncio.sleep(0)  # all that is live comes between two steps
            if walk.trimmed > MOST_TRIMMED:
                walk.gap("trimmed", None)
                self._fanout.attach(subscriber, chosen)
                return
            if not self._remembers(walk):
                async with subscriber.turn, self._reading:
                    if walk.pages is None:
                        await self._look(walk)
                    else:
                        await self._page(walk, walk.pages)

    def _remembers(self, walk: _Walk) -> bool:
        """Whether what follows the walk's place is all in memory, or still to come."""
        stream = walk.channel.stream
        last = self._source.last(stream)
        if last is None:
            return walk.pages is not None and walk.place == _BEFORE_ALL
        return walk.place <= last and self._source.recent.covers(stream, walk.place)

    def _step(self, walk: _Walk) -> bool:
        """Send some of what is in memory; True when that was all: the client is live."""
        if not self._remembers(walk):
            return False
        sent = seen = 0
        is_all = True
        for item in self._source.recent.after(walk.channel.stream, walk.place):
            if sent > STEP_BYTES or seen > STEP_EVENTS:
                is_all = False
                break
            if isinstance(item, Gap):
                walk.send_gap(item)
            else:
                seen += len(item.events)
                sent += walk.take(item)
        walk.subscriber.charge(max(sent, seen * EVENT_BYTES))
        walk.send()
        if is_all:
            self._fanout.attach(walk.subscriber, walk.filter)
        return is_all

    async def _look(self, walk: _Walk) -> None:
        """Find where in the stream to continue, and report what is no longer there."""
        stream, since = walk.channel.stream, walk.place
        walk.subscriber.charge(LOOK_BYTES)
        before, first, now = await self._ask(
            ("XREVRANGE", stream, since.entry_id, "-", "COUNT", 1),
            ("XRANGE", stream, "-", "+", "COUNT", 1),
            ("TIME",),
        )
        pages = _Pages()
        if since.ms > int(now[0]) * 1000 + int(now[1]) // 1000:
            # Of another clock, then: ids do not say which events were missed since.
            walk.gap("epoch", None)
        elif not before and not (since == _BEFORE_ALL and await self._is_whole(stream, first)):
            walk.gap("trimmed", Place.in_entry(text(first[0][0]), 0) if first else None)
        if before:
            ((raw_id, fields),) = before
            pages.anchor = text(raw_id)
            end = Place.in_entry(pages.anchor, 0)
            try:
                entry = unpack(walk.channel, fields)
            except ValueError:
                pages.hole = "dropped"
            else:
                # Several write a stream in turn: the trending list's has an epoch of each.
                pages.epochs = {entry.epoch} | self._source.epochs_until(stream, since)
                end = pieces(walk.channel, pages.anchor, entry)[-1].end
            # What Redis lost and we handed on, a client of before has had.
            last = self._source.last(stream) or _BEFORE_ALL
            walk.place = min(walk.place, max(end, last))
        elif not first:
            self._begin_anew(walk)
        walk.pages = pages

    def _begin_anew(self, walk: _Walk) -> None:
        """Go on with what is to come: the stream has nothing."""
        walk.place = self._source.last(walk.channel.stream) or _BEFORE_ALL

    async def _is_whole(self, stream: str, first: Sequence[Any]) -> bool:
        """Whether nothing was ever trimmed of a stream."""
        if not first:
            return True
        [info] = await self._ask(("XINFO", "STREAM", stream))
        return is_whole(info)

    async def _page(self, walk: _Walk, pages: _Pages) -> None:
        """Send what the stream has next; at its end wait for those who read it live."""
        stream, channel = walk.channel.stream, walk.channel
        start = pages.anchor or "-"
        handed_on = self._source.last(stream)
        [found] = await self._ask(("XRANGE", stream, start, "+", "COUNT", pages.entries))
        if pages.anchor and (not found or text(found[0][0]) != pages.anchor):
            pages.hole = "trimmed"  # or lost
            walk.trimmed += 1
        size = sent = seen = 0
        is_end = len(found) < pages.entries
        for raw_id, fields in found:
            entry_id = text(raw_id)
            seen += 1
            size += sum(len(part) for part in fields)
            is_anchor, pages.anchor = entry_id == pages.anchor, entry_id
            try:
                entry = unpack(channel, fields)
            except ValueError:  # counted where it is read live
                if not is_anchor:
                    pages.hole = "dropped"
                continue
            if entry.epoch and entry.epoch not in pages.epochs:
                if pages.epochs:
                    pages.hole = "epoch"
                pages.epochs.add(entry.epoch)
            if pages.hole:
                walk.gap(pages.hole, Place.in_entry(entry_id, 0))
                pages.hole = None
            for batch in pieces(channel, entry_id, entry):
                if batch.end > walk.place and sent <= STEP_BYTES:
                    sent += walk.take(batch)
            if sent > STEP_BYTES:  # the rest once this is read, even of the same entry
                is_end = False
                break
        walk.subscriber.charge(LOOK_BYTES + size)
        walk.send()
        if found:
            pages.entries = max(2, min(MAX_PAGE_ENTRIES, PAGE_BYTES * seen // (size + 1)))
        else:  # the stream is gone
            if pages.hole:
                walk.gap(pages.hole, None)
            walk.pages = _Pages()
            self._begin_anew(walk)
            return
        if not is_end:
            return
        if handed_on is not None and walk.place < handed_on and not self._remembers(walk):
            walk.gap("epoch", None)  # Redis lost what comes next, after we had handed it on
            walk.place = handed_on
        if not await self._source.reached(stream, walk.place, REACHED_WITHIN_S):
            raise TimeoutError("the store is ahead, and what it has does not come")

    async def _ask(self, *commands: tuple[Any, ...]) -> list[Any]:
        async with asyncio.timeout(ANSWER_S):
            return await ask(self._source.redis, commands)
