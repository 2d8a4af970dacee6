"""Prometheus metrics of `soltape ingest`."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_MS: Final = (1, 2, 5, 10, 20, 35, 50, 75, 100, 150, 250, 500, 1000, 2500, 5000, 15000, 60000)

STANDBY: Final = Gauge(
    "soltape_ingest_standby", "1 while another process has the lane and this one waits."
)
STANDBY_BYTES: Final = Gauge(
    "soltape_ingest_standby_bytes", "Updates that a standby keeps for its takeover."
)
TAKEOVERS: Final = Counter(
    "soltape_ingest_takeovers_total", "Times this process became the lane's producer."
)
LANES_LOST: Final = Counter(
    "soltape_ingest_lanes_lost_total", "Times the broker refused this process as the producer."
)

# From the node.
UPDATES: Final = Counter("soltape_ingest_updates_total", "Updates taken from the stream.", ["kind"])
MALFORMED_UPDATES: Final = Counter(
    "soltape_ingest_malformed_updates_total", "Updates that are no protobuf of Yellowstone's."
)
CONNECTED: Final = Gauge("soltape_ingest_connected", "1 while the stream is open.")
RECONNECTS: Final = Counter(
    "soltape_ingest_reconnects_total", "Streams that ended, by why.", ["reason"]
)
QUEUE_DEPTH: Final = Gauge(
    "soltape_ingest_queue_updates", "Updates waiting between the read loop and the decoder."
)
QUEUE_BYTES: Final = Gauge("soltape_ingest_queue_bytes", "Their bytes.")
QUEUE_STALLS: Final = Gauge(
    "soltape_ingest_queue_stalls", "Times the read loop stopped reading because the queue was full."
)

# Decoding.
TRANSACTIONS: Final = Counter(
    "soltape_ingest_transactions_total",
    "Transactions: new, or not decoded because duplicate, late (lost: their slot was settled "
    "without them) or stale.",
    ["novelty"],
)
EVENTS: Final = Counter("soltape_ingest_events_total", "Events decoded.", ["kind"])
OUTCOMES: Final = Counter(
    "soltape_ingest_outcomes_total",
    "Instructions of the venues' programs: decoded, unknown or malformed.",
    ["dex", "outcome"],
)

# Slots.
SLOTS: Final = Counter("soltape_ingest_slots_total", "Slots by what became of them.", ["status"])
TIP_SLOT: Final = Gauge("soltape_ingest_tip_slot", "Highest slot heard of.")
SETTLED_SLOT: Final = Gauge("soltape_ingest_settled_slot", "Last slot that left the ledger.")
PUBLISHED_SLOT: Final = Gauge(
    "soltape_ingest_published_slot", "Last settled slot that Kafka acknowledged."
)
LAG_SLOTS: Final = Gauge(
    "soltape_ingest_lag_slots", "Slots between the tip and the last one published."
)
LAG_MS: Final = Gauge(
    "soltape_ingest_lag_ms", "From the node's created_at to decoding, of the last update decoded."
)
HELD_SLOTS: Final = Gauge("soltape_ingest_ledger_slots", "Unsettled slots in the ledger.")
CONFLICTS: Final = Gauge(
    "soltape_ingest_conflicts", "Confirmed slots that do not descend from what was settled."
)
GAP_SLOTS: Final = Counter("soltape_ingest_gap_slots_total", "Slots that could not be had.")
BACKFILLED: Final = Counter(
    "soltape_ingest_backfill_slots_total", "Slots asked of RPC, by its answer.", ["answer"]
)
SOL_USD: Final = Gauge("soltape_ingest_sol_usd", "Reference price of the last settled slot.")

# To Kafka.
LIVE_LATENCY: Final = Histogram(
    "soltape_ingest_live_latency_ms",
    "From the node's created_at to Kafka's acknowledgement, of each event.",
    buckets=_MS,
)
PUBLISH_LATENCY: Final = Histogram(
    "soltape_ingest_publish_latency_ms", "From produce to acknowledgement.", ["lane"], buckets=_MS
)
KAFKA_DOWN: Final = Gauge("soltape_ingest_kafka_down", "1 while no broker is reachable.")
KAFKA_QUEUE: Final = Gauge(
    "soltape_ingest_kafka_queue_messages", "Messages produced and not yet acknowledged."
)
KAFKA_STALLS: Final = Counter(
    "soltape_ingest_kafka_stalls_total", "Times decoding paused for Kafka to catch up."
)
