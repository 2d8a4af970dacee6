"""The audit trail of a position: its open lots, and what every disposal took of which lot.

Position, lots and matches are all of one slot, the watermark of the wallet's books, so their sums
agree: the gains of all matches are the position's.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final

from api.history.answers import LotMatch, Lots, OpenLot
from api.http.cursors import Page, invalid_cursor, seal, unseal
from api.http.windows import MAX_MS
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.stores.settled import Settled, settled, watermark
from api.stores.unique import Row, read_unique
from api.tokens.reader import TokenReader
from api.wallets.figures import position_answer
from api.wallets.positions import no_position
from api.wallets.state import is_away, presence
from infra.clickhouse.sql import load
from schemas.amounts import human, sol, text, usd
from schemas.positions import (
    CHUNK_LOTS,
    COLD_MARK,
    LOT,
    Lot,
    Position,
    full_chunks,
    tail_lots,
    unpack_cold,
    unpack_lots,
    unpack_position,
)
from schemas.redis_keys import LOTS, POSITIONS, wallet_tag
from schemas.solana import base58
from schemas.topics import SETTLED_BY_WALLET

DEFAULT_LIMIT: Final = 100
MOST: Final = 1_000

_GROUP: Final = "pnl"
_COLD: Final = load(__package__, "cold_lots")
_MATCHES: Final = load(__package__, "lot_matches")
_CURSOR: Final = Struct("<IQQIBI")  # number of the next lot, place of the last match
_NO_LOT: Final = 2**32 - 1
_TRIES: Final = 5

At = tuple[int, int, int, int, int]  # block time, slot, transaction, kind, lot
Numbered = tuple[int, Lot]


async def read_lots(
    stores: Stores,
    gaps: GapReader,
    reader: TokenReader,
    wallet: str,
    mint: str,
    limit: int,
    cursor: str | None,
) -> Lots:
    """Return a position, and a page of its open lots and its matches; raises Problem."""
    (await gaps.read()).check_wallet(wallet)
    of = f"lots of {wallet} in {mint}"
    first, before = (0, None) if cursor is None else _place(cursor, of)
    now, position, open_lots = await _read_position(stores, wallet, mint, first, limit + 1)
    tokens = await reader.read([mint])
    token = tokens.get(mint)
    decimals = None if token is None else token.decimals
    start = before or (now.time_ms, now.slot + 1, 0, 0, 0)
    rows = await _read_matches(stores, wallet, mint, now, start, limit + 1)
    page: Page = {"next_cursor": None, "has_more": max(len(open_lots), len(rows)) > limit}
    lots, matches = open_lots[:limit], rows[:limit]
    if page["has_more"]:
        next_lot = lots[-1][0] + 1 if lots else first
        page["next_cursor"] = seal(
            _CURSOR.pack(next_lot, *(_at(matches[-1]) if matches else start)), of
        )
    return {
        "wallet": wallet,
        "mint": mint,
        "position": position_answer(mint, position, token, tokens.now_ms),
        "open_lots": [_lot(number, lot, position, decimals) for number, lot in lots],
        "matches": [_match(row, decimals) for row in matches],
        "page": page,
        "as_of_slot": now.slot,
        "as_of_ms": now.time_ms,
        "gaps": (await gaps.read()).of_wallet(wallet),
    }


def _place(cursor: str, of: str) -> tuple[int, At]:
    first, time_ms, slot, tx_index, kind, lot = unseal(cursor, _CURSOR, of)
    if time_ms > MAX_MS:
        raise invalid_cursor()
    return first, (time_ms, slot, tx_index, kind, lot)


# The position and its lots.


async def _read_position(
    stores: Stores, wallet: str, mint: str, first: int, most: int
) -> tuple[Settled, Position, list[Numbered]]:
    """Return a position and its open lots from a number on, all of one slot; raises Problem."""
    tag = wallet_tag(wallet)
    asked: list[tuple[Any, ...]] = [
        ("MULTI",),
        watermark(_GROUP, tag),
        ("HMGET", POSITIONS.make(tag=tag, wallet=wallet), base58.decode(mint), COLD_MARK),
        *presence(wallet, tag),
    ]
    numbers: range = range(0)
    for _ in range(_TRIES):
        names = [LOTS.make(tag=tag, wallet=wallet, mint=mint, chunk=n) for n in numbers]
        commands = [*asked, ("MGET", *names)] if names else asked
        answers = (await stores.ask([*commands, ("EXEC",)]))[-1]
        mark, (packed, cold_mark), total, due, may_be_away, *found = answers
        now = settled([mark])
        if packed is None:
            if cold_mark is None and not is_away(total, due, may_be_away):
                break
            return now, *await _read_cold(stores, wallet, mint, now, first, most)
        position, tail = unpack_position(packed)
        wanted = _chunks(position, first, most)
        if set(wanted) <= set(numbers):
            chunks = dict(zip(numbers, found[0] if found else (), strict=True))
            parts = [(number, chunks[number]) for number in wanted]
            return now, position, _numbered(position, parts, tail, first, most)
        numbers = wanted  # what to ask for is known by the position alone
    else:
        raise RuntimeError(f"the position of {wallet} in {mint} grows faster than it is read")
    raise no_position(mint)


async def _read_cold(
    stores: Stores, wallet: str, mint: str, now: Settled, first: int, most: int
) -> tuple[Position, list[Numbered]]:
    rows = await stores.query(
        _COLD,
        {
            "mint": mint,
            "partition": SETTLED_BY_WALLET.place_of(wallet),
            "wallet": wallet,
            "as_of_slot": now.slot,
        },
    )
    if not rows:
        raise no_position(mint)
    packed, chunks = unpack_cold(b64decode(rows[0]["packed"]))
    position, tail = unpack_position(packed)
    parts = zip(full_chunks(position), chunks, strict=True)
    return position, _numbered(position, parts, tail, first, most)


def _chunks(position: Position, first: int, most: int) -> range:
    """Return the full chunks that hold `most` open lots from a number on."""
    full = full_chunks(position)
    start = max(first, position.lots_closed)
    return range(
        max(full.start, start // CHUNK_LOTS),
        min(full.stop, (start + most - 1) // CHUNK_LOTS + 1),
    )


def _numbered(
    position: Position, chunks: Iterable[tuple[int, bytes]], tail: bytes, first: int, most: int
) -> list[Numbered]:
    """Return open lots with their numbers, oldest first."""

    def every() -> Iterator[Numbered]:
        for number, chunk in chunks:
            end = (number + 1) * CHUNK_LOTS  # it holds those that were open when it became full
            yield from zip(
                range(end - len(chunk) // LOT.size, end), unpack_lots(chunk), strict=True
            )
        yield from zip(tail_lots(position), unpack_lots(tail), strict=True)

    start = max(first, position.lots_closed)
    found: list[Numbered] = []
    for number, lot in every():
        if len(found) == most:
            break
        if number >= start:
            found.append((number, lot))
    return found


def _lot(number: int, lot: Lot, position: Position, decimals: int | None) -> OpenLot:
    taken_raw = position.head_taken_raw if number == position.lots_closed else 0
    left_raw = lot.quantity_raw - taken_raw
    lamports = usd_micros = None
    if lot.has_cost:
        lamports = _left(lot.cost_lamports, taken_raw, lot.quantity_raw)
        usd_micros = _left(lot.cost_usd_micros, taken_raw, lot.quantity_raw)
    return {
        "number": number,
        "slot": lot.slot,
        "tx_index": lot.tx_index,
        "time_ms": lot.time_ms,
        "opened_raw": str(lot.quantity_raw),
        "opened": human(lot.quantity_raw, decimals),
        "quantity_raw": str(left_raw),
        "quantity": human(left_raw, decimals),
        "cost_lamports": text(lamports),
        "cost_sol": sol(lamports),
        "cost_usd_micros": text(usd_micros),
        "cost_usd": usd(usd_micros),
    }


def _left(cost: int, taken_raw: int, whole_raw: int) -> int:
    """Return what is left of a cost: of what was taken so far, the share went, rounded down."""
    return cost - cost * taken_raw // whole_raw


# What became of lots.


async def _read_matches(
    stores: Stores, wallet: str, mint: str, now: Settled, before: At, most: int
) -> list[Row]:
    async def ask(at: At, limit: int) -> list[Row]:
        time_ms, slot, tx_index, kind, lot = at
        return await stores.query(
            _MATCHES,
            {
                "wallet": wallet,
                "mint": mint,
                "before_ms": time_ms,
                "before_slot": slot,
                "before_tx_index": tx_index,
                "before_kind": kind,
                "before_lot": lot,
                "as_of_slot": now.slot,
                "limit": limit,
            },
        )

    return await read_unique(ask, _at, before, most)


def _at(row: Row) -> At:
    lot = row["lot_number"]
    return (
        row["time_ms"],
        row["slot"],
        row["tx_index"],
        row["kind_number"],
        _NO_LOT if lot is None else lot,
    )


def _match(row: Row, decimals: int | None) -> LotMatch:
    has_lot = row["lot_number"] is not None
    cost_lamports, cost_usd_micros = row["cost_lamports"], row["cost_usd_micros"]
    proceeds_lamports, proceeds_usd_micros = row["proceeds_lamports"], row["proceeds_usd_micros"]
    lamports = usd_micros = None
    if cost_lamports is not None and proceeds_lamports is not None:
        lamports = proceeds_lamports - cost_lamports
    if cost_usd_micros is not None and proceeds_usd_micros is not None:
        usd_micros = proceeds_usd_micros - cost_usd_micros
    return {
        "kind": row["kind"],
        "signature": row["signature"],
        "slot": row["slot"],
        "tx_index": row["tx_index"],
        "event_index": row["event_index"],
        "time_ms": row["time_ms"],
        "lot_number": row["lot_number"],
        "lot_slot": row["lot_slot"] if has_lot else None,
        "lot_tx_index": row["lot_tx_index"] if has_lot else None,
        "lot_time_ms": row["lot_time_ms"] if has_lot else None,
        "quantity_raw": str(row["quantity_raw"]),
        "quantity": human(row["quantity_raw"], decimals),
        "cost_lamports": text(cost_lamports),
        "cost_sol": sol(cost_lamports),
        "cost_usd_micros": text(cost_usd_micros),
        "cost_usd": usd(cost_usd_micros),
        "proceeds_lamports": text(proceeds_lamports),
        "proceeds_sol": sol(proceeds_lamports),
        "proceeds_usd_micros": text(proceeds_usd_micros),
        "proceeds_usd": usd(proceeds_usd_micros),
        "realized_lamports": text(lamports),
        "realized_sol": sol(lamports),
        "realized_usd_micros": text(usd_micros),
        "realized_usd": usd(usd_micros),
    }
