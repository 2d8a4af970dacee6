"""The Kafka topics: names, keys, partition counts and retention.

A partition is `crc32(key) % partitions` (librdkafka's `consistent` partitioner), so any
producer and any consumer can say where a mint or a wallet lives.

The settled lanes alone can be given more partitions, twice as many or four times (`soltape
partitions raise`): books are kept by them. Each count has its own pair of topics, and its own
numbers in the stores (`Topic.place`), so that what belongs to two counts is never mixed up. A
process has one count, SETTLED_PARTITIONS, which `use_settled_partitions` sets at its start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from zlib import crc32

from schemas.times import DAY_MS, HOUR_MS

FEWEST_SETTLED: Final = 8
SETTLED_COUNTS: Final = (8, 16, 32, 64, 128)  # each the double of the one before: see `place`


@dataclass(slots=True)
class _Process:
    settled_partitions: int = FEWEST_SETTLED


_process: Final = _Process()


def use_settled_partitions(count: int) -> None:
    """Set how many partitions the settled lanes have for this process; one of SETTLED_COUNTS."""
    if count not in SETTLED_COUNTS:
        raise ValueError(f"{count} is none of {SETTLED_COUNTS}")
    _process.settled_partitions = count


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: what its messages are, what they are keyed by, how long they stay."""

    first_name: str
    message: str  # the message type in schemas/proto/tape.proto
    key: Literal["mint", "wallet", "account", "slot", "signature"]
    fixed_partitions: int | None  # None: as many as the settled lanes have
    retention_ms: int
    about: str

    @property
    def name(self) -> str:
        """The topic's name on the broker."""
        if self.fixed_partitions is None and self.partitions != FEWEST_SETTLED:
            return f"{self.first_name}-{self.partitions}"
        return self.first_name

    @property
    def partitions(self) -> int:
        """How many partitions the topic has."""
        return self.fixed_partitions or _process.settled_partitions

    def partition(self, key: str) -> int:
        """Return the partition of a key."""
        return crc32(key.encode()) % self.partitions

    def place(self, partition: int) -> int:
        """Return the number that the stores know a partition of a settled lane by.

        Of 8 partitions 0 to 7, of 16 partitions 16 to 31, of 32 partitions 32 to 63: what is in a
        place depends on its number alone, whichever counts came before and after.
        """
        count = self.partitions
        return partition if count == FEWEST_SETTLED else count + partition

    def place_of(self, key: str) -> int:
        """Return the place of a key."""
        return self.place(self.partition(key))

    def with_partitions(self, count: int) -> Topic:
        """Return the settled lane of a count, whichever this process has."""
        return SettledLane(
            self.first_name, self.message, self.key, None, self.retention_ms, self.about, count
        )


@dataclass(frozen=True, slots=True)
class SettledLane(Topic):
    """A settled lane of one count."""

    count: int = FEWEST_SETTLED

    @property
    def partitions(self) -> int:
        """How many partitions the topic has."""
        return self.count


def count_of_place(place: int) -> int:
    """Return how many partitions the settled lanes had that a place is of."""
    return max(FEWEST_SETTLED, 1 << (place.bit_length() - 1)) if place else FEWEST_SETTLED


def places_ever(lane: Topic, key: str) -> tuple[int, ...]:
    """Return the places that a key has had, if the count was raised, and has now."""
    counts = (count for count in SETTLED_COUNTS if count <= lane.partitions)
    return tuple(lane.with_partitions(count).place_of(key) for count in counts)


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
    "tape-settled-by-mint", "SlotBatch", "mint", None, 3 * DAY_MS, "internal: confirmed slots"
)
SETTLED_BY_WALLET: Final = Topic(
    "tape-settled-by-wallet", "SlotBatch", "wallet", None, 3 * DAY_MS, "internal: confirmed slots"
)
SETTLED_ACCOUNTS: Final = Topic(
    "tape-settled-accounts",
    "SlotBatch",
    "account",
    8,
    3 * DAY_MS,
    "internal: accounts at the end of confirmed slots",
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
    SETTLED_ACCOUNTS,
    UNDECODED,
    GAPS,
)
SETTLED: Final = (SETTLED_BY_MINT, SETTLED_BY_WALLET)
"""The settled lanes whose partitions can be raised."""


def by_name() -> dict[str, Topic]:
    """Return all topics by their names on the broker, settled lanes of every count.

    By its first name a settled lane is that of the process's count, which may not be known yet.
    """
    known = {topic.first_name: topic for topic in ALL}
    for count in SETTLED_COUNTS[1:]:
        for lane in SETTLED:
            of_count = lane.with_partitions(count)
            known[of_count.name] = of_count
    return known
