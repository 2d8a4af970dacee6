"""Rows to ClickHouse: one insert is one block, repeated with its token until it is there.

A block goes into a table whole or not at all. Where an answer was lost the server finds the
token among those of the last inserts and lets the repetition be; what a process writes again
after its end comes under another token, and the tables make one of two equal rows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

import aiohttp
import structlog
from clickhouse_connect.datatypes.registry import get_from_name
from clickhouse_connect.driver.asyncclient import AsyncClient
from clickhouse_connect.driver.insert import InsertContext
from clickhouse_connect.driver.transform import NativeTransform
from prometheus_client import Counter, Gauge, Histogram

from infra.backoff import Backoff
from infra.clickhouse.client import ClickHouseError, connect_async
from infra.clickhouse.replication import INSERT_SETTINGS
from infra.settings import Settings
from schemas.rows import TABLES

log = structlog.get_logger(__name__)

MAX_INSERT_ROWS: Final = 100_000
BACKOFF_S: Final = (0.1, 5.0)  # the first pause and the longest

ROWS: Final = Counter("soltape_sink_clickhouse_rows_total", "Rows that are there.", ["table"])
INSERTS: Final = Counter(
    "soltape_sink_clickhouse_inserts_total", "Inserts that are there.", ["table"]
)
RETRIES: Final = Counter(
    "soltape_sink_clickhouse_retries_total", "Inserts sent again, with the same token.", ["table"]
)
HOLDING: Final = Gauge(
    "soltape_sink_clickhouse_holding", "Inserts that wait for a server that is away or refuses."
)
INSERT_MS: Final = Histogram(
    "soltape_sink_clickhouse_insert_ms",
    "From the first attempt at an insert to the answer that it is there.",
    buckets=(5, 10, 20, 50, 100, 200, 500, 1000, 5000, 60_000),
)

# What is so for every attempt: it is our mistake, or the operator's, and waiting changes nothing.
# Names: ClickHouse, src/Common/ErrorCodes.cpp.
PERMANENT: Final = {
    6: "CANNOT_PARSE_TEXT",
    8: "THERE_IS_NO_COLUMN",
    10: "NOT_FOUND_COLUMN_IN_BLOCK",
    16: "NO_SUCH_COLUMN_IN_TABLE",
    20: "NUMBER_OF_COLUMNS_DOESNT_MATCH",
    27: "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
    36: "BAD_ARGUMENTS",
    47: "UNKNOWN_IDENTIFIER",
    48: "NOT_IMPLEMENTED",
    50: "UNKNOWN_TYPE",
    53: "TYPE_MISMATCH",
    60: "UNKNOWN_TABLE",
    62: "SYNTAX_ERROR",
    69: "ARGUMENT_OUT_OF_BOUND",
    70: "CANNOT_CONVERT_TYPE",
    73: "UNKNOWN_FORMAT",
    81: "UNKNOWN_DATABASE",
    115: "UNKNOWN_SETTING",
    117: "INCORRECT_DATA",
    192: "UNKNOWN_USER",
    193: "WRONG_PASSWORD",
    194: "REQUIRED_PASSWORD",
    229: "QUERY_IS_TOO_LARGE",
    349: "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN",
    497: "ACCESS_DENIED",
    516: "AUTHENTICATION_FAILED",
}


class RowsRefused(Exception):
    """ClickHouse will never take these rows; the text names the table and the reason."""


class ClickHouseSink:
    """Inserts rows, and holds while the server is away: nothing is dropped."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connected: AsyncClient | None = None
        self._connecting = asyncio.Lock()
        self._held = 0

    async def client(self) -> AsyncClient:
        """Return the client, connected; raises ClickHouseError."""
        async with self._connecting:
            if self._connected is None:
                self._connected = await connect_async(self._settings)
            return self._connected

    async def insert(
        self,
        table: str,
        rows: Sequence[tuple[Any, ...]],
        token: str,
        most_rows: int = MAX_INSERT_ROWS,
    ) -> None:
        """Insert rows, values in the order of `schemas.rows`; returns when all are there.

        A block has at most `most_rows`. A token identifies exactly these rows. Raises RowsRefused.
        """
        for at in range(0, len(rows), most_rows):
            part = rows[at : at + most_rows]
            # One thread more: the event loop goes on, and serialising is mostly C.
            body = await asyncio.to_thread(_body, table, part)
            await self._until_there(table, body, f"{token}/{at}")
            ROWS.labels(table).inc(len(part))
            INSERTS.labels(table).inc()

    async def close(self) -> None:
        """Close the connections."""
        if self._connected is not None:
            await self._connected.close()

    async def _until_there(self, table: str, body: bytes, token: str) -> None:
        backoff = Backoff(*BACKOFF_S)
        holding = False
        began = time.monotonic()
        try:
            while (reason := await self._attempt(table, body, token)) is not None:
                if not holding:
                    holding = True
                    self._hold(+1, reason)
                RETRIES.labels(table).inc()
                await backoff.wait()
            INSERT_MS.observe((time.monotonic() - began) * 1000)
        finally:
            if holding:
                self._hold(-1, None)

    async def _attempt(self, table: str, body: bytes, token: str) -> str | None:
        """Send it once; return why it may not be there, None when it is. Raises RowsRefused."""
        settings = {
            "insert_deduplication_token": token,
            "insert_deduplicate": 1,
            "async_insert": 0,  # the answer means that it is written
            "wait_end_of_query": 1,
            **(INSERT_SETTINGS if self._settings.clickhouse_replicated else {}),
        }
        try:
            client = await self.client()
            await client.raw_insert(
                insert_block=body, settings=settings, fmt="Native", compression="lz4"
            )
        except ClickHouseError as error:
            code = getattr(error, "code", None)
            if code in PERMANENT:
                raise RowsRefused(f"{table}: {_first_line(error)}") from None
            return _first_line(error)
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            return f"{type(error).__name__}: {error}"
        return None

    def _hold(self, change: int, reason: str | None) -> None:
        before, self._held = self._held, self._held + change
        HOLDING.set(self._held)
        if not before:
            log.warning("ClickHouse does not take rows: holding, retrying", reason=reason)
        elif not self._held:
            log.info("ClickHouse takes rows again")


def _body(table: str, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Return the INSERT and its data, one compressed Native block. Raises RowsRefused."""
    columns = TABLES[table].columns
    context = InsertContext(
        table,
        list(columns),
        [get_from_name(type_name) for type_name in columns.values()],
        list(zip(*rows, strict=True)),
        column_oriented=True,
        compression="lz4",
        block_size=len(rows),
    )
    wrong: list[Exception] = []
    body = b"".join(NativeTransform.build_insert(context, wrong.append))
    vars(context).clear()  # it refers to itself: its rows would wait for the garbage collector
    if wrong:
        raise RowsRefused(f"{table}: {type(wrong[0]).__name__}: {wrong[0]}")
    return body


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:500]
