"""The price of a token, from all of its pools, that no single thin one can move.

The price is the weighted median of what the pools last traded at: always a price that some pool
has, and unmoved by any pool or pools that weigh less than half. (Medians against manipulation:
Chainlink's aggregation, MakerDAO's medianizer. Weights of depth and of volume that halves with
time: Bitquery's price index halves within half an hour, Mobula weighs pools by depth and volume.)

What a pool weighs, in lamports:
- One that discloses its quote reserves, in money: the reserves, but at most 16 times its recent
  volume. Volume without liquidity gains nothing, liquidity nobody trades against fades. Of
  reserves counts what was there before as well, for ten seconds at least: what is put in, traded
  against and taken out again moves nothing.
- One that does not, or in a token whose worth may be made up: its recent volume, at most its
  virtual reserves, and only what it traded within a tenth of the price of the other pools, if
  those weigh a tenth of what it would with the trade: less does not speak against it. If it then
  walks off by more than a tenth while they stay, it loses all. Beside pools with proven reserves,
  all others together weigh at most 20 SOL: trading with oneself there is nearly free.

Recent: volume halves every half hour of the token's own trading time, in which a pause longer
than a minute counts as a minute. So a pool is outdated by trades elsewhere, not by a quiet night.

A trade is set aside, with the reason, if it is dust (rounding shows in its price), impossible
(nothing on one side, more SOL than there is), or late (the pool has traded in a later slot).
When a token migrates, the new pool begins with the price and the weight of its curve, so the
price is the curve's until the first trade in the pool, and the curve has no say from then on. Where
the migration names no pool, the curve's price stays until any pool trades. A token migrates once: a
second migration changes nothing.

What cannot be held off without reading accounts: a token all of whose pools are thin, or all
hide their reserves, is worth what its heaviest traders make it; and liquidity that is there for
two trades ten seconds apart, with none between, counts as proven.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from typing import Final

from pipeline.domain.pool_trade import Ratio, Trade
from schemas.amounts import LAMPORTS

DUST_LAMPORTS: Final = 10_000
DUST_AMOUNT_RAW: Final = 100  # fewer units price to no better than a per cent
ALL_LAMPORTS: Final = 1_000_000_000 * LAMPORTS  # more SOL than exists

MAX_POOLS: Final = 8
TURNOVER: Final = 16
HALVES_MS: Final = 30 * 60_000
LONGEST_PAUSE_MS: Final = 60_000
AGREES: Final = 10  # within a tenth
ESTIMATES_LAMPORTS: Final = 20 * LAMPORTS
LEAST_DISCLOSED_LAMPORTS: Final = LAMPORTS // 1000  # a curve that holds nothing yet still has a say
LATE_SLOTS: Final = 150  # older than the token's last trade: a minute
PROVEN_SLOTS: Final = 25  # ten seconds

_U64: Final = (1 << 64) - 1


class Verdict(StrEnum):
    """What became of a trade."""

    ACCEPTED = "accepted"
    DUST = "dust"
    IMPOSSIBLE = "impossible"
    LATE = "late"


SHOWS_NO_PRICE: Final = frozenset({Verdict.DUST, Verdict.IMPOSSIBLE, Verdict.LATE})


class Pool:
    """What is known of one pool of the token."""

    __slots__ = (
        "amount_raw",
        "anchor",
        "at_ms",
        "bound",
        "disclosed",
        "lamports",
        "least",
        "proven",
        "slot",
        "turned_slot",
        "volume",
    )

    def __init__(
        self,
        lamports: int,
        amount_raw: int,
        slot: int,
        at_ms: int,
        *,
        volume: int = 0,
        disclosed: bool = False,
        bound: int = 0,
        anchor: Ratio = (0, 0),
        proven: int = 0,
        least: int = 0,
        turned_slot: int = 0,
    ) -> None:
        self.lamports = lamports  # price: lamports / amount_raw
        self.amount_raw = amount_raw
        self.slot = slot
        self.at_ms = at_ms  # token's trading time of the last trade
        self.volume = volume  # as of at_ms
        self.disclosed = disclosed  # its reserves, by one trade at least
        self.bound = bound  # the reserves, else virtual ones; the most it may weigh
        self.anchor = anchor  # where it last agreed with the others
        self.proven = proven  # its least reserves in ten seconds or more before `turned_slot`
        self.least = least  # ... and since
        self.turned_slot = turned_slot

    @property
    def is_proven(self) -> bool:
        """Whether its reserves were there ten seconds before."""
        return self.proven > 0

    def note_reserves(self, depth: int, slot: int) -> None:
        """Take note of its reserves after a trade."""
        if not self.disclosed:
            self.disclosed, self.least, self.turned_slot = True, depth, slot
        elif slot - self.turned_slot >= PROVEN_SLOTS:
            self.proven, self.least, self.turned_slot = self.least, depth, slot
        else:
            self.least = min(self.least, depth)
        self.bound = min(depth, self.proven) if self.is_proven else depth

    def weight(self, now_ms: int) -> int:
        """Return its weight, before the bound on all that disclose none."""
        volume = _faded(self.volume, now_ms - self.at_ms)
        if self.disclosed:
            return max(LEAST_DISCLOSED_LAMPORTS, min(self.bound, TURNOVER * volume))
        return min(self.bound, volume)


class MintPrice:
    """The price of one mint; a function of the trades it was given, in their order."""

    __slots__ = ("_clock_ms", "_left", "_pools", "pool", "price", "slot", "time_ms")

    def __init__(self) -> None:
        self.price: Ratio | None = None  # lamports for so many raw units
        self.pool = ""  # whose price it is
        self.slot = 0  # of the latest trade accepted
        self.time_ms = 0
        self._clock_ms = 0  # the token's trading time
        self._pools: dict[str, Pool] = {}
        self._left = ""  # the curve it migrated from

    def apply(self, trade: Trade) -> Verdict:
        """Take a trade into account, or set it aside."""
        if not (0 < trade.lamports < ALL_LAMPORTS) or not (0 < trade.amount_raw <= _U64):
            return Verdict.IMPOSSIBLE
        if trade.lamports < DUST_LAMPORTS or trade.amount_raw < DUST_AMOUNT_RAW:
            return Verdict.DUST
        name = trade.pool
        pool = self._pools.get(name)
        oldest = self.slot - LATE_SLOTS if pool is None else pool.slot
        if trade.slot < oldest or name == self._left:
            return Verdict.LATE
        self._advance(trade)
        lamports, amount_raw = trade.spot or (trade.lamports, trade.amount_raw)
        if pool is None:
            pool = self._pools[name] = Pool(lamports, amount_raw, trade.slot, self._clock_ms)
        else:
            pool.volume = self._volume(pool)
            pool.lamports, pool.amount_raw = lamports, amount_raw
            pool.slot, pool.at_ms = trade.slot, self._clock_ms
        self._count(name, pool, trade)
        if len(self._pools) > MAX_POOLS:
            self._evict()
        self._settle()
        return Verdict.ACCEPTED

    def migrated(self, from_pool: str, to_pool: str) -> None:
        """Put the new pool in the curve's place; the token's first migration alone counts.

        `to_pool` is empty where the migration does not name it.
        """
        if self._left or not from_pool or from_pool == to_pool:
            return
        self._left = from_pool
        curve = self._pools.pop(from_pool, None)
        if curve is None:
            return
        if not to_pool:
            return
        pool = self._pools.get(to_pool)
        if pool is None:
            self._pools[to_pool] = curve
        else:  # it has traded already
            pool.volume = min(self._volume(pool) + self._volume(curve), ALL_LAMPORTS)
            pool.at_ms = self._clock_ms
        self._settle()

    def _advance(self, trade: Trade) -> None:
        if self.time_ms:
            self._clock_ms += min(max(0, trade.time_ms - self.time_ms), LONGEST_PAUSE_MS)
        self.time_ms = max(self.time_ms, trade.time_ms)
        self.slot = max(self.slot, trade.slot)

    def _count(self, name: str, pool: Pool, trade: Trade) -> None:
        """Add the trade's volume where it counts, and renew what bounds the pool's weight."""
        if trade.depth_lamports is not None and trade.in_money:
            pool.note_reserves(min(trade.depth_lamports, ALL_LAMPORTS), trade.slot)
        elif not pool.disclosed:
            virtual = trade.virtual_lamports
            pool.bound = ALL_LAMPORTS if virtual is None else min(virtual, ALL_LAMPORTS)
            here = (pool.lamports, pool.amount_raw)
            own = min(pool.bound, pool.volume + trade.lamports, ESTIMATES_LAMPORTS)
            others = self._median(without=name, at_least=own // 10)
            if others is not None and not _near(here, others):
                if not _near(here, pool.anchor):
                    pool.volume = 0
                return
            pool.anchor = here
        pool.volume = min(pool.volume + trade.lamports, ALL_LAMPORTS)

    def _volume(self, pool: Pool) -> int:
        return _faded(pool.volume, self._clock_ms - pool.at_ms)

    def _settle(self) -> None:
        if len(self._pools) == 1:
            ((name, pool),) = self._pools.items()
        else:
            found = self._weighted_median(self._weights())
            if found is None:
                return  # no pool counts: the last price stays
            name = found
            pool = self._pools[name]
        self.pool = name
        self.price = (pool.lamports, pool.amount_raw)

    def _weights(self, without: str = "") -> dict[str, int]:
        """Return what the pools weigh, those whose reserves are not proven bounded together."""
        now_ms = self._clock_ms
        weights = {
            name: pool.weight(now_ms) for name, pool in self._pools.items() if name != without
        }
        bounded = [name for name in weights if not self._pools[name].is_proven]
        total = sum(weights[name] for name in bounded)
        if total > ESTIMATES_LAMPORTS and len(bounded) < len(weights):
            for name in bounded:
                weights[name] = weights[name] * ESTIMATES_LAMPORTS // total
        return weights

    def _median(self, without: str, at_least: int) -> Ratio | None:
        """Return the price of the other pools; None if they weigh too little."""
        if len(self._pools) == 1:
            return None
        weights = self._weights(without)
        name = self._weighted_median(weights)
        if name is None or sum(weights.values()) < at_least:
            return None
        return self._pools[name].lamports, self._pools[name].amount_raw

    def _weighted_median(self, weights: dict[str, int]) -> str | None:
        """Return the pool at which, by ascending price, half of the weight is reached."""
        total = sum(weights.values())
        if not total:
            return None
        reached = 0
        for _, name in sorted((self._height(name), name) for name in weights):
            reached += weights[name]
            if 2 * reached >= total:
                return name
        raise AssertionError("half of a sum is reached within it")

    def _height(self, name: str) -> int:
        pool = self._pools[name]
        return (pool.lamports << 64) // pool.amount_raw

    def _evict(self) -> None:
        weights = self._weights()  # by what they have to say, else volume drives out reserves
        del self._pools[min(weights, key=lambda name: (weights[name], name))]

    # Bytes: little-endian, a version first, so that another form can be recognised.

    def pack(self) -> bytes:
        """Return all of it as bytes."""
        lamports, amount_raw = self.price or (0, 0)
        names = sorted(self._pools)
        head = _HEAD.pack(
            _VERSION, self._clock_ms, self.time_ms, self.slot, lamports, amount_raw, len(names)
        )
        parts = [head, _text(self.pool), _text(self._left)]
        for name in names:
            pool = self._pools[name]
            parts += [
                _text(name),
                _POOL.pack(
                    pool.lamports,
                    pool.amount_raw,
                    pool.slot,
                    pool.at_ms,
                    pool.volume,
                    pool.disclosed,
                    pool.bound,
                    *pool.anchor,
                    pool.proven,
                    pool.least,
                    pool.turned_slot,
                ),
            ]
        return b"".join(parts)

    @classmethod
    def unpack(cls, data: bytes) -> MintPrice:
        """Return what `pack` was called on; raises ValueError for bytes of another form."""
        self = cls()
        try:
            version, self._clock_ms, self.time_ms, self.slot, lamports, amount_raw, count = (
                _HEAD.unpack_from(data)
            )
            if version not in (_VERSION, _VERSION_WITHOUT_PROVEN):
                raise ValueError(f"price state of version {version}, not {_VERSION}")
            form = _POOL if version == _VERSION else _POOL_WITHOUT_PROVEN
            self.price = (lamports, amount_raw) if amount_raw else None
            self.pool, at = _read_text(data, _HEAD.size)
            self._left, at = _read_text(data, at)
            for _ in range(count):
                name, at = _read_text(data, at)
                price, raw, slot, at_ms, volume, disclosed, most, *more = form.unpack_from(data, at)
                at += form.size
                if form is _POOL_WITHOUT_PROVEN:
                    more += [most, most, slot] if disclosed else [0, 0, 0]
                self._pools[name] = Pool(
                    price,
                    raw,
                    slot,
                    at_ms,
                    volume=volume,
                    disclosed=disclosed,
                    bound=most,
                    anchor=(more[0], more[1]),
                    proven=more[2],
                    least=more[3],
                    turned_slot=more[4],
                )
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ValueError(f"{len(data)} bytes are no price state: {error}") from None
        return self


_VERSION: Final = 2
_VERSION_WITHOUT_PROVEN: Final = 1  # what stores may still hold
_HEAD: Final = struct.Struct("<BQQQQQB")
_POOL: Final = struct.Struct("<QQQQQ?QQQQQQ")
_POOL_WITHOUT_PROVEN: Final = struct.Struct("<QQQQQ?QQQ")


def _text(value: str) -> bytes:
    raw = value.encode()
    return bytes([len(raw)]) + raw


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise IndexError("cut short")
    return data[at + 1 : end].decode(), end


def _faded(volume: int, elapsed_ms: int) -> int:
    """Return what is left of a volume: half after each HALVES_MS, a straight line between."""
    halvings, rest = divmod(elapsed_ms, HALVES_MS)
    volume >>= halvings
    return volume - volume * rest // (2 * HALVES_MS)


def _near(one: Ratio, other: Ratio) -> bool:
    """Whether two prices are within a tenth of each other."""
    left, right = one[0] * other[1], other[0] * one[1]
    return abs(left - right) * AGREES <= min(left, right)
