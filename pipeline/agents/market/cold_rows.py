"""What of a partition's markets is in ClickHouse, and how it is read there.

A market is read as it was before a slot. A row of a later one was written by a life of the books
that Redis does not remember: it is written again when its slot comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from infra.clickhouse.sql import parts
from pipeline.agents.market.registry import Known
from pipeline.agents.market.state import restore
from pipeline.domain.market import MintMarket
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.markets import ColdMarket, exact_field, pack_cold, unpack_account
from schemas.rows import COLD_MARKETS, TOKEN_METADATA, Row

_EXACT_SIZE: Final = len(exact_field(bytes(32)))
_MARKETS: Final = f"""
SELECT mint, packed FROM {COLD_MARKETS.name}
WHERE mint IN {{mints:Array(String)}} AND slot < {{slot:UInt64}}
ORDER BY mint, slot DESC LIMIT 1 BY mint
"""  # noqa: S608
_METADATA: Final = f"""
SELECT mint, name, symbol, uri, decimals, supply_raw, token_program,
    'found', toUnixTimestamp64Milli(asked_at)
FROM {TOKEN_METADATA.name}
WHERE mint IN {{mints:Array(String)}}
ORDER BY mint, asked_at DESC LIMIT 1 BY mint
"""  # noqa: S608


class ColdRows(Protocol):
    """Reads of one partition. All raise ClickHouseError."""

    async def markets(self, mints: Sequence[str], slot: int) -> dict[str, bytes]:
        """Return packed markets, as they were put away last before a slot."""

    async def metadata(self, mints: Sequence[str]) -> dict[str, Known]:
        """Return what RPC said of mints."""


class ColdTables:
    """`ColdRows` of ClickHouse."""

    def __init__(self, sink: ClickHouseSink) -> None:
        self._sink = sink

    async def markets(self, mints: Sequence[str], slot: int) -> dict[str, bytes]:
        """Return packed markets, as they were put away last before a slot."""
        return {
            mint: bytes(packed)
            for some in parts(mints)
            for mint, packed in await self._query(_MARKETS, mints=some, slot=slot)
        }

    async def metadata(self, mints: Sequence[str]) -> dict[str, Known]:
        """Return what RPC said of mints."""
        return {
            mint: Known(*fields)
            for some in parts(mints)
            for mint, *fields in await self._query(_METADATA, mints=some)
        }

    async def _query(self, sql: str, **parameters: Any) -> Sequence[Sequence[Any]]:
        client = await self._sink.client()
        answer = await client.query(
            sql,
            parameters=parameters,
            column_formats={"packed": "bytes"} if "packed" in sql else None,
        )
        return answer.result_rows


def row(mint: str, market: ColdMarket, slot: int) -> Row:
    """Return the row of a market that is put away at a slot."""
    return mint, pack_cold(market), slot, slot


def thawed(mint: str, cold: ColdMarket) -> MintMarket:
    """Return a market that was put away; all of it counts as changed."""
    market = restore(mint, cold.fields)
    market.is_stored = False
    market.traded = b"price" in cold.fields
    market.changed_pools = set(market.pools)
    market.traders.known.update(cold.traders)
    market.traders.changed.update(cold.traders)
    holders = market.holders
    for account, packed in cold.accounts.items():
        if len(account) == _EXACT_SIZE:
            continue  # derived from the accounts
        record = unpack_account(packed)
        holders.accounts[account] = record
        holders.owners.setdefault(record.owner, 0)
        if not record.is_vault and holders.counts(record.owner):
            holders.owners[record.owner] += record.amount_raw
    holders.changed_accounts = set(holders.accounts)
    holders.changed_owners = {owner for owner, amount in holders.owners.items() if amount}
    holders.fill([], all_of_them=True)
    return market
