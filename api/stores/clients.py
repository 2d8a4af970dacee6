"""The stores as the API sees them: one trip to Redis for many commands, SQL files to ClickHouse."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog
from clickhouse_connect.driver.asyncclient import AsyncClient
from clickhouse_connect.driver.exceptions import ClickHouseError
from prometheus_client import Counter
from redis.exceptions import RedisError

from api.access import refusals, register
from api.http.errors import TOO_COSTLY, Problem
from infra.clickhouse.client import connect_async
from infra.clickhouse.reader import LIMITS, as_reader
from infra.redis.asks import connect_pipelined
from infra.settings import Settings

log = structlog.get_logger(__name__)

FAILURES: Final = Counter(
    "soltape_api_store_failures_total", "Reads that a store did not answer.", ["store"]
)


# Projections lead to the rows of a page where they say that these are few, in small parts as well.
# By default up to a million rows a part are looked up: for a wallet's page all of its days by time.
_PROJECTIONS: Final = {
    "min_table_rows_to_use_projection_index": 0,
    "max_projection_rows_to_use_projection_index": 50_000,
}

# Limits of one query: TOO_MANY_ROWS, MEMORY_LIMIT_EXCEEDED, TOO_MANY_BYTES, TOO_MANY_ROWS_OR_BYTES.
# Memory has a limit of the whole server beside it. Time is none of them: a server that is busy with
# others is slow as well.
_OF_THE_QUERY: Final = frozenset({158, 241, 307, 396})
_WHOLE_SERVER: Final = "(total)"


class Stores:
    """Reads of Redis and ClickHouse. Whatever a store says wrong becomes a Problem."""

    def __init__(self, settings: Settings) -> None:
        self._settings = as_reader(settings)
        self.redis = connect_pipelined(settings)
        self.access = register.connect(settings)  # where the keys are
        self._clickhouse: AsyncClient | None = None
        self._connecting = asyncio.Lock()
        # ClickHouse gives up first, and says that it was the query.
        within_s = max(1, math.ceil(settings.api_timeout_s) - 1)
        longest_s = min(within_s, LIMITS["max_execution_time"])
        self._query_settings = {"max_execution_time": longest_s, **_PROJECTIONS}

    async def close(self) -> None:
        """Give the connections back."""
        await self.redis.aclose()
        await self.access.aclose()
        if self._clickhouse is not None:
            await self._clickhouse.close()

    async def ask(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return Redis's answers to reading commands, in one trip; values are bytes.

        Commands between ("MULTI",) and ("EXEC",) see one state: EXEC's answer has theirs. All of
        them are on keys of one hash tag; commands on keys of different ones have no order.
        """
        try:
            return await self.redis.ask(commands)
        except (RedisError, OSError) as error:
            raise unavailable("redis", error) from None

    async def infos(self, *sections: str) -> list[bytes]:
        """Return what each server of Redis says of itself; there are several in a cluster."""
        try:
            return [
                (await server.ask([("INFO", *sections)]))[0]
                for server in await self.redis.servers()
            ]
        except (RedisError, OSError) as error:
            raise unavailable("redis", error) from None

    async def query(self, sql: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return ClickHouse's rows, by name of column.

        `sql` comes from a file (`api.stores.sql`), values as bound parameters, {name:Type}.
        """
        try:
            client = self._clickhouse or await self._connected()
            answer = await client.query(sql, dict(parameters), self._query_settings)
            return list(answer.named_results())
        except (ClickHouseError, OSError) as error:
            if getattr(error, "code", None) in _OF_THE_QUERY and _WHOLE_SERVER not in str(error):
                raise _too_costly(error) from None
            raise unavailable("clickhouse", error) from None

    async def _connected(self) -> AsyncClient:
        async with self._connecting:  # many first requests are one connection's
            if self._clickhouse is None:
                client = await connect_async(self._settings)
                # Sent unseen: the client takes a reader's settings for fixed ones, the reader may
                # lower its limits.
                known = client.valid_transport_settings
                client.valid_transport_settings = known | {*self._query_settings}
                self._clickhouse = client
            return self._clickhouse


def _too_costly(error: Exception) -> Problem:
    log.info("query too large", reason=str(error).partition("\n")[0])
    return Problem(
        TOO_COSTLY,
        "The answer would read more than one request may; ask for a shorter range of time or fewer "
        "rows",
    )


def unavailable(store: str, error: Exception) -> Problem:
    """Return the answer to a caller; the reason is for the log alone."""
    FAILURES.labels(store).inc()
    log.warning("store does not answer", store=store, reason=str(error).partition("\n")[0])
    return refusals.store_unavailable(store)
