"""Launch platforms of the mints of one partition, as the settled slots before name them.

What is not in memory is read from ClickHouse: all of the slots before those being loaded, which is
there or in memory. So the platform of a swap is a function of the log, after a restart as well.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from infra.clickhouse.sql import parts
from pipeline.domain.launchpad import Launchpad
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.proto.tape_pb2 import SlotBatch

MINTS_IN_MEMORY: Final = 50_000
"""More than MAX_UNWRITTEN_EVENTS: a mint whose creation is not in ClickHouse yet stays."""

_OF_A_MINT: Final = ("swap", "creation", "migration")
_UNKNOWN: Final = Launchpad()
_READ: Final = """
SELECT mint, argMinIf(platform, place, is_creation), argMinIf(platform, place, NOT is_creation)
FROM
(
    SELECT mint, platform, (slot, tx_index, event_index) AS place, true AS is_creation
    FROM creations
    WHERE mint IN {mints:Array(String)} AND slot < {before:UInt64} AND platform != ''
    UNION ALL
    SELECT mint, platform, (slot, tx_index, event_index) AS place, false AS is_creation
    FROM migrations
    WHERE mint IN {mints:Array(String)} AND slot < {before:UInt64} AND platform != ''
)
GROUP BY mint
"""

ReadLaunchpads = Callable[[list[str], int], Awaitable[dict[str, Launchpad]]]
"""Reads what the slots before one name of some mints; raises ClickHouseError."""


def reader(sink: ClickHouseSink) -> ReadLaunchpads:
    """Return what reads from ClickHouse."""

    async def read(mints: list[str], before_slot: int) -> dict[str, Launchpad]:
        client = await sink.client()
        found: dict[str, Launchpad] = {}
        for some in parts(mints):
            answer = await client.query(_READ, parameters={"mints": some, "before": before_slot})
            for mint, created, migrated in answer.result_rows:
                found[mint] = Launchpad(created, migrated)
        return found

    return read


class Launchpads:
    """What is known of the mints of a partition; slots are loaded, then their events taken."""

    def __init__(self, read: ReadLaunchpads) -> None:
        self._read = read
        # Least recently used first. No LRUCache: a load may be larger than the bound, and a look-up
        # costs 0.6 us for 0.03, of the 12 us that a swap takes in agent `store`.
        # The first of a plain dict is found behind the places of all that left before.
        self._known: OrderedDict[str, Launchpad] = OrderedDict()

    async def load(self, batches: Sequence[SlotBatch]) -> None:
        """Read what is not in memory of the mints in these slots; raises ClickHouseError."""
        mints = dict.fromkeys(
            getattr(event, kind).mint
            for batch in batches
            for event in batch.events
            if (kind := event.WhichOneof("event")) in _OF_A_MINT
        )
        missing = [mint for mint in mints if mint not in self._known]
        found = await self._read(missing, batches[0].slot) if missing else {}
        for mint in mints:
            known = self._known.pop(mint, None)
            self._known[mint] = found.get(mint, _UNKNOWN) if known is None else known
        while len(self._known) > max(MINTS_IN_MEMORY, len(mints)):
            self._known.popitem(last=False)

    def created(self, mint: str, platform: str) -> None:
        """Take a creation of a loaded mint."""
        self._known[mint] = self._known[mint].with_creation(platform)

    def migrated(self, mint: str, platform: str) -> None:
        """Take a migration of a loaded mint."""
        self._known[mint] = self._known[mint].with_migration(platform)

    def of_swap(self, mint: str, named: str) -> str:
        """Return the platform of a swap of a loaded mint."""
        return self._known[mint].of_swap(named)
