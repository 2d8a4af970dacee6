"""What is written to ClickHouse: each table's columns in insert order, with their types.

A row is a tuple of these columns. Values are as they travel on the tape:
- addresses and signatures are base58 text (after compression as small as raw bytes, and a
  WHERE on them uses the index directly);
- times are integers, milliseconds since the Unix epoch, and dates `datetime.date`;
- amounts are integers in the smallest unit; money is `*_lamports` and `*_usd_micros`;
- what is not known is None.
The migrations in infra/clickhouse create the tables; a test holds them against this page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table as its writers see it."""

    name: str
    columns: dict[str, str]  # name -> ClickHouse type, in insert order


_U64: Final = "UInt64"
_TEXT: Final = "String"
_SLUG: Final = "LowCardinality(String)"
_TIME: Final = "DateTime64(3, 'UTC')"

_PLACE: Final = {
    "signature": _TEXT,
    "slot": _U64,
    "tx_index": "UInt32",
    "event_index": "UInt32",
    "block_time": _TIME,
}

# The tape (agent `store`).

SWAPS: Final = Table(
    "swaps",
    {
        **_PLACE,
        "dex": _SLUG,
        "program_id": _SLUG,
        "pool": _TEXT,
        "wallet": _TEXT,
        "other_fee_payer": _TEXT,
        "mint": _TEXT,
        "quote_mint": _TEXT,
        "side": "Enum8('buy' = 1, 'sell' = 2)",
        "amount_raw": _U64,
        "decimals": "UInt8",
        "quote_amount_raw": _U64,
        "quote_decimals": "UInt8",
        "wallet_amount_diff_raw": "Int64",
        "wallet_quote_amount_diff_raw": "Int64",
        "sol_value_unlike_quote_lamports": "Nullable(UInt64)",
        "usd_value_micros": "Nullable(UInt64)",
        "pool_fee_raw": "Nullable(UInt64)",
        "pool_fee_mint": _TEXT,
        "base_fee_lamports": _U64,
        "priority_fee_lamports": _U64,
        "tip_lamports": _U64,
        "router": _SLUG,
        "platform": _SLUG,
        "reserve_raw": "Nullable(UInt64)",
        "quote_reserve_raw": "Nullable(UInt64)",
        "liquidity": "Nullable(UInt128)",
        "sqrt_price_x64": "Nullable(UInt128)",
        "keeper": _TEXT,
    },
)
CREATIONS: Final = Table(
    "creations",
    {
        **_PLACE,
        "mint": _TEXT,
        "name": _TEXT,
        "symbol": _TEXT,
        "uri": _TEXT,
        "creator": _TEXT,
        "platform": _SLUG,
        "dex": _SLUG,
        "pool": _TEXT,
        "quote_mint": _TEXT,
        "decimals": "Nullable(UInt8)",
        "supply_raw": "Nullable(UInt64)",
        "token_program": _SLUG,
    },
)
MIGRATIONS: Final = Table(
    "migrations",
    {
        **_PLACE,
        "mint": _TEXT,
        "platform": _SLUG,
        "from_dex": _SLUG,
        "from_pool": _TEXT,
        "dex": _SLUG,
        "pool": _TEXT,
        "quote_mint": _TEXT,
        "amount_raw": "Nullable(UInt64)",
        "quote_amount_raw": "Nullable(UInt64)",
    },
)
SLOTS: Final = Table(
    "slots",
    {
        "slot": _U64,
        "parent": "Nullable(UInt64)",
        "blockhash": _TEXT,
        "block_time": _TIME,
        "transactions": "UInt32",
        "decoded": "UInt32",
        "unknown": "UInt32",
        "malformed": "UInt32",
        "complete": "Bool",
        "sol_usd": "Nullable(Decimal(38, 18))",
    },
)
OUTCOMES: Final = Table(
    "outcomes",
    {
        "slot": _U64,
        "dex": _SLUG,
        "block_time": _TIME,
        "swaps": "UInt32",
        "decoded": "UInt32",
        "unknown": "UInt32",
        "malformed": "UInt32",
    },
)
GAPS: Final = Table(
    "gaps",
    {
        "first_slot": _U64,
        "last_slot": _U64,
        "reason": _SLUG,
        "detected_at": _TIME,
        "wallets": "Array(String)",
        "lost_by": _SLUG,
    },
)

# Books of wallets (agent `pnl`). Sums may exceed 64 bits: a column `*_low` has the lower 64, and
# `overflow` the upper 64 of all of them in their order, or is empty where they are all 0.

