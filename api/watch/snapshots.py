"""Net worth by the hour, to ClickHouse: the first reading of a wallet in an hour, or a better one.

A row is as of the reading, in the hour of its block time. Where a part was not known its sums are
null, and a later reading of the same hour that knows all takes its place (the table keeps the row
of the highest slot). Rows wait here while ClickHouse is away, so many at most; hours that are lost
then are gaps of the series. What ClickHouse has is noted in Redis after it has it. Where that note
was lost, a row that lacks a part must not take the place of one that lacks nothing: ClickHouse is
asked first.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import aiohttp
import structlog
from clickhouse_connect.driver.asyncclient import AsyncClient

from api.analysis.service import Measured
from api.watch.metrics import SNAPSHOTS, SNAPSHOTS_DROPPED, SNAPSHOTS_WAITING
from infra.clickhouse.client import ClickHouseError, connect_async
from infra.clickhouse.replication import INSERT_SETTINGS
from infra.settings import Settings
from schemas.rows import NET_WORTH_SNAPSHOTS, Row
from schemas.times import HOUR_MS

log = structlog.get_logger(__name__)

FLUSH_EVERY_S: Final = 5.0
FLUSH_ROWS: Final = 500
MOST_WAITING: Final = 20_000
TOO_LARGE: Final = "too_large"
"""The reason of a snapshot whose sums no column holds: a price that is a mistake."""
_MOST: Final = (1 << 127) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Snapshot(NamedTuple):
    """What a wallet was worth."""

    wallet: str
    hour_ms: int
    is_complete: bool
    row: Row


def snapshot(wallet: str, measured: Measured) -> Snapshot:
    """Return the row of a reading."""
    worth = measured.worth
    reasons = [str(each) for each in worth["reasons"]]
    sums = [
        None if each is None else int(each)
        for each in (
            worth["value_usd_micros"],
            worth["assets_usd_micros"],
            worth["debts_usd_micros"],
        )
    ]
    if any(each is not None and abs(each) > _MOST for each in sums):
        reasons.append(TOO_LARGE)
    if reasons:
        sums = [None, None, None]
    hour_ms = measured.as_of_ms - measured.as_of_ms % HOUR_MS
    row = (
        wallet,
        _time(hour_ms),
        _time(measured.as_of_ms),
        measured.as_of_slot,
        *sums,
        not reasons,
        reasons,
        worth["unpriced"],
        len(measured.positions["pending"]),
    )
    return Snapshot(wallet, hour_ms, not reasons, row)


class SnapshotWriter:
    """Rows on their way to ClickHouse."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: AsyncClient | None = None
        self._waiting: dict[tuple[str, int], Snapshot] = {}  # by wallet and hour
        self._is_away = False

    def has(self, wallet: str, hour_ms: int, *, is_complete: bool) -> bool:
        """Return whether an hour's row waits that is no worse."""
        waiting = self._waiting.get((wallet, hour_ms))
        return waiting is not None and waiting.is_complete >= is_complete

    @property
    def waiting(self) -> int:
        """How many rows wait."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether as many rows wait as are written at once."""
        return len(self._waiting) >= FLUSH_ROWS

    def put(self, taken: Snapshot) -> None:
        """Take a row; the oldest goes where too many wait."""
        self._waiting[taken.wallet, taken.hour_ms] = taken
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
            SNAPSHOTS_DROPPED.inc()
        SNAPSHOTS_WAITING.set(len(self._waiting))

    async def flush(self) -> dict[str, tuple[int, bool]]:
        """Write what waits; return what is written by wallet: hour and completeness."""
        batch = list(self._waiting.values())[:FLUSH_ROWS]
        if not batch or (whole := await self._write(batch)) is None:
            return {}
        written: dict[str, tuple[int, bool]] = {}
        for each in batch:
            place = each.wallet, each.hour_ms
            if self._waiting.get(place) is each:  # no better one came
                del self._waiting[place]
            written[each.wallet] = each.hour_ms, each.is_complete or place in whole
            if place not in whole:
                SNAPSHOTS.labels("complete" if each.is_complete else "incomplete").inc()
        SNAPSHOTS_WAITING.set(len(self._waiting))
        return written

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.close()

    async def _write(self, batch: list[Snapshot]) -> set[tuple[str, int]] | None:
        """Write rows, but for those of hours that ClickHouse knows whole, which are returned.

        None: ClickHouse is away, and nothing is written.
        """
        table = NET_WORTH_SNAPSHOTS
        own: dict[str, Any] = {"async_insert": 0, "wait_end_of_query": 1}
        if self._settings.clickhouse_replicated:
            own |= INSERT_SETTINGS
        try:
            if self._client is None:
                self._client = await connect_async(self._settings)
            whole = await _known_whole(
                self._client, [each for each in batch if not each.is_complete]
            )
            rows = [each.row for each in batch if (each.wallet, each.hour_ms) not in whole]
            if rows:
                await self._client.insert(
                    table.name,
                    rows,
                    column_names=list(table.columns),
                    column_type_names=list(table.columns.values()),
                    settings=own,
                )
        except (ClickHouseError, OSError, TimeoutError, aiohttp.ClientError) as error:
            if not self._is_away:
                self._is_away = True
                reason = str(error).strip().partition("\n")[0][:500]
                log.warning("ClickHouse does not take snapshots: they wait", reason=reason)
            return None
        if self._is_away:
            self._is_away = False
            log.info("ClickHouse takes snapshots again")
        return whole


async def _known_whole(client: AsyncClient, lacking: list[Snapshot]) -> set[tuple[str, int]]:
    """Return the wallets and hours, of rows that lack a part, whose stored row lacks nothing."""
    if not lacking:
        return set()
    found = await client.query(
        f"SELECT wallet, toUnixTimestamp64Milli(hour) FROM {NET_WORTH_SNAPSHOTS.name} FINAL "  # noqa: S608 - the table's name
        "WHERE is_complete AND wallet IN {wallets:Array(String)} "
        "AND hour >= fromUnixTimestamp64Milli({first:Int64}, 'UTC') "
        "AND hour <= fromUnixTimestamp64Milli({last:Int64}, 'UTC')",
        parameters={
            "wallets": [each.wallet for each in lacking],
            "first": min(each.hour_ms for each in lacking),
            "last": max(each.hour_ms for each in lacking),
        },
    )
    asked = {(each.wallet, each.hour_ms) for each in lacking}
    return asked & {(wallet, int(hour_ms)) for wallet, hour_ms in found.result_rows}


def _time(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)
