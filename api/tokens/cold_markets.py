"""Markets that are at rest for days: out of Redis, packed in ClickHouse."""

from __future__ import annotations

from base64 import b64decode
from typing import Final

from api.http.errors import TOO_MANY_HOLDERS, Problem
from api.stores.clients import Stores
from infra.clickhouse.sql import load
from schemas.markets import unpack_cold, unpack_cold_fields

_SQL: Final = load(__package__, "cold_markets")
_MOST_FIELDS: Final = 1 << 20  # bytes: 64 pools of 9 KB each, and all else there is of a market
_MOST: Final = 1 << 26  # bytes: some 800,000 accounts

Fields = dict[bytes, bytes]


async def read_cold_fields(stores: Stores, mints: list[str]) -> dict[str, Fields]:
    """Return the fields of cold markets by mint, without their accounts; raises Problem."""
    rows = await stores.query(_SQL, {"mints": mints, "most": _MOST_FIELDS})
    return {row["mint"]: unpack_cold_fields(b64decode(row["packed"])) for row in rows}


async def read_cold_market(stores: Stores, mint: str) -> tuple[Fields, Fields] | None:
    """Return the fields of a cold market and its accounts, None if it is lost; raises Problem."""
    rows = await stores.query(_SQL, {"mints": [mint], "most": _MOST})
    if not rows:
        return None
    if rows[0]["size"] > _MOST:
        raise Problem(
            TOO_MANY_HOLDERS,
            f"The accounts of the token, which has not traded for days, take {rows[0]['size']} "
            f"bytes, more than the {_MOST} that are ranked; /api/tokens/{mint} has their count",
        )
    return unpack_cold(b64decode(rows[0]["packed"]))
