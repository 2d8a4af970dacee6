"""OHLCV candles of a token, all intervals from the same bars.

Rules. Open, high, low and close are of the token's price as it is published, after each trade;
volumes and counts are of all trades, also of those whose own price was set aside; a trade of
unknown value is in no volume of SOL or dollars. A candle opens at the first price within it, not at
the last one before: an interval without trades has no candle, and no candle has a price that was
not there in its time. Times are the block's; all trades of a slot are in one bar, which goes into
the open candle of every interval. A snapshot's version is the slot of its last trade, so writing it
again, or late, changes nothing.

SOL is what others are priced in: its candles are of the SOL/USD reference after each slot, which
the slot's batch carries, without volumes.
"""

from __future__ import annotations

from typing import Final

from schemas.markets import INTERVALS_S, MAX_PRICE, MAX_VOLUME, Candle

_LENGTHS: Final = tuple(INTERVALS_S.values())


class Bar:
    """The trades of one mint in one slot."""

    __slots__ = (
        "amount_raw",
        "buys",
        "close_sol",
        "high_sol",
        "lamports",
        "low_sol",
        "open_sol",
        "sells",
        "usd_micros",
    )

    def __init__(self) -> None:
        self.open_sol = self.high_sol = self.low_sol = self.close_sol = 0
        self.amount_raw = self.lamports = self.usd_micros = 0
        self.buys = self.sells = 0

    def add(
        self, *, is_buy: bool, amount_raw: int, lamports: int, usd_micros: int, price_sol: int
    ) -> None:
        """Add a trade; `price_sol` is the token's price after it, 0 while there is none."""
        self.amount_raw += amount_raw
        self.lamports = min(self.lamports + lamports, MAX_VOLUME)
        self.usd_micros = min(self.usd_micros + usd_micros, MAX_VOLUME)
        if is_buy:
            self.buys += 1
        else:
            self.sells += 1
        if price_sol:
            self.quote(price_sol)

    def quote(self, price_sol: int) -> None:
        """Add a price without a trade."""
        self.close_sol = price_sol
        if not self.open_sol:
            self.open_sol = self.high_sol = self.low_sol = price_sol
        elif price_sol > self.high_sol:
            self.high_sol = price_sol
        elif price_sol < self.low_sol:
            self.low_sol = price_sol

    def candle(self, slot: int, sol_usd: tuple[int, int] | None) -> Candle:
        """Return the bar as a candle of no interval; `sol_usd` is an exact ratio."""
        usd = [0, 0, 0, 0]
        if sol_usd is not None:
            dollars, sols = sol_usd
            prices = (self.open_sol, self.high_sol, self.low_sol, self.close_sol)
            usd = [min(price * dollars // sols, MAX_PRICE) for price in prices]
        return Candle(
            0,
            slot,
            self.open_sol,
            self.high_sol,
            self.low_sol,
            self.close_sol,
            usd[0],
            usd[1],
            usd[2],
            usd[3],
            self.amount_raw,
            self.lamports,
            self.usd_micros,
            self.buys,
            self.sells,
        )


def merge(candle: Candle, later: Candle) -> None:
    """Add what came later to a candle."""
    candle.slot = later.slot
    candle.amount_raw += later.amount_raw
    candle.lamports = min(candle.lamports + later.lamports, MAX_VOLUME)
    candle.usd_micros = min(candle.usd_micros + later.usd_micros, MAX_VOLUME)
    candle.buys += later.buys
    candle.sells += later.sells
    if later.close_sol:
        candle.close_sol = later.close_sol
        if candle.open_sol:
            candle.high_sol = max(candle.high_sol, later.high_sol)
            candle.low_sol = min(candle.low_sol, later.low_sol)
        else:
            candle.open_sol = later.open_sol
            candle.high_sol, candle.low_sol = later.high_sol, later.low_sol
    if later.close_usd:
        candle.close_usd = later.close_usd
        if candle.open_usd:
            candle.high_usd = max(candle.high_usd, later.high_usd)
            candle.low_usd = min(candle.low_usd, later.low_usd)
        else:
            candle.open_usd = later.open_usd
            candle.high_usd, candle.low_usd = later.high_usd, later.low_usd


def extend(candles: list[Candle], bar: Candle, time_s: int) -> None:
    """Put a bar into the latest candle of every interval; `candles` is empty or has them all."""
    if not candles:
        candles.extend(_begin(bar, time_s - time_s % length_s) for length_s in _LENGTHS)
        return
    for at, length_s in enumerate(_LENGTHS):
        start_s = time_s - time_s % length_s
        if candles[at].start_s == start_s:
            merge(candles[at], bar)
        else:
            candles[at] = _begin(bar, start_s)


def _begin(bar: Candle, start_s: int) -> Candle:
    return Candle(
        start_s,
        bar.slot,
        bar.open_sol,
        bar.high_sol,
        bar.low_sol,
        bar.close_sol,
        bar.open_usd,
        bar.high_usd,
        bar.low_usd,
        bar.close_usd,
        bar.amount_raw,
        bar.lamports,
        bar.usd_micros,
        bar.buys,
        bar.sells,
    )
