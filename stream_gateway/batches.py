"""What comes of the live streams, in the order of each: batches of events, and gaps.

A place in a stream is `Place`, three numbers: the two of an entry's id, and the event's place
there. It orders what a stream holds, and is what a client goes on from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, NamedTuple

from schemas import channels
from schemas.channels import Channel, LiveEvent
from stream_gateway import messages
from stream_gateway.frames import text_frame

Reason = Literal["trimmed", "epoch", "dropped"]

GAP_TEXTS: Final[dict[Reason, str]] = {
    "trimmed": "the stream no longer goes back so far: what was between is lost here",
    "epoch": "events in between may be missing: the store or its writer lost some",
    "dropped": "an entry of the stream could not be read: what it held is lost",
}
_FELL: Final = channels.POSITIONS.index.index("fell")
_EVENT_BYTES: Final = 400  # of objects and of the index, beside the frames


class Place(NamedTuple):
    """Where an event is in its stream."""

    ms: int
    number: int
    place: int

    @classmethod
    def of(cls, event_id: str) -> Place:
        """Parse an event's id into its place; raises ValueError."""
        entry_id, place = channels.parse_event_id(event_id)
        return cls.in_entry(entry_id, place)

    @classmethod
    def in_entry(cls, entry_id: str, place: int) -> Place:
        """Return a place in an entry."""
        ms, _, number = entry_id.partition("-")
        return cls(int(ms), int(number), place)

    @property
    def entry_id(self) -> str:
        """The entry's id."""
        return f"{self.ms}-{self.number}"

    @property
    def event_id(self) -> str:
        """The event's id, as clients know it."""
        return f"{self.ms}-{self.number}-{self.place}"


@dataclass(eq=False)
class Batch:
    """Events of one entry: all of them or, where it is large, those from `first` on."""

    channel: Channel
    entry_id: str
    epoch: str
    events: Sequence[LiveEvent]
    first: int = 0

    @cached_property
    def begin(self) -> Place:
        """Where its first event is."""
        return Place.in_entry(self.entry_id, self.first)

    @cached_property
    def end(self) -> Place:
        """Where its last event is."""
        return Place.in_entry(self.entry_id, self.first + max(0, len(self.events) - 1))

    @cached_property
    def size_bytes(self) -> int:
        """About what it takes in memory, with frames."""
        return sum(2 * len(event.frame) + _EVENT_BYTES for event in self.events)

    @cached_property
    def frames(self) -> list[bytes]:
        """The WebSocket frames of its events, ids in them; built once, for everybody."""
        with_id, entry_id = channels.with_id, self.entry_id
        return [
            text_frame(with_id(event.frame, f"{entry_id}-{place}"))
            for place, event in enumerate(self.events, self.first)
        ]

    def frames_of(self, threshold: float | None) -> list[bytes]:
        """Return the frames of its events for a client with a threshold of its own."""
        if threshold is None:
            return self.frames
        own = [
            replace(event, frame=channels.with_threshold(event.frame, threshold))
            if event.index[_FELL] is not None
            else event
            for event in self.events
        ]
        return replace(self, events=own).frames

    @cached_property
    def joined(self) -> bytes:
        """All its frames."""
        return b"".join(self.frames)


@dataclass(frozen=True)
class Gap:
    """Between two events of a stream some are or may be lost; None: that end is not known."""

    channel: Channel
    reason: Reason
    after: Place | None
    before: Place | None
    size_bytes: int = field(default=_EVENT_BYTES, repr=False)

    @cached_property
    def frame(self) -> bytes:
        """The WebSocket frame that reports it to a client."""
        return messages.gap(
            self.channel.channel,
            self.reason,
            self.after and self.after.event_id,
            self.before and self.before.event_id,
            GAP_TEXTS[self.reason],
        )
