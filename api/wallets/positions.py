"""A wallet's positions: those in Redis, and those in dead tokens, which are in ClickHouse.

A position is in one of the two and never leaves both. So what ClickHouse has up to the slot at
which Redis was read, and Redis had not, is in ClickHouse by rights; what Redis had is newer.

A wallet with more positions than are read at once is `large`: it is read by the page, in the
order of ClickHouse's `positions`. In both orders the newest trade comes first, and of
trades of one block the lesser address of the token.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from api.http.cursors import Page, seal, unseal
from api.http.errors import NO_POSITION, Problem
from api.stores.clients import Stores
from api.wallets.known_position import KnownPosition
from api.wallets.state import (
    MOST_POSITIONS,
    Part,
    WalletReader,
    WalletState,
)
from infra.clickhouse.sql import load
from schemas.money import MONEY
from schemas.solana.base58 import decode, encode

_COLD: Final = load(__package__, "cold_positions")
_COLD_OF: Final = load(__package__, "cold_positions_of")
_COUNTED: Final = load(__package__, "positions_counted")
_TRADED: Final = load(__package__, "positions_traded")
_AFTER: Final = Struct("<Q32s")

After = tuple[int, str]  # time of the last trade, and mint: where a page ended
BEFORE_ALL: Final[After] = (2**63 - 1, "")


@dataclass(slots=True)
class PositionPage:
    """Some positions of a wallet, in order; of a large wallet `all` is None."""

    state: WalletState
    positions: list[tuple[str, KnownPosition]]
    page: Page
    count: int  # of all positions
    all: dict[str, KnownPosition] | None


def order(item: tuple[str, KnownPosition]) -> tuple[int, str]:
    """Return the place of a position among a wallet's."""
    mint, position = item
    return -position.last_trade_ms, mint


def after(cursor: str | None, wallet: str) -> After:
    """Return where a page of a wallet's begins; raises Problem."""
    if cursor is None:
        return BEFORE_ALL
    time_ms, mint = unseal(cursor, _AFTER, _of(wallet))
    return min(time_ms, 2**63 - 1), encode(mint)


async def with_cold(
    reader: WalletReader, states: Sequence[WalletState], most: int = MOST_POSITIONS
) -> list[dict[str, KnownPosition] | None]:
    """Return all positions of wallets, None for a large one; one query for all of them.

    Those that bought so often that they may be large are counted before, with another one.
    """
    large = await _large(
        reader.stores, [each for each in states if each.has_cold and each.total.buys > most], most
    )
    whole = [state for state in states if state.is_whole and state.wallet not in large]
    marked = [state for state in whole if state.has_cold]
    found: dict[str, dict[str, KnownPosition]] = {
        state.wallet: dict(state.positions) for state in whole
    }
    if marked:
        rows = await reader.stores.query(
            _COLD,
            {
                "wallets": [state.wallet for state in marked],
                "slots": [state.as_of_slot for state in marked],
                "most": most + 1,
            },
        )
        cold: dict[str, int] = {}
        for row in rows:
            wallet = row["wallet"]
            cold[wallet] = cold.get(wallet, 0) + 1
            found[wallet].setdefault(row["mint"], _unpack(reader, row["position"]))
        for wallet, count in cold.items():
            if count > most:
                del found[wallet]
    return [found.get(state.wallet) for state in states]


async def _large(stores: Stores, states: Sequence[WalletState], most: int) -> set[str]:
    """Return which of the wallets have more positions in ClickHouse than are read at once."""
    hot = {state.wallet: state.position_count for state in states if state.is_whole}
    if not hot:
        return set()
    rows = await stores.query(_COUNTED, {"wallets": [*hot]})
    return {row["wallet"] for row in rows if row["position_count"] - hot[row["wallet"]] > most}


async def read_page(
    reader: WalletReader, wallet: str, limit: int, cursor: str | None
) -> PositionPage:
    """Return a page of a wallet's positions; raises Problem."""
    begin = after(cursor, wallet)
    (state,) = await reader.read([wallet], Part.POSITIONS)
    (whole,) = await with_cold(reader, [state])
    if whole is None:
        return await read_large(reader, wallet, limit, begin)
    ordered = sorted(whole.items(), key=order)
    if cursor is not None:
        time_ms, mint = begin
        ordered = [item for item in ordered if order(item) > (-time_ms, mint)]
    positions = ordered[:limit]
    page = _page(wallet, positions, len(ordered) > limit)
    return PositionPage(state, positions, page, len(whole), whole)


async def read_large(reader: WalletReader, wallet: str, limit: int, begin: After) -> PositionPage:
    """Return a page of a large wallet's positions; raises Problem."""
    time_ms, mint = begin
    rows = await reader.stores.query(
        _TRADED,
        {"wallet": wallet, "after_ms": time_ms, "after_mint": mint, "limit": limit + 1},
    )
    mints = [row["mint"] for row in rows[:limit]]
    if not mints:  # a cursor that nobody was given
        (state,) = await reader.read([wallet], Part.TOTALS)
        return PositionPage(state, [], Page(next_cursor=None, has_more=False), 0, None)
    state, absent = await reader.read_positions_of(wallet, mints)
    positions = state.positions | await _cold_of(reader, state, sorted(absent))
    found = [(mint, positions[mint]) for mint in mints if mint in positions]
    page = Page(next_cursor=None, has_more=False)
    if len(rows) > limit:
        last = rows[limit - 1]
        next_cursor = _cursor(wallet, last["last_trade_ms"], last["mint"])
        page = Page(next_cursor=next_cursor, has_more=True)
    return PositionPage(state, found, page, rows[0]["position_count"], None)


async def read_one(
    reader: WalletReader, wallet: str, mint: str
) -> tuple[WalletState, KnownPosition | None]:
    """Return a wallet's position in a token, None where it has none; raises Problem."""
    state, absent = await reader.read_positions_of(wallet, [mint])
    positions = state.positions or await _cold_of(reader, state, sorted(absent))
    return state, positions.get(mint)


def no_position(mint: str) -> Problem:
    """Return the problem of a token that a wallet has no position in."""
    if mint in MONEY:
        return Problem(
            NO_POSITION,
            "SOL and dollar coins are money: what is traded for them is a position, they are not; "
            "/holdings has the balance",
        )
    return Problem(
        NO_POSITION, "The wallet has not traded, received or sent this token since the tape began"
    )


async def _cold_of(
    reader: WalletReader, state: WalletState, mints: Sequence[str]
) -> dict[str, KnownPosition]:
    if not mints:
        return {}
    rows = await reader.stores.query(
        _COLD_OF, {"wallet": state.wallet, "mints": mints, "slot": state.as_of_slot}
    )
    return {row["mint"]: _unpack(reader, row["position"]) for row in rows}


def _unpack(reader: WalletReader, packed: str) -> KnownPosition:
    return reader.known.unpack(b64decode(packed))


def _page(wallet: str, positions: Sequence[tuple[str, KnownPosition]], has_more: bool) -> Page:
    if not has_more:
        return Page(next_cursor=None, has_more=False)
    mint, position = positions[-1]
    return Page(next_cursor=_cursor(wallet, position.last_trade_ms, mint), has_more=True)


def _cursor(wallet: str, time_ms: int, mint: str) -> str:
    return seal(_AFTER.pack(time_ms, decode(mint)), _of(wallet))


def _of(wallet: str) -> str:
    return f"positions of {wallet}"
