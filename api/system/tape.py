"""How fast the tape runs and what is understood of it: the newest hour, by its own clock.

What is counted is what the settled lanes say of each slot, so it is the same for all callers of any
process, and a slot that was written twice counts once. An hour is some 9,000 slots.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from api.http.encoding import Encoded, encode
from api.stores.caches import SharedReading
from api.stores.clients import Stores
from api.system.answers import Minute, Rates, System
from infra.clickhouse.sql import load
from schemas.times import MINUTE_MS

FRESH_FOR_S: Final = 2.0
_PARAMETERS: Final = {
    "minutes": 60,
    "minute_ms": MINUTE_MS,
    "most_slots": 36_000,  # of an hour: a chain four times as fast as Solana's
}
_SLOTS: Final = load(__package__, "system_slots")
_SWAPS: Final = load(__package__, "system_swaps")
_VENUES: Final = load(__package__, "system_venues")

_Rows = list[dict[str, Any]]


class SystemReader:
    """Reads the hour, for all requests of a process."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._reading = SharedReading(self._read, FRESH_FOR_S)

    async def last_hour(self) -> Encoded:
        """Return the figures of the tape (`answers.System`); raises Problem."""
        return await self._reading.get()

    async def _read(self) -> Encoded:
        slots, swaps, venues = await asyncio.gather(
            *(self._stores.query(sql, _PARAMETERS) for sql in (_SLOTS, _SWAPS, _VENUES))
        )
        return encode(figures(slots, swaps, venues))


def figures(slots: _Rows, swaps: _Rows, venues: _Rows) -> System:
    """Return the answer; `slots` and `swaps` count minutes back from the newest block."""
    if not slots:
        return {"as_of_slot": None, "as_of_ms": None, "rates": None, "minutes": [], "venues": []}
    as_of_ms = max(row["last_ms"] for row in slots)
    swaps_of = {row["minute"]: row["swaps"] for row in swaps}
    minutes: list[Minute] = [
        {
            "start_ms": as_of_ms - (row["minute"] + 1) * MINUTE_MS,
            "slots": row["slots"],
            "transactions": row["transactions"],
            "swaps": swaps_of.get(row["minute"], 0),
            "unknown": row["unknown"],
            "malformed": row["malformed"],
        }
        for row in reversed(slots)
    ]
    tape_ms = as_of_ms - min(row["first_ms"] for row in slots)
    return {
        "as_of_slot": max(row["last_slot"] for row in slots),
        "as_of_ms": as_of_ms,
        "rates": _rates(minutes[-1], min(tape_ms, MINUTE_MS)),
        "minutes": minutes,
        "venues": [
            {
                "dex": row["dex"] or None,
                "swaps": row["swaps"],
                "decoded": row["decoded"],
                "unknown": row["unknown"],
                "malformed": row["malformed"],
            }
            for row in venues
        ],
    }


def _rates(last: Minute, window_ms: int) -> Rates | None:
    if window_ms <= 0:
        return None
    window_s = window_ms / 1000
    return {
        "window_s": window_s,
        "slots_per_s": last["slots"] / window_s,
        "transactions_per_s": last["transactions"] / window_s,
        "swaps_per_s": last["swaps"] / window_s,
    }
