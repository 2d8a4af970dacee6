"""Days of a wallet: gains and volumes, over all its tokens or in one.

A day on which nothing happened has no row in the stores, and is left out of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final, cast

from api.history.answers import DailyPnl, DailyTokenPnl, DailyTrades, TokenChange, TokenDay, Volume
from api.http.windows import LONGEST_DAYS, Days
from api.http.windows import days as days_asked
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.stores.settled import Settled, read_settled
from api.tokens.reader import TokenReader, unknown_token
from api.wallets.figures import outcome, paid, trading
from api.wallets.holdings import Beginning
from infra.clickhouse.sql import load
from schemas.amounts import human, sol, usd
from schemas.positions import Position, WalletDay, summary
from schemas.redis_keys import wallet_tag

_GROUP: Final = "pnl"
_WALLET: Final = load(__package__, "wallet_days")
_POSITION: Final = load(__package__, "position_days")
_OF_WALLET: Final = frozenset(field.name for field in fields(WalletDay))
_OF_POSITION: Final = frozenset(field.name for field in fields(Position))

Row = Mapping[str, Any]


async def read_daily_pnl(
    stores: Stores,
    gaps: GapReader,
    beginning: Beginning,
    wallet: str,
    from_ms: int | None,
    to_ms: int | None,
) -> DailyPnl:
    """Return the gains of each day; raises Problem."""
    return cast(
        DailyPnl, await _read_daily(stores, gaps, beginning, wallet, from_ms, to_ms, trading)
    )


async def read_daily_trades(
    stores: Stores,
    gaps: GapReader,
    beginning: Beginning,
    wallet: str,
    from_ms: int | None,
    to_ms: int | None,
) -> DailyTrades:
    """Return the volumes of each day; raises Problem."""
    return cast(
        DailyTrades, await _read_daily(stores, gaps, beginning, wallet, from_ms, to_ms, _volume)
    )


async def _read_daily(
    stores: Stores,
    gaps: GapReader,
    beginning: Beginning,
    wallet: str,
    from_ms: int | None,
    to_ms: int | None,
    answer: Callable[[WalletDay], Mapping[str, Any]],
) -> dict[str, Any]:
    (await gaps.read()).check_wallet(wallet)
    now, days = await _range(stores, wallet, from_ms, to_ms)
    rows = await stores.query(
        _WALLET, {"wallet": wallet, "first": str(days.first), "last": str(days.last)}
    )
    figures = {row["day"]: WalletDay(**_known(row, _OF_WALLET)) for row in rows}
    return {
        "wallet": wallet,
        "from_day": str(days.first),
        "to_day": str(days.last),
        "known_from_ms": await _known_from_ms(beginning),
        "days": [
            {"day": day, "from_ms": _begin_ms(day), **answer(each)} for day, each in figures.items()
        ],
        "total": answer(summary(figures.values())),
        "as_of_slot": now.slot,
        "as_of_ms": now.time_ms,
        "gaps": (await gaps.read()).of_wallet(wallet),
    }


async def _known_from_ms(beginning: Beginning) -> int | None:
    began = await beginning.read()
    return None if began is None else began[1]


async def _range(
    stores: Stores, wallet: str, from_ms: int | None, to_ms: int | None
) -> tuple[Settled, Days]:
    """Return how far the books of a wallet have come, and the days asked for; raises Problem.

    Ask before the days' rows: these are complete up to there at the least.
    """
    now = await read_settled(stores, _GROUP, [wallet_tag(wallet)])
    return now, days_asked(from_ms, to_ms, now.time_ms)


async def read_daily_token_pnl(
    stores: Stores,
    gaps: GapReader,
    beginning: Beginning,
    reader: TokenReader,
    wallet: str,
    mint: str,
    from_ms: int | None,
    to_ms: int | None,
) -> DailyTokenPnl:
    """Return what a wallet did with a token on each day; raises Problem."""
    (await gaps.read()).check_wallet(wallet)
    now, days = await _range(stores, wallet, from_ms, to_ms)
    token = (await reader.read([mint])).get(mint)
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
        "known_from_ms": await _known_from_ms(beginning),
        "days": changes,
        "total": _change(started, before, decimals),
        "as_of_slot": now.slot,
        "as_of_ms": now.time_ms,
        "gaps": (await gaps.read()).of_wallet(wallet),
    }


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
