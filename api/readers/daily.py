"""Days of a wallet: gains and volumes, over all its tokens or in one.

A day on which nothing happened has no row in the stores, and is left out of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final

from api.amounts import human, sol, usd
from api.answers.history import DailyPnl, DailyTokenPnl, DailyTrades, TokenChange, TokenDay, Volume
from api.readers.position_figures import outcome, paid, trading
from api.readers.settled import Settled, read_settled
from api.readers.tokens import read_tokens, unknown_token
from api.sql import load
from api.stores import Stores
from api.windows import LONGEST_DAYS, Days
from schemas.positions import Position, WalletDay, summary
from schemas.redis_keys import wallet_tag

_GROUP: Final = "pnl"
_WALLET: Final = load(__package__, "wallet_days")
_POSITION: Final = load(__package__, "position_days")
_OF_WALLET: Final = frozenset(field.name for field in fields(WalletDay))
_OF_POSITION: Final = frozenset(field.name for field in fields(Position))

Row = Mapping[str, Any]


async def read_now(stores: Stores, wallet: str) -> Settled:
    """Return how far the books of a wallet have come; raises Problem.

    Ask before the days: what they tell is complete up to here at the least.
    """
    return await read_settled(stores, _GROUP, [wallet_tag(wallet)])


async def read_daily_pnl(stores: Stores, wallet: str, days: Days, now: Settled) -> DailyPnl:
    """Return the gains of each day; raises Problem."""
    figures = await _wallet_days(stores, wallet, days)
    return {
        "wallet": wallet,
        "from_day": str(days.first),
        "to_day": str(days.last),
        "days": [
            {"day": day, "from_ms": _begin_ms(day), **trading(each)}
            for day, each in figures.items()
        ],
        "total": trading(summary(figures.values())),
        "as_of_slot": now.slot,
        "as_of_ms": now.time_ms,
    }


async def read_daily_trades(stores: Stores, wallet: str, days: Days, now: Settled) -> DailyTrades:
    """Return the volumes of each day; raises Problem."""
    figures = await _wallet_days(stores, wallet, days)
    return {
        "wallet": wallet,
        "from_day": str(days.first),
        "to_day": str(days.last),
        "days": [
            {"day": day, "from_ms": _begin_ms(day), **_volume(each)}
            for day, each in figures.items()
        ],
        "total": _volume(summary(figures.values())),
        "as_of_slot": now.slot,
        "as_of_ms": now.time_ms,
    }


async def read_daily_token_pnl(
    stores: Stores, wallet: str, mint: str, days: Days, now: Settled
) -> DailyTokenPnl:
    """Return what a wallet did with a token on each day; raises Problem."""
    token = (await read_tokens(stores, [mint])).get(mint)
    rows = await stores.query(
        _POSITION,
        # Those of the range, and the one before it.
        {"wallet": wallet, "mint": mint, "last": str(days.last), "limit": LONGEST_DAYS + 1},
    )
    if token is None and not rows:
        raise unknown_token(mint)
    decimals = None if token is None else token.decimals
    first = str(days.first)
    ends = [(row["day"], _position(row)) for row in reversed(rows)]
    changes: list[TokenDay] = []
    before = started = Position()
    for day, end in ends:
        if day < first:
            started = end
        else:
            changes.append(
                {
                    "day": day,
                    "from_ms": _begin_ms(day),
                    "held_raw": str(end.held_raw),
                    "held": human(end.held_raw, decimals),
                    **_change(before, end, decimals),
                }
            )
        before = end
    return {
        "wallet": wallet,
        "mint": mint,
        "decimals": decimals,
        "from_day": first,
        "to_day": str(days.last),
        "days": changes,
        "total": _change(started, before, decimals),
        "as_of_slot": now.slot,
        "as_of_ms": now.time_ms,
    }


async def _wallet_days(stores: Stores, wallet: str, days: Days) -> dict[str, WalletDay]:
    rows = await stores.query(
        _WALLET, {"wallet": wallet, "first": str(days.first), "last": str(days.last)}
    )
    return {row["day"]: WalletDay(**_known(row, _OF_WALLET)) for row in rows}


def _position(row: Row) -> Position:
    return Position(**_known(row, _OF_POSITION))


def _known(row: Row, names: Iterable[str]) -> dict[str, int]:
    return {name: value for name, value in row.items() if name in names}


def _begin_ms(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1000


def _change(before: Position, end: Position, decimals: int | None) -> TokenChange:
    """Return what happened between two states of a position."""
    change = Position(**{name: getattr(end, name) - getattr(before, name) for name in _OF_POSITION})
    return {
        "bought_raw": str(change.bought_raw),
        "bought": human(change.bought_raw, decimals),
        "sold_raw": str(change.sold_raw),
        "sold": human(change.sold_raw, decimals),
        "received_raw": str(change.received_raw),
        "received": human(change.received_raw, decimals),
        "sent_raw": str(change.sent_raw),
        "sent": human(change.sent_raw, decimals),
        "burned_raw": str(change.burned_raw),
        "burned": human(change.burned_raw, decimals),
        "unmatched_raw": str(change.unmatched_raw),
        "unmatched": human(change.unmatched_raw, decimals),
        **outcome(change),
        **paid(change),
    }


def _volume(figures: WalletDay) -> Volume:
    lamports = figures.bought_lamports + figures.sold_lamports
    usd_micros = figures.bought_usd_micros + figures.sold_usd_micros
    return {
        "trades": figures.buys + figures.sells,
        "buys": figures.buys,
        "sells": figures.sells,
        "wins": figures.wins,
        "losses": figures.losses,
        "bought_lamports": str(figures.bought_lamports),
        "bought_sol": sol(figures.bought_lamports),
        "bought_usd_micros": str(figures.bought_usd_micros),
        "bought_usd": usd(figures.bought_usd_micros),
        "sold_lamports": str(figures.sold_lamports),
        "sold_sol": sol(figures.sold_lamports),
        "sold_usd_micros": str(figures.sold_usd_micros),
        "sold_usd": usd(figures.sold_usd_micros),
        "volume_lamports": str(lamports),
        "volume_sol": sol(lamports),
        "volume_usd_micros": str(usd_micros),
        "volume_usd": usd(usd_micros),
        **paid(figures),
    }
