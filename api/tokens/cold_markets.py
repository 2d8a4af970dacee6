"""Markets that are at rest: out of Redis, packed in ClickHouse.

Of their tokens Redis has a bit that others may share: ClickHouse may have nothing of them.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from api.http.errors import TOO_MANY_HOLDERS, Problem
from api.stores.clients import Stores
from infra.clickhouse.sql import load, parts
from schemas.away import bit
from schemas.markets import ColdMarket, Fields, unpack_cold, unpack_cold_fields
from schemas.solana.base58 import decode

_SQL: Final = load(__package__, "cold_markets")
_METADATA: Final = load(__package__, "cold_metadata")
_MOST_FIELDS: Final = 1 << 20  # bytes: 64 pools of 9 KB each, and all else there is of a market
_MOST: Final = 1 << 26  # bytes: some 800,000 accounts


class ColdToken(NamedTuple):
    """A token whose market is in ClickHouse."""

    fields: Fields  # of the market
    asked: bytes | None  # what RPC said, as Redis has it


def may_be_away(key: str, mint: str) -> tuple[Any, ...]:
    """Return the command that asks the bitmap of a partition for a mint's bit."""
    return "GETBIT", key, bit(decode(mint))


async def read_cold(stores: Stores, slots: Mapping[str, int]) -> dict[str, ColdToken]:
    """Return cold markets by mint, without their accounts; raises Problem.

    `slots` has the mints, and the slot that Redis has each mint's partition at.
    """
    rows, metadata = await asyncio.gather(
        _query(stores, slots, _MOST_FIELDS), _read_metadata(stores, list(slots))
    )
    return {
        row["mint"]: ColdToken(
            unpack_cold_fields(b64decode(row["packed"])), metadata.get(row["mint"])
        )
        for row in rows
    }


async def read_cold_market(
    stores: Stores, mint: str, slot: int
) -> tuple[ColdMarket, bytes | None] | None:
    """Return a cold market and what RPC said, None where there is none; raises Problem."""
    rows, metadata = await asyncio.gather(
        _query(stores, {mint: slot}, _MOST), _read_metadata(stores, [mint])
    )
    if not rows:
        return None
    if rows[0]["size"] > _MOST:
        raise Problem(
            TOO_MANY_HOLDERS,
            f"The accounts of the token, which has not traded for days, take {rows[0]['size']} "
            f"bytes, more than the {_MOST} that are ranked; /api/tokens/{mint} has their count",
        )
    return unpack_cold(b64decode(rows[0]["packed"])), metadata.get(mint)


async def _query(stores: Stores, slots: Mapping[str, int], most: int) -> list[dict[str, Any]]:
    return [
        row
        for mints in parts([*slots])
        for row in await stores.query(
            _SQL, {"mints": mints, "slots": [slots[mint] for mint in mints], "most": most}
        )
    ]


async def _read_metadata(stores: Stores, mints: list[str]) -> dict[str, bytes]:
    return {
        row.pop("mint"): orjson.dumps(row)
        for some in parts(mints)
        for row in await stores.query(_METADATA, {"mints": some})
    }
