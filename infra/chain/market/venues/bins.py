"""Liquidity in bins of constant price, which shares divide, and positions of shares in bins.

The arithmetic of Meteora DLMM. Shares and growths are Q64.64: a growth is the fee of a token that a
whole share has earned, a part of a share earns nothing. Fees stay outside the bins.
Source: `lb_clmm` as dlmm-sdk's `commons` has it (`bin.rs`, `u128x128_math.rs`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from infra.chain.market.venues.sqrt_price import ONE
from infra.chain.market.venues.venue import ceil_div

BINS_PER_ARRAY: Final = 70
Pair = tuple[int, int]
_MOST: Final = (1 << 128) - 1
_FULL_BPS: Final = 10_000


@lru_cache(maxsize=100_000)
def bin_price(bin_step: int, bin_id: int) -> int:
    """Return a bin's price as Q64.64, as the program rounds it: token Y a token X, raw."""
    if not bin_id:
        return ONE
    square = _MOST // (ONE + (bin_step << 64) // _FULL_BPS)  # below one: no square overflows
    price, left = ONE, abs(bin_id)
    while left:
        if left & 1:
            price = price * square >> 64
        square = square * square >> 64
        left >>= 1
    return price if bin_id < 0 else _MOST // price


class Bin(NamedTuple):
    """What is at one price."""

    x: int = 0
    y: int = 0
    supply: int = 0  # of shares
    growths: Pair = (0, 0)

    def earning(self, side: int, fee: int) -> Bin:
        """Return the bin with a fee for its shares; without a whole share nobody gets it."""
        if not (whole := self.supply >> 64):
            return self
        growths = list(self.growths)
        growths[side] += (fee << 64) // whole
        return self._replace(growths=(growths[0], growths[1]))

    def of(self, share: int) -> Pair:
        """Return what a share is of both reserves, rounded down."""
        if not share:
            return 0, 0
        return share * self.x // self.supply, share * self.y // self.supply

    def added(self, price: int, amounts: Pair) -> tuple[Bin, int]:
        """Return the bin with as much of amounts as it takes, and the share of that.

        A bin that holds both tokens takes them as it is composed, so that no swap is in it.
        """
        x, y = amounts
        if not self.supply:
            share = price * x + (y << 64)
        elif self.x and self.y:
            share = min(x * self.supply // self.x, y * self.supply // self.y)
            x, y = (ceil_div(share * held, self.supply) for held in (self.x, self.y))
        else:
            x, y = (x, 0) if self.x else (0, y)
            share = (price * x + (y << 64)) * self.supply // (price * self.x + (self.y << 64))
        if not share:
            return self, 0
        return self._replace(x=self.x + x, y=self.y + y, supply=self.supply + share), share

    def taken(self, share: int) -> Bin:
        """Return the bin without a share and what it is of the reserves."""
        x, y = self.of(share)
        return self._replace(x=self.x - x, y=self.y - y, supply=self.supply - share)


_EMPTY: Final = Bin()


class Part(NamedTuple):
    """A position's part of a bin, with its fees until it was last written."""

    share: int = 0
    seen: Pair = (0, 0)
    pending: Pair = (0, 0)

    def settled(self, now: Pair) -> Part:
        """Return the part with its fees until growths of its bin."""
        whole = self.share >> 64
        first, second = (
            raw + (whole * (grown - before) >> 64)
            for raw, grown, before in zip(self.pending, now, self.seen, strict=True)
        )
        return Part(self.share, now, (first, second))


@dataclass(frozen=True, slots=True)
class BinnedPosition(ABC):
    """Shares in bins in a row, with their fees until they were last written."""

    pool: bytes
    holder: bytes
    lower: int
    parts: tuple[Part, ...]
    claimed: Pair = (0, 0)
    time_s: int = 0

    @property
    @abstractmethod
    def owner(self) -> bytes:
        """Return the program."""

    @abstractmethod
    def data(self) -> bytes:
        """Return the account's data."""

    @property
    def upper(self) -> int:
        """Return the last bin."""
        return self.lower + len(self.parts) - 1

    @property
    def is_empty(self) -> bool:
        """Whether it has no share and is owed nothing."""
        return not any(part.share or any(part.pending) for part in self.parts)

    @property
    def pending(self) -> Pair:
        """Return its fees until it was last written."""
        return _sum(part.pending for part in self.parts)

    def settled(self, bins: Mapping[int, Bin]) -> BinnedPosition:
        """Return the position with its fees until now."""
        parts = (
            part.settled(bins.get(at, _EMPTY).growths)
            for at, part in enumerate(self.parts, self.lower)
        )
        return replace(self, parts=tuple(parts))

    def amounts(self, bins: Mapping[int, Bin]) -> Pair:
        """Return what its shares are of the reserves."""
        return _sum(
            bins[at].of(part.share) for at, part in enumerate(self.parts, self.lower) if part.share
        )

    def added(
        self, bins: Mapping[int, Bin], placed: Mapping[int, Pair], bin_step: int
    ) -> tuple[BinnedPosition, dict[int, Bin]]:
        """Return the position with liquidity in bins, and the bins that have it."""
        parts, changed = list(self.settled(bins).parts), dict[int, Bin]()
        for at, amounts in placed.items():
            after, share = bins.get(at, _EMPTY).added(bin_price(bin_step, at), amounts)
            if share:
                changed[at] = after
                part = parts[at - self.lower]
                parts[at - self.lower] = part._replace(share=part.share + share)
        return replace(self, parts=tuple(parts)), changed

    def taken(
        self, bins: Mapping[int, Bin], part_bps: int
    ) -> tuple[BinnedPosition, dict[int, Bin]]:
        """Return the position with so much less of each share, and the bins without it."""
        parts, changed = list[Part](), dict[int, Bin]()
        for at, part in enumerate(self.settled(bins).parts, self.lower):
            share = part.share * part_bps // _FULL_BPS
            if share:
                changed[at] = bins[at].taken(share)
            parts.append(part._replace(share=part.share - share))
        return replace(self, parts=tuple(parts)), changed

    def paid(self) -> BinnedPosition:
        """Return the position after its fees were paid to its holder."""
        parts = tuple(part._replace(pending=(0, 0)) for part in self.parts)
        return replace(self, parts=parts, claimed=_sum((self.claimed, self.pending)))


def spread(active: int, lower: int, upper: int, amounts: Pair) -> dict[int, Pair]:
    """Return amounts in equal parts: X in the active bin and above, Y in it and below."""
    sides = range(max(lower, active), upper + 1), range(lower, min(upper, active) + 1)
    each_x, each_y = (
        amount // len(side) if side else 0 for amount, side in zip(amounts, sides, strict=True)
    )
    return {
        at: (each_x if at in sides[0] else 0, each_y if at in sides[1] else 0)
        for at in range(lower, upper + 1)
    }


def _sum(pairs: Iterable[Pair]) -> Pair:
    x = y = 0
    for of_x, of_y in pairs:
        x += of_x
        y += of_y
    return x, y


def moved(before: Mapping[int, Bin], after: Mapping[int, Bin]) -> Pair:
    """Return how much more of both tokens bins hold after a change."""
    held = (before.get(at, _EMPTY) for at in after)
    was, now = _sum((each.x, each.y) for each in held), _sum((b.x, b.y) for b in after.values())
    return now[0] - was[0], now[1] - was[1]
