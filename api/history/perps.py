"""Perps' history as pages, newest first, and what it comes to over its range of time.

An event that may be anybody's and could not be read is recorded in the partition of no name: an
answer is as of where both that and the wallet's own have come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypedDict

from api.history.perp_answers import (
    FundingHistory,
    FundingOfMarket,
    FundingPayment,
    FundingSum,
    Known,
    PerpChange,
    PerpHistory,
    PerpPnl,
    PerpPnlOfMarket,
)
from api.history.spans import Asked, Span, page_after, span
from api.http.cursors import Page
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.stores.settled import Settled, read_settled
from api.stores.unique import Row, read_unique
from infra.clickhouse.sql import load
from schemas.amounts import human, text, usd
from schemas.redis_keys import wallet_tag
from schemas.times import DAY_MS
from schemas.topics import SETTLED_BY_WALLET, places_ever

FUNDING_MS: Final = 30 * DAY_MS  # looked back without `from`
LONGEST_FUNDING_MS: Final = 90 * DAY_MS
CHANGES_MS: Final = 365 * DAY_MS
LONGEST_CHANGES_MS: Final = 366 * DAY_MS

_GROUP: Final = "pnl"
_KNOWN: Final = load(__package__, "perp_known")
_FUNDING: Final = load(__package__, "funding_payments")
_FUNDING_SUMS: Final = load(__package__, "funding_sums")
_CHANGES: Final = load(__package__, "perp_changes")
_CHANGE_SUMS: Final = load(__package__, "perp_sums")
_U32: Final = 2**32
_QUOTE_DECIMALS: Final = 6
_BASE_DECIMALS: Final = 9
_COUNTS: Final = ("increases", "decreases", "liquidations", "wins", "losses")
_MONEY: Final = ("realized_usd_micros", "fee_usd_micros", "liquidation_fee_usd_micros")

At = tuple[int, int, int, int]  # block time, slot, transaction, instruction and place in its log


class _Venue(TypedDict):
    dex: str
    identified: Literal["certain", "likely", "guess"]


_DRIFT: Final[_Venue] = {"dex": "drift", "identified": "certain"}
_JUPITER: Final[_Venue] = {"dex": "jupiter-perps", "identified": "likely"}


async def read_funding(
    stores: Stores, gaps: GapReader, wallet: str, asked: Asked
) -> FundingHistory:
    """Return a page of a wallet's funding payments; raises Problem."""
    now = await _settled(stores, wallet)
    within = span(
        asked, now, FUNDING_MS, LONGEST_FUNDING_MS, f"funding of {wallet}", _U32 * _U32 - 1
    )
    read = _Reading(stores, gaps, wallet, _DRIFT, within, now, asked.limit)
    rows = await read.rows(_FUNDING, _funding_at)
    sums = await read.sums(_FUNDING_SUMS)
    names = ("payments", "paid_raw", "received_raw")
    markets: list[FundingOfMarket] = [
        {"market_index": row["market_index"], **_funding_sum(*(row[name] for name in names))}
        for row in sums
    ]
    return {
        **await read.known(read.page(rows, _funding_at)),
        "total": _funding_sum(*(sum(row[name] for row in sums) for name in names)),
        "markets": markets,
        "payments": [_payment(row) for row in rows[: asked.limit]],
    }


async def read_perp_pnl(stores: Stores, gaps: GapReader, wallet: str, asked: Asked) -> PerpHistory:
    """Return a page of what became of a wallet's perpetual positions; raises Problem."""
    now = await _settled(stores, wallet)
    within = span(asked, now, CHANGES_MS, LONGEST_CHANGES_MS, f"perps of {wallet}", _U32 - 1)
    read = _Reading(stores, gaps, wallet, _JUPITER, within, now, asked.limit)
    rows = await read.rows(_CHANGES, _change_at)
    sums = await read.sums(_CHANGE_SUMS)
    total = {name: sum(row[name] for row in sums) for name in (*_COUNTS, *_MONEY)}
    markets: list[PerpPnlOfMarket] = [{"mint": row["mint"], **_pnl(row)} for row in sums]
    return {
        **await read.known(read.page(rows, _change_at)),
        "total": _pnl(total),
        "markets": markets,
        "changes": [_change(row) for row in rows[: asked.limit]],
    }


