"""What it costs to find the receivers of an event among more and more other clients.

In this process: the gateway's own index and fan-out, and subscribers that count. What they get is
written nowhere, so a cost that grew with those who match nothing would not hide behind the writes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from infra.bench.roles import BenchFailed
from stream_gateway.batches import Batch
from stream_gateway.bench.feed import EPOCH
from stream_gateway.bench.market import Flush, Market
from stream_gateway.bench.mix import Connection, unmatched
from stream_gateway.fanout import Fanout
from stream_gateway.subscriptions import Filter

MORE: Final = (1_000, 10_000)


class _Counting:
    """A subscriber that counts what it is given."""

    def __init__(self) -> None:
        self.events = 0

    def deliver(self, data: bytes, events: int) -> None:
        self.events += events

    def send(self, frame: bytes) -> None:
        raise AssertionError("no frame but events is sent here")


def measure(
    market: Market, connections: Sequence[Connection], flushes: Sequence[Flush], rounds: int
) -> dict[str, Any]:
    """Return microseconds of CPU an event, without and with those who match nothing; the least
    of some rounds, one of each in turn. Raises BenchFailed where these got anything."""
    crowds = {0: _Crowd(connections, [])}
    for more in MORE:
        crowds[more] = _Crowd(connections, unmatched(market, more))
    events = sum(len(each) for flush in flushes for each in flush.events.values())
    spent: dict[int, list[float]] = {more: [] for more in crowds}
    for _ in range(rounds):
        for more, crowd in crowds.items():
            spent[more].append(crowd.publish(flushes))
    for more, crowd in crowds.items():
        crowd.check(like=crowds[0], more=more)
    least = {more: min(seconds) for more, seconds in spent.items()}
    return {
        "us_per_event": round(least[0] / events * 1e6, 1),
        **{
            f"with_{more}_more": {
                "us_per_event": round(least[more] / events * 1e6, 1),
                "ratio": round(least[more] / least[0], 3),
            }
            for more in MORE
        },
    }


class _Crowd:
    """Subscribers: those of the bench, and some more."""

    def __init__(self, connections: Sequence[Connection], more: Sequence[Filter]) -> None:
        self._fanout = Fanout()
        self._first = [_Counting() for _ in connections]
        self._more = [_Counting() for _ in more]
        for subscriber, connection in zip(self._first, connections, strict=True):
            for each in connection.subscriptions:
                self._fanout.attach(subscriber, each.filter)
        for subscriber, chosen in zip(self._more, more, strict=True):
            self._fanout.attach(subscriber, chosen)

    def publish(self, flushes: Sequence[Flush]) -> float:
        """Return the CPU seconds of publishing all of it, the frames built anew."""
        batches = [
            Batch(channel, f"{flush.at_ms}-0", EPOCH, events)
            for flush in flushes
            for channel, events in flush.events.items()
        ]
        began = time.process_time()
        for batch in batches:
            self._fanout.publish(batch)
        return time.process_time() - began

    def check(self, *, like: _Crowd, more: int) -> None:
        """Raise BenchFailed unless these got what those got, and the others nothing."""
        got = [each.events for each in self._first]
        if got != [each.events for each in like._first] or any(e.events for e in self._more):
            raise BenchFailed(f"with {more} more subscribers others get other events")