LOT_MATCHES: Final = Table(
    "lot_matches",
    {
        "wallet": _TEXT,
        "mint": _TEXT,
        **_PLACE,
        "kind": "Enum8('sale' = 1, 'transfer' = 2, 'burn' = 3)",
        "lot_number": "Nullable(UInt32)",
        "lot_slot": _U64,
        "lot_tx_index": "UInt32",
        "lot_time": _TIME,
        "quantity_raw": _U64,
        "cost_lamports": "Nullable(UInt64)",
        "cost_usd_micros": "Nullable(UInt64)",
        "proceeds_lamports": "Nullable(UInt64)",
        "proceeds_usd_micros": "Nullable(UInt64)",
    },
)
_OUTCOME: Final = {
    "bought_lamports_low": _U64,
    "bought_usd_micros_low": _U64,
    "sold_lamports_low": _U64,
    "sold_usd_micros_low": _U64,
    "matched_proceeds_lamports_low": _U64,
    "matched_proceeds_usd_micros_low": _U64,
    "matched_cost_lamports_low": _U64,
    "matched_cost_usd_micros_low": _U64,
}
_PAID: Final = {"fee_lamports": _U64, "priority_fee_lamports": _U64, "tip_lamports": _U64}
_COUNTS: Final = {"buys": "UInt32", "sells": "UInt32", "wins": "UInt32", "losses": "UInt32"}
POSITIONS: Final = Table(
    "positions",
    {
        "wallet": _TEXT,
        "mint": _TEXT,
        "day": "Date",
        "held_raw_low": _U64,
        "held_known_raw_low": _U64,
        "bought_raw_low": _U64,
        "sold_raw_low": _U64,
        "received_raw_low": _U64,
        "sent_raw_low": _U64,
        "burned_raw_low": _U64,
        "unmatched_raw_low": _U64,
        **_OUTCOME,
        "held_cost_lamports_low": _U64,
        "held_cost_usd_micros_low": _U64,
        **_PAID,
        **_COUNTS,
        "lots_opened": "UInt32",
        "lots_closed": "UInt32",
        "first_trade_slot": _U64,
        "first_trade_time": _TIME,
        "last_trade_slot": _U64,
        "last_trade_time": _TIME,
        "slot": _U64,
        "overflow": "Array(UInt64)",
    },
)
WALLET_DAYS: Final = Table(
    "wallet_days",
    {
        "wallet": _TEXT,
        "day": "Date",
        **_OUTCOME,
        **_PAID,
        **_COUNTS,
        "unmatched_sales": "UInt32",
        "slot": _U64,
        "overflow": "Array(UInt64)",
    },
)
COLD_POSITIONS: Final = Table(
    "cold_positions",
    {
        "mint": _TEXT,
        "partition": "UInt8",
        "wallet": _TEXT,
        "packed": _TEXT,
        "slot": _U64,
        "put_away_slot": _U64,
    },
)
COLD_WALLETS: Final = Table("cold_wallets", {"wallet": _TEXT, "packed": _TEXT, "slot": _U64})

# Perpetual positions of wallets (agent `pnl`).

_PERP: Final = {"dex": _SLUG, "program_id": _SLUG, "wallet": _TEXT}
_USD_OR_NONE: Final = "Nullable(UInt64)"

FUNDING_PAYMENTS: Final = Table(
    "funding_payments",
    {
        **_PLACE,
        "log_index": "UInt32",
        **_PERP,
        "account": _TEXT,
        "market_index": "UInt16",
        "payment_raw": "Int64",
        "base_raw": "Int64",
        "last_cumulative_funding": "Int64",
        "cumulative_funding_long": "Int128",
        "cumulative_funding_short": "Int128",
    },
)
PERP_CHANGES: Final = Table(
    "perp_changes",
    {
        **_PLACE,
        **_PERP,
        "position": _TEXT,
        "pool": _SLUG,
        "custody": _SLUG,
        "collateral_custody": _SLUG,
        "mint": _SLUG,
        "side": "Enum8('long' = 1, 'short' = 2)",
        "change": "Enum8('increase' = 1, 'decrease' = 2, 'liquidate' = 3)",
        "is_instant": "Bool",
        "size_usd_micros": _U64,
        "size_delta_usd_micros": _USD_OR_NONE,
        "collateral_delta_usd_micros": _USD_OR_NONE,
        "price_usd_micros": _U64,
        "pnl_usd_micros": "Nullable(Int64)",
        "fee_usd_micros": _U64,
        "position_fee_usd_micros": _USD_OR_NONE,
        "funding_fee_usd_micros": _USD_OR_NONE,
        "price_impact_fee_usd_micros": _USD_OR_NONE,
        "liquidation_fee_usd_micros": _USD_OR_NONE,
        "paid_out_usd_micros": _USD_OR_NONE,
        "collateral_usd_micros": _USD_OR_NONE,
        "entry_price_usd_micros": _USD_OR_NONE,
    },
)
PERP_GAPS: Final = Table("perp_gaps", {**_PLACE, "dex": _SLUG, "reason": _SLUG, "wallet": _TEXT})
PERP_HISTORIES: Final = Table(
    "perp_histories",
    {
        "dex": _SLUG,
        "partition": "UInt16",
        "first_slot": "SimpleAggregateFunction(min, UInt64)",
    },
)

# Markets of mints (agent `market`).

_PRICE: Final = "Float64"

