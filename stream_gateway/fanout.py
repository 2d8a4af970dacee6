"""From batches to those who want them: matched once, framed once, joined once for equal filters.

What a batch costs is a lookup an event, a join a group that wants some of it, and a write a
subscriber. A subscriber that wants none of it costs nothing.
"""

from __future__ import annotations

from typing import Protocol

import structlog

from schemas import channels
from stream_gateway.batches import Batch, Gap
from stream_gateway.subscriptions import Filter, Group, Index

log = structlog.get_logger(__name__)


class Subscriber(Protocol):
    """A connected client; hashed by identity."""

    def deliver(self, data: bytes, events: int) -> None:
        """Take whole WebSocket frames, which hold so many events; never waits, may drop them."""

    def send(self, frame: bytes) -> None:
        """Take a frame that is no event, and is never dropped."""


class Fanout:
    """The subscriptions, and the way of a batch to their subscribers."""

    def __init__(self) -> None:
        self._indexes: dict[str, Index[Subscriber]] = {
            channel.channel: Index(channel) for channel in channels.ALL
        }
        self._groups: dict[Subscriber, dict[str, Group[Subscriber]]] = {}

    def attach(self, subscriber: Subscriber, chosen: Filter) -> None:
        """Deliver what a filter takes from here on, instead of the channel's former filter."""
        self.detach(subscriber, chosen.channel)
        group = self._indexes[chosen.channel].add(chosen, subscriber)
        self._groups.setdefault(subscriber, {})[chosen.channel] = group

    def detach(self, subscriber: Subscriber, channel: str | None = None) -> None:
        """Deliver no more of a channel, or nothing at all; without effect where nothing was."""
        groups = self._groups.get(subscriber)
        if groups is None:
            return
        for name in [channel] if channel else list(groups):
            if group := groups.pop(name, None):
                self._indexes[name].remove(group, subscriber)
        if not groups:
            del self._groups[subscriber]

    def filters(self, channel: str) -> list[Filter]:
        """Return the filters of those who are subscribed to a channel, each once."""
        return [group.filter for group in self._indexes[channel]]

    def publish(self, batch: Batch) -> None:
        """Deliver a batch to those who want some of it."""
        index = self._indexes[batch.channel.channel]
        if everything := index.everything:
            self._deliver(everything.members, batch.joined, len(batch.events))
        hits = index.match([event.index for event in batch.events])
        if not hits:
            return
        count = len(batch.events)
        for group, numbers in hits.items():
            frames = batch.frames_of(group.filter.health_below)
            if len(numbers) == count and frames is batch.frames:
                data = batch.joined
            else:
                data = b"".join([frames[number] for number in numbers])
            self._deliver(group.members, data, len(numbers))

    def gap(self, gap: Gap) -> None:
        """Send it to all subscribers of its channel, whatever their filter."""
        self.send(gap.channel.channel, gap.frame)

    def send(self, channel: str, frame: bytes) -> None:
        """Send a frame that is no event to all subscribers of a channel."""
        for group in self._indexes[channel]:
            for subscriber in group.members:
                try:
                    subscriber.send(frame)
                except Exception:
                    self._failed(subscriber)

    def _deliver(self, subscribers: tuple[Subscriber, ...], data: bytes, events: int) -> None:
        for subscriber in subscribers:
            try:
                subscriber.deliver(data, events)
            except Exception:
                self._failed(subscriber)

    def _failed(self, subscriber: Subscriber) -> None:
        # A subscriber that cannot be served does not affect the others.
        log.exception("a subscriber failed, it gets no more")
        self.detach(subscriber)
