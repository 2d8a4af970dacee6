"""The books' rows for ClickHouse: columns as in `schemas.rows`."""

from __future__ import annotations

from dataclasses import fields
from datetime import date, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from pipeline.agents.pnl.cold_rows import Journal
from pipeline.agents.pnl.memory import NOT_CHANGED, Entry, Wallet
from pipeline.agents.pnl.store import Store
from pipeline.domain.lots import Kind, Match
from pipeline.domain.netting import Flow
from schemas.positions import Position, WalletDay, pack_wallet_day
from schemas.rows import POSITIONS, WALLET_DAYS, Table

_U64_MAX: Final = 2**64 - 1
_EPOCH: Final = date(1970, 1, 1)
_KINDS: Final = {Kind.SALE: "sale", Kind.TRANSFER: "transfer", Kind.BURN: "burn"}

Row = tuple[Any, ...]

_RENAMED: Final = {
    "slot": "changed_slot",
    "first_trade_time": "first_trade_ms",
    "last_trade_time": "last_trade_ms",
}


def _getters(table: Table, record: type[Any]) -> tuple[attrgetter[Any], attrgetter[Any]]:
    """Return what reads a record's sums, and what reads its other columns, in the table's order."""
    sums = [name.removesuffix("_low") for name in table.columns if name.endswith("_low")]
    rest = [_RENAMED.get(name, name) for name in table.columns]
    known = {field.name for field in fields(record)}
    return attrgetter(*sums), attrgetter(*(name for name in rest if name in known))


_amounts_of_position, _rest_of_position = _getters(POSITIONS, Position)
_amounts_of_day, _rest_of_day = _getters(WALLET_DAYS, WalletDay)


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


def position_row(position: Position, wallet: str, mint: str, day: int) -> Row:
    """Return the row of positions, as the position is at the end of a day so far."""
    low, overflow = _split(_amounts_of_position(position))
    return (
        wallet,
        mint,
        date_of(day),
        *low,
        *_rest_of_position(position),
        overflow,
    )


def write_position(journal: Journal, entry: Entry) -> None:
    """Put a position among the rows, as it is at the end of a day."""
    if entry.day != NOT_CHANGED:
        journal.rows[POSITIONS.name].append(
            position_row(entry.holding.position, entry.wallet, entry.mint, entry.day)
        )


def write_day(journal: Journal, store: Store, wallet: Wallet, gone_day: int) -> None:
    """Put a day that is over for a wallet among the writes; Redis keeps those after `gone_day`."""
    figures = wallet.figures
    if wallet.day > gone_day:
        journal.commands.append(
            ("HSET", store.days(wallet.day), wallet.raw, pack_wallet_day(figures))
        )
    journal.rows[WALLET_DAYS.name].append(wallet_day_row(figures, wallet.address, wallet.day))


def wallet_day_row(figures: WalletDay, wallet: str, day: int) -> Row:
    """Return the row of wallet_days."""
    low, overflow = _split(_amounts_of_day(figures))
    return (
        wallet,
        date_of(day),
        *low,
        *_rest_of_day(figures),
        overflow,
    )


def _split(amounts: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the lower 64 bits of amounts, and their upper ones where any has some."""
    if max(amounts) <= _U64_MAX:
        return amounts, ()
    return tuple(each & _U64_MAX for each in amounts), tuple(each >> 64 for each in amounts)
