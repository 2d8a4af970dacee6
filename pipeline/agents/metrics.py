"""Prometheus metrics of `soltape agents`."""

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

# Settled groups.
LAG_SLOTS: Final = Gauge(
    "soltape_agents_lag_slots",
    "Slots in the log whose facts are not in the stores yet; of the partition furthest behind.",
    ["group"],
)
WATERMARK_SLOT: Final = Gauge(
    "soltape_agents_watermark_slot",
    "The last slot whose facts are in the stores.",
    ["group", "partition"],
)
FLUSH_MS: Final = Histogram(
    "soltape_agents_flush_ms",
    "From taking what changed to the last watermark written.",
    ["group"],
    buckets=(2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 60_000),
)
FLUSHED: Final = Counter(
    "soltape_agents_flushed_total", "Rows and Redis commands written.", ["group", "kind"]
)
APPLIED_SLOTS: Final = Counter(
    "soltape_agents_applied_slots_total", "Slots in the stores, of all partitions.", ["group"]
)
SKIPPED_SLOTS: Final = Counter(
    "soltape_agents_skipped_slots_total", "Messages whose slot was there already.", ["topic"]
)
LOST_SLOTS: Final = Counter(
    "soltape_agents_lost_slots_total",
    "Slots that the log no longer had, or that could not be read: gaps of the group.",
    ["topic"],
)
SEEKS_BACK: Final = Counter(
    "soltape_agents_seeks_back_total",
    "Times that Kafka's position was ahead of the stores' watermark.",
    ["topic"],
)
CHECKPOINT_SLOT: Final = Gauge(
    "soltape_agents_checkpoint_slot",
    "The slot as of which ClickHouse has a partition's books.",
    ["group", "partition"],
)
CHECKPOINT_VALUES: Final = Counter(
    "soltape_agents_checkpoint_values_total",
    "Values of Redis written to checkpoints.",
    ["group"],
)
QUARANTINED: Final = Gauge(
    "soltape_agents_quarantined",
    "Wallets or mints left out, as a stored value of theirs cannot be read.",
    ["group", "partition"],
)
REOPENED: Final = Counter(
    "soltape_agents_reopened_total",
    "Times that books were opened again at the store's watermark.",
    ["group"],
)
EVICTED: Final = Counter(
    "soltape_agents_evicted_total",
    "Wallets (group pnl) or markets of tokens (market) put away before they were due, as Redis was "
    "full.",
    ["group"],
)
REDIS_HOLDING: Final = Gauge(
    "soltape_sink_redis_holding",
    "Partitions that wait for a Redis that is away or refuses.",
    ["group"],
)