CANDLES: Final = Table(
    "candles",
    {
        "mint": _TEXT,
        "interval_s": "UInt32",
        "start": _TIME,
        "open_sol": _PRICE,
        "high_sol": _PRICE,
        "low_sol": _PRICE,
        "close_sol": _PRICE,
        "open_usd": _PRICE,
        "high_usd": _PRICE,
        "low_usd": _PRICE,
        "close_usd": _PRICE,
        "amount_raw": "UInt128",
        "volume_lamports": _U64,
        "volume_usd_micros": _U64,
        "buys": "UInt32",
        "sells": "UInt32",
        "slot": _U64,
    },
)
TOKENS: Final = Table(
    "tokens",
    {
        "mint": _TEXT,
        "name": _TEXT,
        "symbol": _TEXT,
        "uri": _TEXT,
        "decimals": "Nullable(UInt8)",
        "supply_raw": "Nullable(UInt64)",
        "creator": _TEXT,
        "platform": _SLUG,
        "dex": _SLUG,
        "pool": _TEXT,
        "quote_mint": _TEXT,
        "token_program": _SLUG,
        "created_slot": "Nullable(UInt64)",
        "created_at": "Nullable(DateTime64(3, 'UTC'))",
        "migrated_slot": "Nullable(UInt64)",
        "migrated_at": "Nullable(DateTime64(3, 'UTC'))",
        "migrated_dex": _SLUG,
        "migrated_pool": _TEXT,
        "slot": _U64,
    },
)
TOKEN_METADATA: Final = Table(
    "token_metadata",
    {
        "mint": _TEXT,
        "name": _TEXT,
        "symbol": _TEXT,
        "uri": _TEXT,
        "decimals": "Nullable(UInt8)",
        "supply_raw": "Nullable(UInt64)",
        "token_program": _SLUG,
        "asked_at": _TIME,
    },
)
HOLDER_SNAPSHOTS: Final = Table(
    "holder_snapshots",
    {
        "mint": _TEXT,
        "block_time": _TIME,
        "holders": "UInt32",
        "creator_raw": "UInt128",
        "top_owners": "Array(String)",
        "top_amounts_raw": "Array(UInt128)",
        "slot": _U64,
    },
)
COLD_MARKETS: Final = Table(
    "cold_markets", {"mint": _TEXT, "packed": _TEXT, "slot": _U64, "put_away_slot": _U64}
)

# Accounts of the chain (agent `accounts`).

ACCOUNTS: Final = Table(
    "accounts",
    {
        "address": _TEXT,
        "kind": _SLUG,
        "program": _SLUG,
        "found_by": "Array(String)",
        "lamports": _U64,
        "data": _TEXT,
        "slot": _U64,
        "is_deleted": "UInt8",
    },
)

# Tracked wallets (`soltape watch`).

NET_WORTH_SNAPSHOTS: Final = Table(
    "net_worth_snapshots",
    {
        "wallet": _TEXT,
        "hour": _TIME,
        "read_at": _TIME,
        "slot": _U64,
        "net_worth_usd_micros": "Nullable(Int128)",
        "assets_usd_micros": "Nullable(Int128)",
        "debts_usd_micros": "Nullable(Int128)",
        "is_complete": "Bool",
        "reasons": "Array(String)",
        "unpriced": "UInt32",
        "pending_routes": "UInt16",
    },
)

# Payments for calls (`soltape watch`).

PAYMENTS: Final = Table(
    "payments",
    {
        "signature": _TEXT,
        "message_sha256": _TEXT,
        "slot": _U64,
        "block_time": _TIME,
        "payer": _TEXT,
        "pay_to": _SLUG,
        "network": _SLUG,
        "asset": _SLUG,
        "amount_raw": _U64,
        "path": "Nullable(String)",
    },
)
PAYMENTS_UNRESOLVED: Final = Table(
    "payments_unresolved",
    {
        "signature": _TEXT,
        "slot": _U64,
        "pay_to": _SLUG,
        "network": _SLUG,
        "asset": _SLUG,
        "is_resolved": "Bool",
        "noted_at": _TIME,
        "cause": _TEXT,
    },
)

# What Redis has of all books (every settled group).

BOOK_CHECKPOINTS: Final = Table(
    "book_checkpoints",
    {
        "agent_group": _SLUG,
        "partition": "UInt16",
        "key": _TEXT,
        "kind": (
            "Enum8('begun' = 1, 'watermark' = 2, 'reset' = 3, 'gone' = 4, 'trimmed' = 5, "
            "'string' = 6, 'hash' = 7, 'set' = 8, 'zset' = 9, 'bit' = 10)"
        ),
        "field": _TEXT,
        "value": _TEXT,
        "slot": _U64,
        "is_deleted": "UInt8",
    },
)

TABLES: Final = {
    table.name: table
    for table in (
        *(SWAPS, CREATIONS, MIGRATIONS, SLOTS, OUTCOMES, GAPS),
        *(LOT_MATCHES, POSITIONS, WALLET_DAYS, COLD_POSITIONS, COLD_WALLETS),
        *(FUNDING_PAYMENTS, PERP_CHANGES, PERP_GAPS, PERP_HISTORIES),
        *(CANDLES, TOKENS, TOKEN_METADATA, HOLDER_SNAPSHOTS, COLD_MARKETS),
        *(ACCOUNTS, NET_WORTH_SNAPSHOTS, PAYMENTS, PAYMENTS_UNRESOLVED, BOOK_CHECKPOINTS),
    )
}
