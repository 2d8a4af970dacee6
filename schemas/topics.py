"""The Kafka topics: names, keys, partition counts and retention, fixed from day one.

A partition is `crc32(key) % partitions` (librdkafka's `consistent` partitioner), so any
producer and any consumer can say where a mint or a wallet lives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from zlib import crc32

from schemas.times import DAY_MS, HOUR_MS


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: what its messages are, what they are keyed by, how long they stay."""

    name: str
    message: str  # the message type in schemas/proto/tape.proto
    key: Literal["mint", "wallet", "slot", "signature"]
    partitions: int
    retention_ms: int
    about: str

    def partition(self, key: str) -> int:
        """Return the partition of a key."""
        return crc32(key.encode()) % self.partitions


SWAPS: Final = Topic(
    "solana-dex-swaps", "Swap", "mint", 8, 7 * DAY_MS, "every DEX swap as it is processed"
)
CREATIONS: Final = Topic(
    "solana-token-creations", "Creation", "mint", 8, 7 * DAY_MS, "every token creation"
)
PRICES: Final = Topic(
    "solana-token-prices", "PriceUpdate", "mint", 8, DAY_MS, "token prices derived from swaps"
)
SLOT_STATUS: Final = Topic(
    "solana-slot-status", "SlotStatus", "slot", 1, 7 * DAY_MS, "what became of each slot"
)

LIVE: Final = Topic(
    "tape-live", "LiveBatch", "mint", 8, HOUR_MS, "internal: events before confirmation"
)
SETTLED_BY_MINT: Final = Topic(
    "tape-settled-by-mint", "SlotBatch", "mint", 8, 3 * DAY_MS, "internal: confirmed slots"
)
SETTLED_BY_WALLET: Final = Topic(
    "tape-settled-by-wallet", "SlotBatch", "wallet", 8, 3 * DAY_MS, "internal: confirmed slots"
)
UNDECODED: Final = Topic(
    "tape-undecoded", "Undecoded", "signature", 4, 7 * DAY_MS, "what no decoder could read, and why"
)
GAPS: Final = Topic("tape-gaps", "SlotGap", "slot", 1, 90 * DAY_MS, "slots that could not be had")

ALL: Final = (
    SWAPS,
    CREATIONS,
    PRICES,
    SLOT_STATUS,
    LIVE,
    SETTLED_BY_MINT,
    SETTLED_BY_WALLET,
    UNDECODED,
    GAPS,
)
BY_NAME: Final = {topic.name: topic for topic in ALL}
