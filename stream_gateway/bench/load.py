"""A load: what each client gets, and how a server is made to deliver it."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from stream_gateway.bench import feed
from stream_gateway.bench.crowd import Crowd, Latency, Report, crowd
from stream_gateway.bench.feed import Fed
from stream_gateway.bench.market import Flush, Market
from stream_gateway.bench.mix import Connection, connections
from stream_gateway.bench.oracle import Oracle
from stream_gateway.bench.serving import Served, Store

CLIENTS: Final = 1_000
STALLED_S: Final = 15.0  # without a delivery, then no more are waited for
_SETTLE_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """What each client gets."""

    market: Market
    connections: Sequence[Connection]
    flushes: Sequence[Flush]
    oracle: Oracle
    seconds: float
    swaps_per_second: float

    def deliveries(self, but: Collection[int] = ()) -> int:
        """How many there are to all, but for some."""
        return sum(count for number, count in enumerate(self.oracle.counts) if number not in but)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a server did with a load."""

    cpu_seconds: float
    seconds: float  # until everything was delivered
    deliveries: int
    latency: Latency
    fed_late_ms: float

    @property
    def per_cpu_second(self) -> float:
        """Deliveries a CPU-second of the server's process."""
        return self.deliveries / self.cpu_seconds


def prepare(seconds: float, swaps_per_second: float, clients: int = CLIENTS) -> Load:
    """Make the market, its events and those who want them."""
    market = Market()
    crowded = connections(market, clients)
    flushes = [*market.flushes(seconds, swaps_per_second)]
    oracle = Oracle(flushes, crowded)
    return Load(market, crowded, flushes, oracle, seconds, swaps_per_second)


def deliver(served: Served, store: Store, load: Load) -> Outcome:
    """Let a server deliver a load; raises BenchFailed where a client misses or has too much."""
    with crowd(served.url, load.connections, store.folder) as clients:
        time.sleep(_SETTLE_S)
        before, began = served.role.cpu_seconds(), time.monotonic()
        fed, received = run(served, store, load, clients)
        return Outcome(
            served.role.cpu_seconds() - before,
            time.monotonic() - began,
            sum(received.events),
            received.latency,
            fed.late_ms,
        )


def run(
    served: Served, store: Store, load: Load, clients: Crowd, but: Collection[int] = ()
) -> tuple[Fed, Report]:
    """Replay a load, wait until all of it has come, and compare with the oracle.

    Of some clients nothing is expected, and their latency is left out.
    """
    fed = feed.replay(store.settings, load.flushes)
    wanted = load.deliveries(but)
    count, moved = 0, time.monotonic()
    while (now := clients.count(but)) < wanted:
        served.role.check()
        if now > count:
            count, moved = now, time.monotonic()
        if time.monotonic() - moved > STALLED_S:
            break  # the oracle reports what is missing
        time.sleep(0.05)
    received = clients.report(but)
    load.oracle.check(fed, received, but)
    return fed, received
