"""What the gateway counts. Labels have few values: a code, a channel; never a key or an address.

What is counted for each delivery is a plain number in `Traffic`, read when somebody looks: a
counter of prometheus_client costs more than the delivery itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

_DELAY_BUCKETS_MS: Final = (1, 2, 5, 10, 20, 30, 50, 75, 100, 150, 250, 500, 1000, 2500, 10_000)

HANDSHAKES: Final = Counter(
    "soltape_gateway_handshakes_total", "Handshakes that were answered, by HTTP status.", ["status"]
)
GAVE_WAY: Final = Counter(
    "soltape_gateway_gave_way_total",
    "Connections that had not sent a whole head when too many of their kind came.",
)
CLOSES: Final = Counter(
    "soltape_gateway_closes_total",
    "Connections that ended, by close code and side: client or server. 1006: no close frame.",
    ["code", "by"],
)
MESSAGES_IN: Final = Counter(
    "soltape_gateway_messages_in_total",
    "Messages of clients, by action; refused ones as such.",
    ["action"],
)
REFUSED: Final = Counter(
    "soltape_gateway_refused_total", "Messages of clients that were not accepted.", ["code"]
)
LAGGED: Final = Counter(
    "soltape_gateway_lagged_total",
    "Times that a client's queue was full, so that events were dropped.",
)
DELAY: Final = Histogram(
    "soltape_gateway_delay_ms",
    "From an entry of a live stream, by Redis's clock, to its events being handed to sockets.",
    ["channel"],
    buckets=_DELAY_BUCKETS_MS,
)
ENTRIES: Final = Counter(
    "soltape_gateway_entries_total", "Entries read from the live streams.", ["channel"]
)
EVENTS: Final = Counter(
    "soltape_gateway_events_total", "Events read from the live streams.", ["channel"]
)
UNREADABLE: Final = Counter(
    "soltape_gateway_unreadable_total",
    "Entries of the live streams that cannot be read; clients get a gap.",
    ["channel"],
)
GAPS: Final = Counter(
    "soltape_gateway_gaps_total",
    "Gaps reported to live clients: trimmed, epoch, dropped.",
    ["channel", "reason"],
)
SOURCE_AWAY: Final = Gauge(
    "soltape_gateway_source_away", "1 while Redis does not answer: nothing comes."
)
REPLAYS: Final = Counter(
    "soltape_gateway_replays_total",
    "Subscriptions that went on from an event, by where what they missed came from: memory, redis.",
    ["source"],
)


class Traffic(Collector):
    """What the connections of this process sent and dropped, and what waits for them."""

    def __init__(self) -> None:
        self.deliveries = 0  # events handed to connections
        self.writes = 0  # of one or more events
        self.bytes = 0
        self.dropped = 0  # events
        self.queue_bytes: Callable[[], int] = int
        self.connections: Callable[[], dict[str, int]] = dict  # by endpoint

    def register(self, registry: CollectorRegistry = REGISTRY) -> None:
        """Register these numbers with all others."""
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the numbers, as prometheus_client asks for them."""
        for name, about, value in (
            ("deliveries", "Events handed to connections.", self.deliveries),
            ("writes", "Writes to connections, each of one or more events.", self.writes),
            ("sent_bytes", "Bytes of events handed to connections.", self.bytes),
            ("dropped", "Events dropped as their client reads too slowly.", self.dropped),
        ):
            yield CounterMetricFamily(f"soltape_gateway_{name}", about, value)
        yield GaugeMetricFamily(
            "soltape_gateway_queue_bytes", "What waits for clients to read it.", self.queue_bytes()
        )
        connections = GaugeMetricFamily(
            "soltape_gateway_connections", "WebSocket connections open now.", labels=["endpoint"]
        )
        for endpoint, number in self.connections().items():
            connections.add_metric([endpoint], number)
        yield connections