async def _settled(stores: Stores, wallet: str) -> Settled:
    tags = dict.fromkeys((wallet_tag(wallet), wallet_tag("")))
    return await read_settled(stores, _GROUP, [*tags])


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a page of a venue's history is read with."""

    stores: Stores
    gaps: GapReader
    wallet: str
    venue: _Venue
    within: Span
    now: Settled
    limit: int

    @property
    def _keys(self) -> dict[str, object]:
        return {
            "wallet": self.wallet,
            "dex": self.venue["dex"],
            "from_ms": self.within.from_ms,
            "as_of_slot": self.now.slot,
        }

    async def rows(self, sql: str, at: Callable[[Row], At]) -> list[Row]:
        """Return the rows of a page and one more, if there are as many; none twice."""

        async def ask(before: At, limit: int) -> list[Row]:
            time_ms, slot, tx_index, index = before
            event_index, log_index = divmod(index, _U32) if at is _funding_at else (index, 0)
            return await self.stores.query(
                sql,
                {
                    **self._keys,
                    "before_ms": time_ms,
                    "before_slot": slot,
                    "before_tx_index": tx_index,
                    "before_event_index": event_index,
                    "before_log_index": log_index,
                    "limit": limit,
                },
            )

        first = self.within.before
        before = (first.time_ms, first.slot, first.tx_index, first.index)
        return await read_unique(ask, at, before, self.limit + 1)

    async def sums(self, sql: str) -> list[Row]:
        """Return what the range comes to, by market."""
        return await self.stores.query(sql, {**self._keys, "to_ms": self.within.to_ms})

    def page(self, rows: Sequence[Row], at: Callable[[Row], At]) -> Page:
        """Return what is said of the next page."""
        has_more = len(rows) > self.limit
        last = at(rows[self.limit - 1]) if has_more else (0, 0, 0, 0)
        return page_after(self.within, last, has_more=has_more)

    async def known(self, page: Page) -> Known:
        """Return from where on the history is known, and what of the range is not."""
        [found] = await self.stores.query(
            _KNOWN,
            {
                **self._keys,
                "to_ms": self.within.to_ms,
                "of_wallet": [*places_ever(SETTLED_BY_WALLET, self.wallet)],
                "of_nobody": [*places_ever(SETTLED_BY_WALLET, "")],
            },
        )
        first_slot = found["first_slot"]
        if first_slot is not None and first_slot > self.now.slot:
            first_slot = None
        first_ms = (found["first_ms"] or None) if first_slot is not None else None
        lacking = (await self.gaps.read()).of_perps(self.wallet)
        return {
            "wallet": self.wallet,
            **self.venue,
            "from_ms": self.within.from_ms,
            "to_ms": self.within.to_ms,
            "known_from_slot": first_slot,
            "known_from_ms": first_ms,
            "unread": found["unread"],
            # Block times are whole seconds: the first slot's has earlier slots.
            "is_complete": (
                first_ms is not None
                and first_ms < self.within.from_ms
                and self.within.to_ms <= self.now.time_ms + 1
                and not found["unread"]
                and lacking is None
            ),
            "page": page,
            "as_of_slot": self.now.slot,
            "as_of_ms": self.now.time_ms,
            "gaps": lacking,
        }


def _funding_at(row: Row) -> At:
    index = row["event_index"] * _U32 + row["log_index"]
    return row["block_time_ms"], row["slot"], row["tx_index"], index


def _change_at(row: Row) -> At:
    return row["block_time_ms"], row["slot"], row["tx_index"], row["event_index"]


def _funding_sum(payments: int, paid_raw: int, received_raw: int) -> FundingSum:
    net_raw = received_raw - paid_raw
    return {
        "payments": payments,
        "paid_raw": str(paid_raw),
        "paid": human(paid_raw, _QUOTE_DECIMALS),
        "received_raw": str(received_raw),
        "received": human(received_raw, _QUOTE_DECIMALS),
        "net_raw": str(net_raw),
        "net": human(net_raw, _QUOTE_DECIMALS),
    }


