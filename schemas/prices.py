"""The last price of a mint as Redis keeps it, and its closes of the last day.

The hash of `redis_keys.PRICE` has the fields of `LastPrice` and `closes`: the last price of each
five minutes of the last day in which there was one, packed, oldest first. From these a reader
computes at any moment what the price was a day ago, to within five minutes, and the change.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from schemas.times import DAY_MS

CLOSE_MS: Final = 5 * 60_000

_CLOSE: Final = struct.Struct("<Idd")  # number of the five minutes since 1970, SOL, USD or NaN
_CLOSES_A_DAY: Final = DAY_MS // CLOSE_MS


class LastPrice(NamedTuple):
    """A published price; time and slot are those of the latest trade it comes from."""

    price_sol: float
    price_usd: float | None  # None while SOL's own price is not known
    time_ms: int
    slot: int
    pool: str

    def to_hash(self) -> dict[str, str]:
        """Return the fields of the hash."""
        return {
            "price_sol": repr(self.price_sol),
            "price_usd": "" if self.price_usd is None else repr(self.price_usd),
            "time_ms": str(self.time_ms),
            "slot": str(self.slot),
            "pool": self.pool,
        }


def last_price(fields: Mapping[bytes, bytes]) -> LastPrice | None:
    """Return the price in a hash, None if it has none."""
    if b"price_sol" not in fields:
        return None
    usd = fields[b"price_usd"]
    return LastPrice(
        float(fields[b"price_sol"]),
        float(usd) if usd else None,
        int(fields[b"time_ms"]),
        int(fields[b"slot"]),
        fields[b"pool"].decode(),
    )


def close_of(price: LastPrice) -> int:
    """Return the number of the five minutes that a price belongs to."""
    return price.time_ms // CLOSE_MS


def add_close(closes: bytes, price: LastPrice) -> bytes:
    """Return the closes with another, younger one; those that a day's change can't need go."""
    number = close_of(price)
    usd = math.nan if price.price_usd is None else price.price_usd
    size = _CLOSE.size
    old = 0  # of those before the day began the last stays: it was the price as the day began
    while old + 2 * size <= len(closes) and _number(closes, old + size) < number - _CLOSES_A_DAY:
        old += size
    return closes[old:] + _CLOSE.pack(number, price.price_sol, usd)


def day_ago(last: LastPrice, closes: bytes, now_ms: int) -> tuple[float, float | None] | None:
    """Return SOL and USD price a day before `now_ms`; None where there was none yet."""
    at_ms = now_ms - DAY_MS
    if last.time_ms <= at_ms:
        return last.price_sol, last.price_usd
    # Closes ascend. The last whose five minutes were over: of a token that trades the first.
    end = at_ms // CLOSE_MS
    low, high = 0, len(closes) // _CLOSE.size
    if not high or _number(closes, 0) >= end:
        return None
    middle = 1
    while high - low > 1:
        if _number(closes, middle * _CLOSE.size) < end:
            low = middle
        else:
            high = middle
        middle = (low + high) // 2
    _, sol, usd = _CLOSE.unpack_from(closes, low * _CLOSE.size)
    return sol, None if math.isnan(usd) else usd


def change_24h_pct(last: LastPrice, closes: bytes, now_ms: int) -> float | None:
    """Return the change of the USD price in per cent; None where either is not known."""
    before = day_ago(last, closes, now_ms)
    if before is None or not before[1] or last.price_usd is None:
        return None
    return (last.price_usd / before[1] - 1) * 100


def _number(closes: bytes, at: int) -> int:
    number: int = _CLOSE.unpack_from(closes, at)[0]
    return number
