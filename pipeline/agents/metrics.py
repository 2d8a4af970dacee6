"""What `soltape agents` tells Prometheus."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

PUBLISHED: Final = Counter(
    "soltape_agents_published_total", "Messages that Kafka has acknowledged.", ["topic"]
)
POISON: Final = Counter(
    "soltape_agents_poison_total", "Messages of a lane that could not be read.", ["topic"]
)
LAG_MS: Final = Histogram(
    "soltape_agents_lag_ms",
    "From sent_ms of a batch on the lane to the acknowledgement of all that came of it.",
    ["group"],
    buckets=(1, 2, 5, 10, 15, 20, 30, 50, 75, 100, 200, 500, 1000, 5000, 60_000),
)
LAG_BATCHES: Final = Gauge(
    "soltape_agents_lag_batches", "Batches on our partitions of the lane, not done yet.", ["group"]
)
PARTITIONS: Final = Gauge("soltape_agents_partitions", "Partitions that we work on.", ["group"])
LAST_SLOT: Final = Gauge(
    "soltape_agents_last_slot", "Slot of the last event that we published.", ["group"]
)
CAUGHT_UP: Final = Gauge(
    "soltape_agents_caught_up",
    "1 while we have partitions and next to nothing waits on them.",
    ["group"],
)

# Token registry (agent `market`).
REGISTRY: Final = Counter(
    "soltape_agents_registry_total",
    "Mints asked of RPC, by outcome: found, absent, bad_account, refused, queue_full, retry.",
    ["outcome"],
)