def _payment(row: Row) -> FundingPayment:
    return {
        "signature": row["signature"],
        "slot": row["slot"],
        "tx_index": row["tx_index"],
        "event_index": row["event_index"],
        "log_index": row["log_index"],
        "block_time_ms": row["block_time_ms"],
        "program_id": row["program_id"],
        "account": row["account"],
        "market_index": row["market_index"],
        "payment_raw": str(row["payment_raw"]),
        "payment": human(row["payment_raw"], _QUOTE_DECIMALS),
        "base_raw": str(row["base_raw"]),
        "base": human(row["base_raw"], _BASE_DECIMALS),
        "last_cumulative_funding_raw": str(row["last_cumulative_funding"]),
        "cumulative_funding_long_raw": str(row["cumulative_funding_long"]),
        "cumulative_funding_short_raw": str(row["cumulative_funding_short"]),
    }


def _pnl(sums: Mapping[str, int]) -> PerpPnl:
    realized, fee, liquidation_fee = (sums[name] for name in _MONEY)
    return {
        "increases": sums["increases"],
        "decreases": sums["decreases"],
        "liquidations": sums["liquidations"],
        "wins": sums["wins"],
        "losses": sums["losses"],
        "realized_usd_micros": str(realized),
        "realized_usd": usd(realized),
        "fee_usd_micros": str(fee),
        "fee_usd": usd(fee),
        "liquidation_fee_usd_micros": str(liquidation_fee),
        "liquidation_fee_usd": usd(liquidation_fee),
    }


def _change(row: Row) -> PerpChange:
    return {
        "signature": row["signature"],
        "slot": row["slot"],
        "tx_index": row["tx_index"],
        "event_index": row["event_index"],
        "block_time_ms": row["block_time_ms"],
        "program_id": row["program_id"],
        "position": row["position"],
        "pool": row["pool"],
        "custody": row["custody"],
        "collateral_custody": row["collateral_custody"],
        "mint": row["mint"],
        "side": row["side"],
        "change": row["change"],
        "is_instant": row["is_instant"],
        "size_usd_micros": str(row["size_usd_micros"]),
        "size_usd": usd(row["size_usd_micros"]),
        "size_delta_usd_micros": text(row["size_delta_usd_micros"]),
        "size_delta_usd": usd(row["size_delta_usd_micros"]),
        "collateral_delta_usd_micros": text(row["collateral_delta_usd_micros"]),
        "collateral_delta_usd": usd(row["collateral_delta_usd_micros"]),
        "price_usd_micros": str(row["price_usd_micros"]),
        "price_usd": usd(row["price_usd_micros"]),
        "pnl_usd_micros": text(row["pnl_usd_micros"]),
        "pnl_usd": usd(row["pnl_usd_micros"]),
        "fee_usd_micros": str(row["fee_usd_micros"]),
        "fee_usd": usd(row["fee_usd_micros"]),
        "position_fee_usd_micros": text(row["position_fee_usd_micros"]),
        "position_fee_usd": usd(row["position_fee_usd_micros"]),
        "funding_fee_usd_micros": text(row["funding_fee_usd_micros"]),
        "funding_fee_usd": usd(row["funding_fee_usd_micros"]),
        "price_impact_fee_usd_micros": text(row["price_impact_fee_usd_micros"]),
        "price_impact_fee_usd": usd(row["price_impact_fee_usd_micros"]),
        "liquidation_fee_usd_micros": text(row["liquidation_fee_usd_micros"]),
        "liquidation_fee_usd": usd(row["liquidation_fee_usd_micros"]),
        "paid_out_usd_micros": text(row["paid_out_usd_micros"]),
        "paid_out_usd": usd(row["paid_out_usd_micros"]),
        "collateral_usd_micros": text(row["collateral_usd_micros"]),
        "collateral_usd": usd(row["collateral_usd_micros"]),
        "entry_price_usd_micros": text(row["entry_price_usd_micros"]),
        "entry_price_usd": usd(row["entry_price_usd_micros"]),
    }
