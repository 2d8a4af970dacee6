"""Perp events of the stores against those that the market's programs wrote down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

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


Key = tuple[str, int, int, str]
"""Signature, index of the event, slot, wallet: a wallet of a torn slot or hole is excused."""


def perps(slots: Iterable[Slot], stored: Stored, found: Differences) -> None:
    """Compare what became of positions, funding, and the gaps of logs that were cut off."""
    changes: dict[Key, Row] = {}
    payments: defaultdict[Key, list[Row]] = defaultdict(list)
    lost: set[tuple[str, int, str]] = set()
    for slot in slots:
        for tx in slot.transactions:
            place = {"tx_index": tx.tx_index, "block_time": slot.block_time_ms}
            for event in tx.perps:
                key = tx.signature, event["cpi_index"], slot.slot, event["wallet"]
                changes[key] = place | _change(event)
            for event in tx.funding:
                if event["lost"]:
                    lost.add((tx.signature, slot.slot, event["wallet"]))
                else:
                    key = tx.signature, event["event_index"], slot.slot, event["wallet"]
                    payments[key].append(place | _payment(event))
    stored_changes: dict[Key, Row] = {}
    for row in stored.rows.get("perp_changes", ()):
        names = changes.get(_key(row), row)
        stored_changes[_key(row)] = {name: row[name] for name in names}
    found.maps("perp change", changes, stored_changes)
    stored_payments: defaultdict[Key, list[Row]] = defaultdict(list)
    for row in sorted(stored.rows.get("funding_payments", ()), key=lambda row: row["log_index"]):
        names = next(iter(payments.get(_key(row), [{}])))
        stored_payments[_key(row)].append({name: row[name] for name in names})
    found.maps("funding payment", payments, stored_payments)
    _gaps(lost, stored, found)


def _gaps(lost: set[tuple[str, int, str]], stored: Stored, found: Differences) -> None:
    """Compare whether all who lost payments have a gap, and no other transaction has one."""
    named: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for row in stored.rows.get("perp_gaps", ()):
        named[row["signature"], row["slot"]].add(row["wallet"])
    cut = {key[:2] for key in lost}
    there = {key for key in lost if named.get(key[:2], set()) & {"", key[2]}}
    there |= {(*place, "") for place in named.keys() - cut}
    found.maps("cut log", dict.fromkeys(lost, True), dict.fromkeys(there, True))


def _key(row: Row) -> Key:
    return row["signature"], row["event_index"], row["slot"], row["wallet"]


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
