"""What every client must get, by `Filter.matches` alone: how many events, and how many bytes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from infra.bench.roles import BenchFailed
from schemas import channels
from schemas.channels import Channel, LiveEvent
from stream_gateway.bench.crowd import Report
from stream_gateway.bench.feed import Fed
from stream_gateway.bench.market import Flush
from stream_gateway.bench.mix import Connection
from stream_gateway.subscriptions import Filter

_CHANNELS = {channel.channel: channel for channel in channels.ALL}


@dataclass(frozen=True, slots=True)
class _Place:
    """An event: its flush, and its place in that one's entry."""

    flush: int
    place: int
    event: LiveEvent


class Oracle:
    """Which client must get what of some flushes, decided filter by filter, event by event."""

    def __init__(self, flushes: Sequence[Flush], connections: Sequence[Connection]) -> None:
        self._connections = connections
        self._events: dict[Channel, list[_Place]] = {
            channel: [
                _Place(number, place, event)
                for number, flush in enumerate(flushes)
                for place, event in enumerate(flush.events.get(channel, ()))
            ]
            for channel in channels.ALL
        }
        self._matching: dict[Filter, list[int]] = {}  # numbers of events of the filter's channel
        for connection in connections:
            for each in connection.subscriptions:
                if each.filter not in self._matching:
                    self._matching[each.filter] = [
                        number
                        for number, one in enumerate(self._events[_CHANNELS[each.filter.channel]])
                        if each.filter.matches(one.event.index)
                    ]

        self.counts = [
            sum(len(self._matching[each.filter]) for each in connection.subscriptions)
            for connection in connections
        ]
        """Of each client how many events it is to get."""

    def check(self, fed: Fed, report: Report, but: Collection[int] = ()) -> None:
        """Raise BenchFailed unless each client got the events it is to get: by number and bytes.

        With the ids that the store gave, so the bytes are those of the very frames.
        """
        lengths = {
            channel: [
                len(channels.with_id(one.event.frame, _id(fed, channel, one))) for one in places
            ]
            for channel, places in self._events.items()
        }
        sizes = {
            each: sum(lengths[_CHANNELS[each.channel]][number] for number in numbers)
            for each, numbers in self._matching.items()
        }
        for number, wanted in enumerate(self.counts):
            if number in but:
                continue
            connection = self._connections[number]
            size = sum(sizes[each.filter] for each in connection.subscriptions)
            got = (report.events[number], report.bytes[number])
            if got != (wanted, size):
                raise BenchFailed(
                    f"client {number} ({connection.kind}) got {got[0]} events of {got[1]} bytes, "
                    f"not {wanted} of {size}; other messages to all: {report.others}"
                )

    def size_of(self, number: int) -> int:
        """Return how many bytes a client is sent, ids left out."""
        return sum(
            len(self._events[_CHANNELS[each.filter.channel]][event].event.frame)
            for each in self._connections[number].subscriptions
            for event in self._matching[each.filter]
        )


def _id(fed: Fed, channel: Channel, one: _Place) -> str:
    return channels.event_id(fed.ids[one.flush][channel], one.place)
