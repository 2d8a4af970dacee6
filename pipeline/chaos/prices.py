"""The oracle's prices: what a token was worth after each of its trades, and its candles.

Written from the rules as `pipeline.domain.price`, `pool_trade` and `candles` state them, in
fractions. Weights are whole lamports, and a pool's own price has 63 bits, as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any, Final

SOL: Final = 10**9
ALL_SOL: Final = SOL * SOL
SOL_MINT: Final = "So11111111111111111111111111111111111111112"
MONEY: Final = (
    SOL_MINT,
    "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
    "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB",
    "USD1ttGY1N17NEEHLmELoaybftRBUSErhqYiQzvEmuB",
)
HALF_MS: Final = 1_800_000
UNITS: Final = 10**24  # of a stored price, to a SOL or a dollar
MOST: Final = 2**128 - 1
NAMES: Final = ("open", "high", "low", "close")

Swap = dict[str, Any]


@dataclass(slots=True)
class Pool:
    """One pool of a token, as of its last trade."""

    price: Fraction  # lamports for a raw unit
    slot: int
    at_ms: int
    volume: int = 0
    disclosed: bool = False
    most: int = 0  # that it may weigh
    agreed: Fraction | None = None  # its price when it last was near the others'
    depths: list[tuple[int, int]] = field(default_factory=list)  # slot and depth, this span's
    proven: int = 0  # the least of the span before

    def weight(self, now_ms: int) -> int:
        """Return what it weighs by itself."""
        volume = faded(self.volume, now_ms - self.at_ms)
        return (
            max(SOL // 1000, min(self.most, 16 * volume))
            if self.disclosed
            else min(self.most, volume)
        )


class Token:
    """The price of one token; lamports for a raw unit, None before the first trade."""

    def __init__(self) -> None:
        self.price: Fraction | None = None
        self.pools: dict[str, Pool] = {}
        self.slot = self.time_ms = self.clock_ms = 0
        self.left = ""

    def swap(self, swap: Swap) -> None:
        """Take a valued swap."""
        lamports, amount_raw, name = swap["sol_value_lamports"], swap["amount_raw"], swap["pool"]
        if not 10_000 <= lamports < ALL_SOL or not 100 <= amount_raw < 2**64:
            return
        pool = self.pools.get(name)
        if swap["slot"] < (pool.slot if pool else self.slot - 150) or name == self.left:
            return
        if self.time_ms:
            self.clock_ms += min(max(0, swap["block_time_ms"] - self.time_ms), 60_000)
        self.time_ms = max(self.time_ms, swap["block_time_ms"])
        self.slot = max(self.slot, swap["slot"])
        depth, virtual, price = disclosed_by(swap)
        if pool is None:
            pool = self.pools[name] = Pool(price, swap["slot"], self.clock_ms)
        pool.volume = faded(pool.volume, self.clock_ms - pool.at_ms)
        pool.price, pool.slot, pool.at_ms = price, swap["slot"], self.clock_ms
        if depth is not None and swap["quote_mint"] in MONEY:
            self._disclosed(pool, min(depth, ALL_SOL))
            counts = True
        else:
            counts = pool.disclosed or self._agrees(name, pool, virtual, lamports)
        if counts:
            pool.volume = min(pool.volume + lamports, ALL_SOL)
        if len(self.pools) > 8:
            weights = self._weights()
            del self.pools[min((weight, name) for name, weight in weights.items())[1]]
        self._settle()

    def migrated(self, from_pool: str, to_pool: str) -> None:
        """Put a pool in its curve's place, once a token."""
        if self.left or not from_pool or from_pool == to_pool:
            return
        self.left = from_pool
        curve = self.pools.pop(from_pool, None)
        if curve is None or not to_pool:
            return
        pool = self.pools.setdefault(to_pool, curve)
        if pool is not curve:
            volumes = (faded(each.volume, self.clock_ms - each.at_ms) for each in (pool, curve))
            pool.volume, pool.at_ms = min(sum(volumes), ALL_SOL), self.clock_ms
        self._settle()

    def _disclosed(self, pool: Pool, depth: int) -> None:
        pool.disclosed = True
        if pool.depths and pool.slot - pool.depths[0][0] >= 25:
            pool.proven = min(each for _, each in pool.depths)
            pool.depths = []
        pool.depths.append((pool.slot, depth))
        pool.most = min(depth, pool.proven) if pool.proven else depth

    def _agrees(self, name: str, pool: Pool, virtual: int | None, lamports: int) -> bool:
        """Whether what a pool without reserves trades counts; it may lose what it has."""
        pool.most = ALL_SOL if virtual is None else min(virtual, ALL_SOL)
        own = min(pool.most, pool.volume + lamports, 20 * SOL)
        weights = self._weights(without=name)
        others = self._median(weights) if sum(weights.values()) >= own // 10 else None
        if others is not None and not near(pool.price, self.pools[others].price):
            if pool.agreed is not None and not near(pool.price, pool.agreed):
                pool.volume = 0
            return False
        pool.agreed = pool.price
        return True

    def _weights(self, without: str = "") -> dict[str, int]:
        weights = {
            name: pool.weight(self.clock_ms) for name, pool in self.pools.items() if name != without
        }
        bounded = [name for name in weights if not self.pools[name].proven]
        together = sum(weights[name] for name in bounded)
        if together > 20 * SOL and len(bounded) < len(weights):
            weights |= {name: weights[name] * 20 * SOL // together for name in bounded}
        return weights

    def _median(self, weights: Mapping[str, int]) -> str | None:
        """Return the pool at whose price half of the weight is reached; None without weight."""
        ascending = sorted((floor(self.pools[name].price * 2**64), name) for name in weights)
        for number, (_, name) in enumerate(ascending):
            reached = sum(weights[each] for _, each in ascending[: number + 1])
            if 0 < sum(weights.values()) <= 2 * reached:
                return name
        return None

    def _settle(self) -> None:
        only = next(iter(self.pools)) if len(self.pools) == 1 else None
        if (name := only or self._median(self._weights())) is not None:
            self.price = self.pools[name].price


@dataclass(slots=True)
class Prices:
    """Of each token its price, and the prices of its candles; in units of a stored price."""

    tokens: dict[str, Token] = field(default_factory=dict)
    decimals: dict[str, int] = field(default_factory=dict)
    last: dict[str, tuple[int, int]] = field(default_factory=dict)  # in SOL and in dollars
    # By mint, length and start in seconds: open, high, low and close; zeros while unknown.
    candles: dict[tuple[str, int, int], dict[str, list[int]]] = field(default_factory=dict)
    bars: dict[str, list[int]] = field(default_factory=dict)  # of this slot, after each trade

    def swap(self, swap: Swap, sol_usd: Fraction | None) -> None:
        """Take the next valued swap."""
        mint = swap["mint"]
        token = self.tokens.setdefault(mint, Token())
        if swap["sol_value_lamports"] is not None:
            token.swap(swap)
            self._publish(mint, swap["decimals"], sol_usd)
        self.decimals.setdefault(mint, swap["decimals"])
        self.bars.setdefault(mint, []).append(self.last.get(mint, (0, 0))[0])

    def reference(self, sol_usd: Fraction) -> None:
        """Take what SOL is worth in dollars: for itself it is one."""
        self.last[SOL_MINT] = UNITS, dollars(UNITS, sol_usd)
        self.bars.setdefault(SOL_MINT, []).append(UNITS)

    def migrated(self, migration: dict[str, Any], sol_usd: Fraction | None) -> None:
        """Take the next migration."""
        mint = migration["mint"]
        token = self.tokens.setdefault(mint, Token())
        token.migrated(migration["from_pool"], migration["pool"])
        if mint in self.decimals:
            self._publish(mint, self.decimals[mint], sol_usd)

    def end_slot(self, time_s: int, sol_usd: Fraction | None, lengths_s: tuple[int, ...]) -> None:
        """Put the slot's trades into the candles."""
        for mint, after_each in self.bars.items():
            in_sol = [price for price in after_each if price]
            in_usd = [dollars(price, sol_usd) for price in in_sol]
            for length_s in lengths_s:
                key = mint, length_s, time_s - time_s % length_s
                candle = self.candles.setdefault(key, {"sol": [], "usd": []})
                candle["sol"] += in_sol
                candle["usd"] += [price for price in in_usd if price]
        self.bars = {}

    def candle(self, key: tuple[str, int, int]) -> dict[str, int]:
        """Return a candle's prices by the names of its fields."""
        return {
            f"{name}_{money}": price
            for money, prices in self.candles[key].items()
            for name, price in zip(NAMES, shape(prices), strict=True)
        }

    def _publish(self, mint: str, decimals: int, sol_usd: Fraction | None) -> None:
        price = self.tokens[mint].price
        if price is not None:
            in_sol = min(floor(price * 10**decimals * UNITS / SOL), MOST)
            self.last[mint] = in_sol, dollars(in_sol, sol_usd)


def shape(prices: list[int]) -> tuple[int, int, int, int]:
    """Return open, high, low and close."""
    return (prices[0], max(prices), min(prices), prices[-1]) if prices else (0, 0, 0, 0)


def dollars(in_sol: int, sol_usd: Fraction | None) -> int:
    """Return a price in dollars; 0 while SOL's own is not known."""
    return 0 if sol_usd is None else min(floor(in_sol * sol_usd), MOST)


def disclosed_by(swap: Swap) -> tuple[int | None, int | None, Fraction]:
    """Return what a swap discloses: depth and virtual depth in lamports, and the price after it."""
    lamports, paid, amount = (
        swap["sol_value_lamports"],
        swap["quote_amount_raw"],
        swap["amount_raw"],
    )
    own = Fraction(lamports, amount)
    if not paid:
        return None, None, own
    value = Fraction(lamports, paid)  # of a raw unit of the quote
    quote, token = swap["quote_reserve_raw"], swap["reserve_raw"]
    depth = None if quote is None else floor(quote * value)
    root = swap["sqrt_price_x64"]
    if root:
        # Which side the mint is on is not stated: the reading that is nearer to the trade.
        traded = Fraction(paid, amount)
        readings = (
            (root**2, 2**128, Fraction(root, 2**64)),
            (2**128, root**2, Fraction(2**64, root)),
        )
        up, down, share = min(readings, key=lambda each: far(traded, Fraction(*each[:2])))
        price = Fraction(up, down)
        if max(price / traded, traded / price) > 4:
            return depth, None, own
        virtual = None
        if reserves := floor((swap["liquidity"] or 0) * share):
            virtual = floor(reserves * value)
            depth = None if depth is None else min(depth, virtual)
        return depth, virtual, in_63_bits(lamports * up, paid * down, own)
    made = swap["virtual_quote_reserve_raw"], swap["virtual_reserve_raw"]
    if all(made):
        return depth, None, in_63_bits(lamports * made[0], paid * made[1], own)
    if swap["dex"] != "meteora-dlmm" and quote and token and is_constant_product(swap):
        return depth, None, in_63_bits(lamports * quote, paid * token, own)
    return depth, None, own


def is_constant_product(swap: Swap) -> bool:
    """Whether a swap fits x * y = k on its reserves, give or take an eighth."""
    sign = 1 if swap["side"] == "buy" else -1
    paid, amount = swap["quote_amount_raw"], swap["amount_raw"]
    quote, token = swap["quote_reserve_raw"], swap["reserve_raw"]
    quote_before, token_before = quote - sign * paid, token + sign * amount
    if quote_before <= 0 or token_before <= 0:
        return False
    product = Fraction(quote * quote_before, token * token_before)
    return abs(Fraction(paid, amount) ** 2 - product) * 8 <= product


def in_63_bits(lamports: int, amount_raw: int, otherwise: Fraction) -> Fraction:
    """Return a ratio as closely as two numbers of 63 bits express it, if they can."""
    while max(lamports, amount_raw) >= 2**63:
        lamports, amount_raw = lamports // 2, amount_raw // 2
    return Fraction(lamports, amount_raw) if lamports and amount_raw else otherwise


def far(one: Fraction, other: Fraction) -> Fraction:
    """Return by what factor two prices differ."""
    return max(one / other, other / one)


def near(one: Fraction, other: Fraction) -> bool:
    """Whether two prices are within a tenth of each other."""
    return abs(one - other) * 10 <= min(one, other)


def faded(volume: int, elapsed_ms: int) -> int:
    """Return what is left of a volume: half after half an hour, a straight line between."""
    halvings, rest = divmod(elapsed_ms, HALF_MS)
    volume //= 2**halvings
    return volume - volume * rest // (2 * HALF_MS)
