"""The books' rows for ClickHouse: columns as in `schemas.rows`."""

from __future__ import annotations

from datetime import date, timedelta
from functools import lru_cache
from typing import Any, Final

from pipeline.domain.lots import Kind, Match
from pipeline.domain.netting import Flow
from schemas.positions import Position, WalletDay

_U64_MAX: Final = 2**64 - 1
_EPOCH: Final = date(1970, 1, 1)
_KINDS: Final = {Kind.SALE: "sale", Kind.TRANSFER: "transfer", Kind.BURN: "burn"}

Row = tuple[Any, ...]


@lru_cache(64)
def date_of(day: int) -> date:
    """Return the date of a day counted from the Unix epoch."""
    return _EPOCH + timedelta(days=day)


def match_row(match: Match, flow: Flow, slot: int, time_ms: int) -> Row:
    """Return the row of lot_matches."""
    kind, *lot_and_amounts = match
    return (
        flow.wallet,
        flow.mint,
        flow.signature,
        slot,
        flow.tx_index,
        flow.event_index,
        time_ms,
        _KINDS[kind],
        *lot_and_amounts,
    )


def position_row(p: Position, wallet: str, mint: str, day: int) -> Row:
    """Return the row of positions, as the position is at the end of a day so far."""
    amounts = (
        p.held_raw,
        p.held_known_raw,
        p.bought_raw,
        p.sold_raw,
        p.received_raw,
        p.sent_raw,
        p.burned_raw,
        p.unmatched_raw,
        p.bought_lamports,
        p.bought_usd_micros,
        p.sold_lamports,
        p.sold_usd_micros,
        p.matched_proceeds_lamports,
        p.matched_proceeds_usd_micros,
        p.matched_cost_lamports,
        p.matched_cost_usd_micros,
        p.held_cost_lamports,
        p.held_cost_usd_micros,
    )
    low, overflow = _split(amounts)
    return (
        wallet,
        mint,
        date_of(day),
        *low,
        p.fee_lamports,
        p.priority_fee_lamports,
        p.tip_lamports,
        p.buys,
        p.sells,
        p.wins,
        p.losses,
        p.lots_opened,
        p.lots_closed,
        p.first_trade_slot,
        p.first_trade_ms,
        p.last_trade_slot,
        p.last_trade_ms,
        p.changed_slot,
        overflow,
    )


def wallet_day_row(figures: WalletDay, wallet: str, day: int) -> Row:
    """Return the row of wallet_days."""
    amounts = (
        figures.bought_lamports,
        figures.bought_usd_micros,
        figures.sold_lamports,
        figures.sold_usd_micros,
        figures.matched_proceeds_lamports,
        figures.matched_proceeds_usd_micros,
        figures.matched_cost_lamports,
        figures.matched_cost_usd_micros,
    )
    low, overflow = _split(amounts)
    return (
        wallet,
        date_of(day),
        *low,
        figures.fee_lamports,
        figures.priority_fee_lamports,
        figures.tip_lamports,
        figures.buys,
        figures.sells,
        figures.wins,
        figures.losses,
        figures.unmatched_sales,
        figures.changed_slot,
        overflow,
    )


def _split(amounts: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the lower 64 bits of amounts, and their upper ones where any has some."""
    if max(amounts) <= _U64_MAX:
        return amounts, ()
    return tuple(each & _U64_MAX for each in amounts), tuple(each >> 64 for each in amounts)
