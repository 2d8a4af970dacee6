"""Perp events of the stores against those that the market's programs wrote down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from pipeline.chaos.differences import Differences
from pipeline.chaos.stores import Row, Stored
from pipeline.chaos.truth import Slot

_CHANGES: Final = {
    "IncreasePositionEvent": ("increase", False),
    "InstantIncreasePositionEvent": ("increase", True),
    "DecreasePositionEvent": ("decrease", False),
    "InstantDecreasePositionEvent": ("decrease", True),
    "LiquidateFullPositionEvent": ("liquidate", False),
}
_MONEY: Final = {
    "size_usd_micros": "position_size_usd",
    "size_delta_usd_micros": "size_usd_delta",
    "collateral_delta_usd_micros": "collateral_usd_delta",
    "price_usd_micros": "price",
    "fee_usd_micros": "fee_usd",
    "position_fee_usd_micros": "position_fee_usd",
    "funding_fee_usd_micros": "funding_fee_usd",
    "price_impact_fee_usd_micros": "price_impact_fee_usd",
    "liquidation_fee_usd_micros": "liquidation_fee_usd",
    "paid_out_usd_micros": "transfer_amount_usd",
    "collateral_usd_micros": "position_collateral_usd",
    "entry_price_usd_micros": "position_price",
}
_FUNDING: Final = {
    "payment_raw": "funding_payment",
    "base_raw": "base_asset_amount",
    "last_cumulative_funding": "user_last_cumulative_funding",
    "cumulative_funding_long": "amm_cumulative_funding_long",
    "cumulative_funding_short": "amm_cumulative_funding_short",
}


def perps(slots: Iterable[Slot], stored: Stored, found: Differences) -> None:
    """Compare what became of positions, funding, and the gaps of logs that were cut off."""
    changes: dict[tuple[str, int, int], Row] = {}
    payments: defaultdict[tuple[str, int, int], list[Row]] = defaultdict(list)
    lost: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for slot in slots:
        for tx in slot.transactions:
            place = {"tx_index": tx.tx_index, "block_time": slot.block_time_ms}
            for event in tx.perps:
                changes[tx.signature, event["cpi_index"], slot.slot] = place | _change(event)
            for event in tx.funding:
                if event["lost"]:
                    lost[tx.signature, slot.slot].add(event["wallet"])
                else:
                    key = tx.signature, event["event_index"], slot.slot
                    payments[key].append(place | _payment(event))
    found.maps("perp change", changes, _by_identity(stored.rows.get("perp_changes", ()), changes))
    stored_payments: defaultdict[tuple[str, int, int], list[Row]] = defaultdict(list)
    for row in sorted(stored.rows.get("funding_payments", ()), key=lambda row: row["log_index"]):
        key = row["signature"], row["event_index"], row["slot"]
        names = next(iter(payments.get(key, [{}])))
        stored_payments[key].append({name: row[name] for name in names})
    found.maps("funding payment", payments, stored_payments)
    _gaps(lost, stored, found)


def _gaps(lost: dict[tuple[str, int], set[str]], stored: Stored, found: Differences) -> None:
    """Compare which transactions have gaps, and whether they are about all who lost payments."""
    named: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for row in stored.rows.get("perp_gaps", ()):
        named[row["signature"], row["slot"]].add(row["wallet"])
    found.maps(
        "cut log",
        dict.fromkeys(lost, True),
        {key: "" in wallets or lost.get(key, set()) <= wallets for key, wallets in named.items()},
    )


def _by_identity(rows: Iterable[Row], wanted: dict[tuple[str, int, int], Row]) -> dict[Any, Row]:
    found = {}
    for row in rows:
        key = row["signature"], row["event_index"], row["slot"]
        names = wanted.get(key, row)
        found[key] = {name: row[name] for name in names}
    return found


def _change(event: Row) -> Row:
    fields = event["fields"]
    change, is_instant = _CHANGES[event["event"]]
    pnl = fields.get("pnl_delta")
    return {
        "wallet": event["wallet"],
        "position": event["position"],
        "pool": event["pool"],
        "custody": event["custody"],
        "collateral_custody": event["collateral_custody"],
        "mint": event["mint"],
        "side": event["side"],
        "change": change,
        "is_instant": is_instant,
        "pnl_usd_micros": None if pnl is None else int(pnl) * (1 if fields["has_profit"] else -1),
        **{ours: _number(fields.get(name)) for ours, name in _MONEY.items()},
    }


def _payment(event: Row) -> Row:
    fields = event["fields"]
    return {
        "wallet": event["wallet"],
        "account": event["user"],
        "market_index": event["market_index"],
        **{ours: int(fields[name]) for ours, name in _FUNDING.items()},
    }


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
