"""Prometheus metrics of agent `live`, beside those of every group."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

TRADES: Final = Counter(
    "soltape_live_trades_total",
    "What became of swaps as trades that make a price; the price of the swap itself stays on it.",
    ["verdict"],
)
UNREMEMBERED: Final = Counter(
    "soltape_live_prices_unremembered_total",
    "Mints whose price began anew because Redis could not be asked for what was before.",
)
FRAMES: Final = Counter(
    "soltape_live_frames_total", "Frames that were written to a live stream.", ["stream"]
)
FRAMES_DROPPED: Final = Counter(
    "soltape_live_frames_dropped_total",
    "Frames that did not reach the live streams: Redis was away for longer than could be held.",
    ["stream"],
)
EPOCHS: Final = Counter(
    "soltape_live_epochs_total", "Epochs begun: times that the live streams may have a hole."
)
REDIS_AWAY: Final = Gauge(
    "soltape_live_redis_away", "1 while Redis is away: frames and last prices wait in memory."
)
HELD_BYTES: Final = Gauge("soltape_live_held_bytes", "Frames that wait to be written to Redis.")
BROKER_LOG_BYTES: Final = Gauge(
    "soltape_live_broker_log_bytes",
    "What a topic takes on the brokers, all replicas. None while they do not answer.",
    ["topic"],
)
BROKER_DISK_BYTES: Final = Gauge(
    "soltape_live_broker_disk_bytes",
    "The brokers' volume with the smallest free share, `of` free or total.",
    ["of"],
)
