"""Rolling figures of a market: sums by minute and by quarter hour, and who traded when.

A trader is counted in the bucket of the last trade alone and moves there with every trade. So
the sum over any buckets that reach up to now is the exact number of different traders in them,
and a reader needs no sets to know it. The trader's weight for the trending score moves along.

A series keeps its buckets for as long as its longest window, and one more: the newest that has
left it, whose closing price is what a change is measured from.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from schemas.markets import BUCKET, MAX_VOLUME, QUARTER, QUARTERS_KEPT

_MASK: Final = (1 << 64) - 1
_START: Final = Struct("<I").unpack_from
_START_AND_SEEN: Final = Struct("<IIQ")
SIZE: Final = BUCKET.size

# A trader in the set of a mint's traders is a score: the minute of the last trade, and the volume
# of all trades since, without a day's pause, in cents. 25 + 27 bits: a double holds it exactly.
_CENT_BITS: Final = 27
MAX_CENTS: Final = (1 << _CENT_BITS) - 1
CAP_CENTS: Final = 1_000_000  # a trader's volume beyond ten thousand dollars weighs nothing more


def oldest_score(minute: int) -> int:
    """Return the least score of those who traded within the longest window, at `minute`."""
    return expiry(minute) << _CENT_BITS


def expiry(minute: int) -> int:
    """Return the first minute that the longest window may still have, at `minute`."""
    return minute - minute % QUARTER - QUARTERS_KEPT


def weight(cents: int) -> int:
    """Return what a trader with that volume weighs: log2(1 + dollars) in units of 1/1024.

    Integer arithmetic: the logarithm is a straight line between powers of two.
    """
    scaled = min(cents, CAP_CENTS) + 100
    shift = scaled.bit_length() - 1
    # log2(100 / 100) is nothing: what 100 cents and no volume give is taken off.
    return (shift << 10) + ((scaled << 10) >> shift) - 1024 - _NOTHING


_NOTHING: Final = (6 << 10) + ((100 << 10) >> 6) - 1024


class Series:
    """Buckets of one width, packed as `schemas.markets` has them."""

    __slots__ = ("data", "keep", "width")

    def __init__(self, width: int, keep: int, data: bytes = b"") -> None:
        self.width = width  # minutes
        self.keep = keep
        self.data = bytearray(data)

    def add(
        self,
        minute: int,
        *,
        is_buy: bool,
        lamports: int,
        usd_micros: int,
        close_sol: int,
        close_usd: int,
    ) -> None:
        """Add a trade; minutes never go back (an earlier one counts in the latest bucket)."""
        data = self.data
        start = minute - minute % self.width
        at = len(data) - SIZE
        if at < 0 or _START(data, at)[0] < start:
            at = self._append(start)
        row = list(BUCKET.unpack_from(data, at))
        if is_buy:
            row[3] += 1
            row[5] = min(row[5] + lamports, MAX_VOLUME)
            row[7] = min(row[7] + usd_micros, MAX_VOLUME)
        else:
            row[4] += 1
            row[6] = min(row[6] + lamports, MAX_VOLUME)
            row[8] = min(row[8] + usd_micros, MAX_VOLUME)
        if close_sol:
            row[9], row[10] = close_sol & _MASK, close_sol >> 64
        if close_usd:
            row[11], row[12] = close_usd & _MASK, close_usd >> 64
        BUCKET.pack_into(data, at, *row)

    def seen(self, weight: int) -> None:
        """Count a trader in the latest bucket, which `add` has made for this trade."""
        at = len(self.data) - SIZE
        start, traders, weights = _START_AND_SEEN.unpack_from(self.data, at)
        _START_AND_SEEN.pack_into(self.data, at, start, traders + 1, weights + weight)

    def unseen(self, minute: int, weight: int) -> None:
        """Take a trader out of the bucket of an earlier trade, if it is kept and counts one."""
        data = self.data
        start = minute - minute % self.width
        low, high = 0, len(data) // SIZE
        while low < high:
            middle = (low + high) // 2
            if _START(data, middle * SIZE)[0] < start:
                low = middle + 1
            else:
                high = middle
        at = low * SIZE
        if at < len(data):
            found, traders, weights = _START_AND_SEEN.unpack_from(data, at)
            if found == start and traders and weights >= weight:
                _START_AND_SEEN.pack_into(data, at, start, traders - 1, weights - weight)

    def _append(self, start: int) -> int:
        """Begin a bucket with the price of the one before; forget what no window has any more."""
        data = self.data
        close = BUCKET.unpack_from(data, len(data) - SIZE)[9:] if data else (0, 0, 0, 0)
        data += BUCKET.pack(start, 0, 0, 0, 0, 0, 0, 0, 0, *close)
        if len(data) == SIZE:
            return 0
        outside = 0
        while _START(data, (outside + 1) * SIZE)[0] <= start - self.keep:
            outside += 1  # ends at the new bucket at the latest
        del data[: outside * SIZE]
        return len(data) - SIZE


class Traders:
    """Those who traded in a market of late, as far as they are in memory.

    `known` has who is in memory: the score, or None for one who is known not to be there.
    """

    __slots__ = ("changed", "known", "trimmed")

    def __init__(self) -> None:
        self.known: dict[bytes, int | None] = {}
        self.changed: dict[bytes, int] = {}  # since they were last written
        self.trimmed = 0  # all below that score are gone from the store

    def forget(self) -> None:
        """Drop from memory what the store has."""
        self.known = dict(self.changed)

    def traded(
        self, trader: bytes, minute: int, usd_micros: int, series: tuple[Series, ...]
    ) -> None:
        """Move a trader to the latest buckets."""
        score = self.known[trader]
        cents = usd_micros // 10_000
        if score is not None:
            before = score >> _CENT_BITS
            if before >= expiry(minute):
                was = weight(score & MAX_CENTS)
                cents += score & MAX_CENTS
                for one in series:
                    one.unseen(before, was)
        cents = min(cents, MAX_CENTS)
        now = weight(cents)
        for one in series:
            one.seen(now)
        score = minute << _CENT_BITS | cents
        self.known[trader] = self.changed[trader] = score
