"""Which launchpad tokens trend: a score of the wallets that trade them, and the message about each.

    score = 16 * W(5 min) + 4 * W(1 h) + W(24 h),  W(window) = sum over the traders in it of
            log2(1 + dollars traded, at most 10,000)

A window's traders are the different wallets that traded in it; a wallet counts once, whatever it
does, with the logarithm of all it traded since it came (without a day's pause). So a wallet that
trades with itself adds 13.3 at the most, as much as three wallets with 20 dollars each, and an
attack has to bring many funded wallets rather than much volume. The windows' factors let a
newcomer overtake yesterday's favourite within minutes, and a lasting one stay.

Why so. Logarithm of the votes, and age counted against them: Reddit's "hot" ranking (reddit-
archive, _sorts.pyx). Makers counted beside volume and transactions: DEX Screener's own account of
its trending score. A sum of volume would reward wash trading; a count of wallets,
each with a cap, does not. What it cannot see is many wallets of one hand; each costs its fees.

A list holds so many tokens; one comes in by a trade, when it scores more than the least of a full
list, and goes when it is pushed out or none of its trades is within 24 hours. All integers.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from schemas.amounts import usd
from schemas.markets import BUCKET, window

LISTED: Final = 200  # of one partition

FIVE_MINUTES: Final = 5
HOUR: Final = 60
DAY: Final = 24 * 60

_WEIGHTS: Final = Struct(f"<I4xQ{BUCKET.size - 16}x")


def score(minutes: bytes | bytearray, quarters: bytes | bytearray, now_min: int) -> int:
    """Return the score of a token at a minute, in units of 1/1024."""
    five = hour = day = 0
    for start, weight in _WEIGHTS.iter_unpack(minutes):
        if start > now_min - HOUR:
            hour += weight
            if start > now_min - FIVE_MINUTES:
                five += weight
    for start, weight in _WEIGHTS.iter_unpack(quarters):
        if start > now_min - DAY:
            day += weight
    return 16 * five + 4 * hour + day


def volumes(quarters: bytes | bytearray, now_min: int) -> dict[str, Any]:
    """Return the counts and volumes of the last 24 hours, in dollars, as the message has them."""
    day = window(quarters, now_min, DAY)
    return {
        "buy_count": day.buys,
        "sell_count": day.sells,
        "buy_volume_24h": usd(day.buy_usd_micros),
        "sell_volume_24h": usd(day.sell_usd_micros),
        "total_volume_24h": usd(day.buy_usd_micros + day.sell_usd_micros),
    }


def percent(part_raw: int, whole_raw: int | None) -> float | None:
    """Return a share of the supply, 0 to 100; None while that is not known."""
    return 100 * part_raw / whole_raw if whole_raw else None
