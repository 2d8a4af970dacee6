"""Candles of a token: those that ClickHouse has, and over them the running ones of Redis."""

from __future__ import annotations

import time
from typing import Any, Final

from api.history.answers import CandleRow, Candles
from api.http.errors import INVALID_PARAMETER, Problem
from api.http.windows import backwards
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.tokens.reader import SOL_MINT, TokenReader, unknown_token
from api.wallets.holdings import Beginning
from infra.clickhouse.sql import load
from schemas.amounts import human, sol, text, usd
from schemas.markets import INTERVALS_S, PRICE_SCALE, Candle, unpack_candles
from schemas.redis_keys import MARKET, MARKETS, mint_tag

DEFAULT_CANDLES: Final = 300
MOST_CANDLES: Final = 1_500
_HOUR_MS: Final = 3_600_000
KEPT_MS: Final = {"1s": 7 * 24 * _HOUR_MS}
"""How long candles are kept after they were written, where not for ever: the table's TTL."""

_SQL: Final = load(__package__, "candles")
_PRICES: Final = (
    *("open_sol", "high_sol", "low_sol", "close_sol"),
    *("open_usd", "high_usd", "low_usd", "close_usd"),
)


async def read_candles(
    stores: Stores,
    gaps: GapReader,
    beginning: Beginning,
    reader: TokenReader,
    mint: str,
    interval: str,
    from_ms: int | None,
    to_ms: int | None,
) -> Candles:
    """Return the candles that begin within [from_ms, to_ms); raises Problem."""
    (await gaps.read()).check_mint(mint)
    token = (await reader.read([mint])).get(mint)
    if token is None:
        raise unknown_token(mint)
    # Progress first, then what runs, then what is written: as an interval ends its candle is
    # written before Redis has the next, so none can slip through.
    tag = mint_tag(mint)
    (slot, time_ms), packed = await stores.ask(
        [
            ("HMGET", MARKETS.make(tag=tag), "slot", "time_ms"),
            ("HGET", MARKET.make(tag=tag, mint=mint), "candles"),
        ]
    )
    as_of_slot, as_of_ms = int(slot or 0), int(time_ms or 0)
    length_s = INTERVALS_S[interval]
    start_ms, end_ms = _range(length_s * 1000, from_ms, to_ms, as_of_ms)
    rows = await stores.query(
        _SQL, {"mint": mint, "interval_s": length_s, "from_ms": start_ms, "to_ms": end_ms}
    )
    found = {row["start_ms"]: row for row in rows}
    if packed:
        running = _row(unpack_candles(packed)[list(INTERVALS_S).index(interval)])
        at_ms = running["start_ms"]
        if start_ms <= at_ms < end_ms and (
            at_ms not in found or found[at_ms]["slot"] <= running["slot"]
        ):
            found[at_ms] = running
    return {
        "mint": mint,
        "interval": interval,
        "interval_s": length_s,
        "decimals": token.decimals,
        "from_ms": start_ms,
        "to_ms": end_ms,
        "known_from_ms": _known_from_ms(interval, await beginning.read()),
        "candles": [
            _candle(
                found[at_ms],
                token.decimals,
                is_closed=at_ms + length_s * 1000 <= as_of_ms,
                is_reference=mint == SOL_MINT,
            )
            for at_ms in sorted(found)
        ],
        "as_of_slot": as_of_slot,
        "as_of_ms": as_of_ms,
        "gaps": (await gaps.read()).of_tokens([mint]),
    }


def _known_from_ms(interval: str, began: tuple[int, int] | None) -> int | None:
    """Return from when on an interval without a candle had no trade; None: no slot is recorded.

    `began` is the first slot and its time.
    """
    if began is None:
        return None
    _, known_ms = began
    if (kept_ms := KEPT_MS.get(interval)) is not None:
        since_ms = time.time_ns() // 1_000_000 - kept_ms
        # In whole hours: the same answer keeps its ETag for an hour.
        known_ms = max(known_ms, -(-since_ms // _HOUR_MS) * _HOUR_MS)
    return known_ms


def _range(length_ms: int, from_ms: int | None, to_ms: int | None, now_ms: int) -> tuple[int, int]:
    """Return the range of starts asked for; without any the last ones, with the running one."""
    end_ms = now_ms + 1 if to_ms is None else to_ms
    if from_ms is None:
        last_ms = (end_ms - 1) // length_ms * length_ms
        from_ms = max(0, last_ms - (DEFAULT_CANDLES - 1) * length_ms)
    if from_ms >= end_ms:
        raise backwards(from_ms, end_ms)
    count = -(-end_ms // length_ms) - -(-from_ms // length_ms)
    if count > MOST_CANDLES:
        raise Problem(
            INVALID_PARAMETER,
            f"`from` and `to` must span at most {MOST_CANDLES} intervals "
            f"({MOST_CANDLES * length_ms} ms), got {count}",
        )
    return from_ms, end_ms


def _row(candle: Candle) -> dict[str, Any]:
    """Return a candle of Redis as a row of ClickHouse."""
    prices = {name: getattr(candle, name) / PRICE_SCALE for name in _PRICES}
    return {
        "start_ms": candle.start_s * 1000,
        "slot": candle.slot,
        **prices,
        "amount_raw": candle.amount_raw,
        "volume_lamports": candle.lamports,
        "volume_usd_micros": candle.usd_micros,
        "buys": candle.buys,
        "sells": candle.sells,
    }


def _candle(
    row: dict[str, Any], decimals: int | None, *, is_closed: bool, is_reference: bool
) -> CandleRow:
    """Return a candle as it is answered; one of a reference price has no volume."""
    amount_raw = lamports = usd_micros = buys = sells = None
    if not is_reference:
        amount_raw, buys, sells = row["amount_raw"], row["buys"], row["sells"]
        lamports, usd_micros = row["volume_lamports"], row["volume_usd_micros"]
    return {
        "start_ms": row["start_ms"],
        "is_closed": is_closed,
        "open_sol": row["open_sol"] or None,
        "high_sol": row["high_sol"] or None,
        "low_sol": row["low_sol"] or None,
        "close_sol": row["close_sol"] or None,
        "open_usd": row["open_usd"] or None,
        "high_usd": row["high_usd"] or None,
        "low_usd": row["low_usd"] or None,
        "close_usd": row["close_usd"] or None,
        "amount_raw": text(amount_raw),
        "amount": None if amount_raw is None else human(amount_raw, decimals),
        "volume_lamports": text(lamports),
        "volume_sol": None if lamports is None else sol(lamports),
        "volume_usd_micros": text(usd_micros),
        "volume_usd": None if usd_micros is None else usd(usd_micros),
        "buys": buys,
        "sells": sells,
        "slot": row["slot"],
    }
