"""What a token is: what the chain's events told of it first, then what RPC said."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from api.amounts import human
from api.answers.tokens import About, SupplySource
from schemas.money import DOLLAR_DECIMALS, SOL_DECIMALS, USD1, USDC, USDT, WSOL

# Events tell of neither, as nobody launches them; RPC may, where there is one.
_MONEY: Final[Mapping[str, Mapping[str, Any]]] = {
    WSOL: {"name": "Solana", "symbol": "SOL", "decimals": SOL_DECIMALS},
    USDC: {"name": "USD Coin", "symbol": "USDC", "decimals": DOLLAR_DECIMALS},
    USDT: {"name": "Tether USD", "symbol": "USDT", "decimals": DOLLAR_DECIMALS},
    USD1: {"name": "World Liberty Financial USD", "symbol": "USD1", "decimals": DOLLAR_DECIMALS},
}
_NOTHING: Final[Mapping[str, Any]] = {}


@lru_cache(maxsize=1 << 14)  # by content: two readings of the same bytes are the same facts
def facts(mint: str, told: bytes | None, asked: bytes | None) -> About:
    """Return what a token is, to be read only: the JSON of MARKET's `token`, and of METADATA."""
    events = orjson.loads(told) if told else _NOTHING
    rpc = orjson.loads(asked) if asked else _NOTHING
    if rpc.get("status") != "found":
        rpc = _NOTHING
    sources = (events, rpc, _MONEY.get(mint, _NOTHING))

    def first(name: str) -> Any:
        for source in sources:
            value = source.get(name)
            if value is not None and value != "":
                return value
        return None

    decimals: int | None = first("decimals")
    supply_raw: int | None = first("supply_raw")
    source: SupplySource | None = None
    time_ms: int | None = None
    if events.get("supply_raw") is not None:
        source, time_ms = "creation", events["created_ms"]
    elif supply_raw is not None:
        source, time_ms = "rpc", rpc["asked_ms"]
    return {
        "mint": mint,
        "name": first("name"),
        "symbol": first("symbol"),
        "decimals": decimals,
        "supply_raw": None if supply_raw is None else str(supply_raw),
        "supply": None if supply_raw is None else human(supply_raw, decimals),
        "supply_source": source,
        "supply_time_ms": time_ms,
        "uri": first("uri"),
        "token_program": first("token_program"),
        "creator": first("creator"),
        "platform": first("platform"),
        "dex": first("dex"),
        "pool": first("pool"),
        "quote_mint": first("quote_mint"),
        "created_slot": first("created_slot"),
        "created_ms": first("created_ms"),
        "is_migrated": first("migrated_slot") is not None,
        "migrated_slot": first("migrated_slot"),
        "migrated_ms": first("migrated_ms"),
        "migrated_dex": first("migrated_dex"),
        "migrated_pool": first("migrated_pool"),
    }
