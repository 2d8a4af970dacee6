"""Rows of a checkpoint's day as they were at the checkpoint: for a rebuild that goes back to one.

`positions` and `wallet_days` have one row a day. A row of the day that a later slot wrote has
replaced the one as of the checkpoint; when it is deleted, the day has none. The restored books
have the figures of both. All rows of the day are written, not only those that are missing: a
rebuild that was interrupted has deleted them before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final
from uuid import uuid4

from clickhouse_connect.driver.client import Client

from pipeline.agents.pnl.rows import Row, date_of, position_row, wallet_day_row
from pipeline.agents.pnl.store import Store
from pipeline.agents.settled.quarantine import UNREADABLE
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.positions import (
    COLD_MARK,
    Position,
    unpack_cold,
    unpack_figures,
    unpack_wallet_day,
)
from schemas.rows import COLD_POSITIONS, POSITIONS, WALLET_DAYS
from schemas.solana.addresses import text
from schemas.times import DAY_MS
from schemas.topics import SETTLED_BY_WALLET

WALLETS_AT_ONCE: Final = 500
ROWS_AT_ONCE: Final = 10_000  # of an insert

_LAST_SLOT_BEFORE: Final = f"""
SELECT max(slot) FROM {WALLET_DAYS.name}
WHERE day < {{day:Date}} AND CRC32(wallet) % {{count:UInt32}} = {{number:UInt32}}
"""  # noqa: S608
_PUT_AWAY: Final = f"""
SELECT wallet, mint, packed FROM {COLD_POSITIONS.name}
WHERE partition = {{place:UInt8}} AND wallet IN {{wallets:Array(String)}}
    AND slot > {{after:UInt64}} AND slot <= {{until:UInt64}}
ORDER BY wallet, mint, slot DESC LIMIT 1 BY wallet, mint
"""  # noqa: S608


class CheckpointDay:
    """The last day of one partition's books, which Redis has as of a slot."""

    def __init__(
        self, store: Store, client: Client, sink: ClickHouseSink, partition: int, slot: int
    ) -> None:
        self._store = store
        self._client = client
        self._sink = sink
        self._partition = partition
        self._slot = slot

    async def write(self) -> int:
        """Write its rows of positions and wallets; return how many there are.

        ClickHouse must not have rows of later slots: one of these would replace one of them.
        Raises RedisError, ClickHouseError.
        """
        day = await self._store.read_clock_ms() // DAY_MS
        before = await asyncio.to_thread(self._last_slot_before, day)
        written = 0
        positions: list[Row] = []
        async for part in self._store.scan_day(day, WALLETS_AT_ONCE):
            figures = {text(raw): packed for raw, packed in part.items()}
            written += await self._insert(WALLET_DAYS.name, _day_rows(figures, day))
            async for wallet, mint, position in self._changed_after(before, [*figures]):
                positions.append(position_row(position, wallet, mint, day))
                if len(positions) >= ROWS_AT_ONCE:
                    written += await self._insert(POSITIONS.name, positions)
                    positions = []
        return written + await self._insert(POSITIONS.name, positions)

    async def _changed_after(
        self, slot: int, wallets: Sequence[str]
    ) -> AsyncIterator[tuple[str, str, Position]]:
        """Yield wallet, mint and position of those that changed after a slot."""
        put_away = await asyncio.to_thread(self._put_away_after, slot, wallets)
        async for wallet, found in self._store.scan_positions(wallets):
            for raw, packed in found.items():
                if raw == COLD_MARK:
                    continue
                mint = text(raw)
                put_away.pop((wallet, mint), None)  # it is back
                if (position := _position(packed)) and position.changed_slot > slot:
                    yield wallet, mint, position
        for (wallet, mint), row in put_away.items():
            if (position := _position_put_away(row)) and position.changed_slot > slot:
                yield wallet, mint, position

    def _last_slot_before(self, day: int) -> int:
        """Return the last slot before a day that changed anything, 0 where none did."""
        parameters = {
            "day": date_of(day),
            "count": SETTLED_BY_WALLET.partitions,
            "number": self._partition,
        }
        [(slot,)] = self._client.query(_LAST_SLOT_BEFORE, parameters=parameters).result_rows
        return int(slot)

    def _put_away_after(self, slot: int, wallets: Sequence[str]) -> dict[tuple[str, str], bytes]:
        """Return the positions put away since a slot, by wallet and mint."""
        found = self._client.query(
            _PUT_AWAY,
            parameters={
                "place": SETTLED_BY_WALLET.place(self._partition),
                "wallets": list(wallets),
                "after": slot,
                "until": self._slot,
            },
            column_formats={"packed": "bytes"},
        )
        return {(wallet, mint): bytes(packed) for wallet, mint, packed in found.result_rows}

    async def _insert(self, table: str, rows: Sequence[Row]) -> int:
        # A token of its own: an equal block that an earlier rebuild wrote may be deleted since.
        await self._sink.insert(table, rows, uuid4().hex)
        return len(rows)


# A value that cannot be read has no row: the agents leave its wallet out, and rebuild mends it.


def _day_rows(figures: dict[str, bytes], day: int) -> list[Row]:
    rows = []
    for wallet, packed in figures.items():
        try:
            rows.append(wallet_day_row(unpack_wallet_day(packed), wallet, day))
        except UNREADABLE:
            continue
    return rows


def _position(packed: bytes) -> Position | None:
    try:
        return unpack_figures(packed, Position)
    except UNREADABLE:
        return None


def _position_put_away(row: bytes) -> Position | None:
    try:
        return _position(unpack_cold(row)[0])
    except UNREADABLE:
        return None
