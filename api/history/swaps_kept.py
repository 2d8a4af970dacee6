"""The block time from which on all swaps are stored: since the tape began, or within their TTL.

ClickHouse counts `CLICKHOUSE_SWAPS_DAYS` from when a row was written, which is never before its
block time. While the database is younger than that, no row has expired. Rows that an earlier,
shorter setting removed do not come back: then the oldest swap is days after the tape's first block.
"""

from __future__ import annotations

import time
from typing import Final

from api.stores.caches import SharedReading
from api.stores.clients import Stores
from infra.clickhouse.sql import load
from schemas.times import DAY_MS, HOUR_MS

FRESH_FOR_S: Final = 30.0
_KEPT: Final = load(__package__, "swaps_kept")


class KeptSwaps:
    """Reads from when on swaps are stored, at most every FRESH_FOR_S."""

    def __init__(self, stores: Stores, days: int) -> None:
        self._stores = stores
        self._days = days  # that a swap is kept; 0: for ever
        self.from_ms = SharedReading(self._read, FRESH_FOR_S).get

    async def _read(self) -> int | None:
        """Return the block time from which on all are kept, None without a slot; raises Problem."""
        [row] = await self._stores.query(_KEPT, {})
        now_ms = time.time_ns() // 1_000_000
        return kept_from(row["begin_ms"], row["oldest_ms"], row["made_ms"], now_ms, self._days)


def kept_from(begin_ms: int, oldest_ms: int, made_ms: int, now_ms: int, days: int) -> int | None:
    """Return the block time from which on all swaps are kept; None: nothing is recorded.

    `begin_ms` is the tape's first block, `oldest_ms` the oldest swap's, 0 where there is none;
    `made_ms` when the database was made; `days` how long a swap is kept, 0 for ever.
    """
    if not begin_ms:
        return None
    kept = oldest_ms if oldest_ms // DAY_MS > begin_ms // DAY_MS else begin_ms
    # In whole hours: the same page keeps its ETag for an hour.
    expired_ms = -((days * DAY_MS - now_ms) // HOUR_MS) * HOUR_MS
    return max(kept, expired_ms) if days and made_ms <= expired_ms else kept
