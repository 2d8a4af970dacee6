"""Pools whose liquidity is that of positions between two ticks: swaps over ticks, and fees.

The arithmetic of Orca Whirlpools and of Raydium CLMM, which differ in tables of ticks and in what
they keep of a fee. A swap runs to the next tick where liquidity starts or ends, crosses it and goes
on. Within that it takes no smaller steps: the programs stop at the ends of tick arrays as well,
which changes roundings only. Growths are Q64.64 of a token for a unit of liquidity, and wrap.
Sources: Orca `swap_math.rs`, `swap_manager.rs`, `tick_manager.rs`, `liquidity_manager.rs`; Raydium
`swap_math.rs`, `instructions/swap.rs`, `states/tick_array.rs`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import WSOL, derived
from infra.chain.market.runtime.stake import Native
from infra.chain.market.venues import sqrt_price
from infra.chain.market.venues.sqrt_price import ONE
from infra.chain.market.venues.ticks import MAX_TICK, tick_at
from infra.chain.market.venues.venue import Pool, ceil_div

U128: Final = (1 << 128) - 1
MILLION: Final = 1_000_000
_Pair = tuple[int, int]


def rent_lamports(size: int) -> int:
    """Return the lamports that exempt an account of so many bytes from rent."""
    return (128 + size) * 6_960


class Tick(NamedTuple):
    """Where liquidity starts or ends."""

    net: int  # what a price that rises over it adds
    gross: int
    outside: _Pair  # growths on the other side than the price


class Span(NamedTuple):
    """The ticks with liquidity around the price; between them liquidity is constant."""

    lower: int
    upper: int
    lower_x64: int
    upper_x64: int


class Walk(NamedTuple):
    """What a swap comes to."""

    sqrt_price: int
    liquidity: int
    span: Span
    growth: int  # of the input's fees
    amount_out: int
    fee: int
    kept: _Pair  # of the fee: the protocol's, and its fund's
    crossed: tuple[tuple[int, int], ...]  # ticks, and the growth of the input's fees there
    is_left: bool  # the last liquidity ended before the input was used


@dataclass(frozen=True, slots=True)
class RangedPosition(ABC):
    """Liquidity between two ticks, with its fees until it was last written."""

    pool: bytes
    mint: bytes  # of its NFT
    lower: int
    upper: int
    liquidity: int = 0
    checkpoints: _Pair = (0, 0)  # of the growths inside
    owed: _Pair = (0, 0)

    @property
    @abstractmethod
    def owner(self) -> bytes:
        """Return the program."""

    @abstractmethod
    def data(self) -> bytes:
        """Return the account's data."""

    def settled(self, inside: _Pair) -> RangedPosition:
        """Return the position with its fees until growths inside."""
        owed = (
            raw + (self.liquidity * (now - before & U128) >> 64)
            for raw, now, before in zip(self.owed, inside, self.checkpoints, strict=True)
        )
        first, second = owed
        return replace(self, checkpoints=inside, owed=(first, second))


class RangedPool(Pool):
    """A pool of positions; sides are in the program's order."""

    __slots__ = (
        "fee_rate",
        "growths",
        "liquidity",
        "protocol_raw",
        "spacing",
        "span",
        "sqrt_price",
        "tick_arrays",
        "ticks",
    )

    MUTABLE = ("alive", "sqrt_price", "liquidity", "growths", "protocol_raw", "ticks", "span")
    BYTES: int
    ARRAY_BYTES: int
    ARRAY_TICKS: int
    POSITION_BYTES: int

    def __init__(
        self,
        ledger: Ledger,
        address: bytes,
        sides: tuple[Mint, Mint],
        vaults: tuple[bytes, bytes],
        price_x64: int,
        fee_rate: int,
        spacing: int,
    ) -> None:
        super().__init__(ledger, address, sides, vaults)
        self.sqrt_price = price_x64
        self.fee_rate = fee_rate  # of a million
        self.spacing = spacing
        self.liquidity = 0
        self.growths = (0, 0)
        self.protocol_raw = (0, 0, 0, 0)  # of both sides: the protocol's, then its fund's
        self.ticks: dict[int, Tick] = {}  # never changed in place
        self.span = self._span(self.tick_at(price_x64))
        self.tick_arrays: dict[int, bytes] = {}  # first tick -> address; they stay
        for vault, side in zip(vaults, sides, strict=True):
            ledger.endow(vault, side, address, 0)
        ledger.natives[address] = self
        ledger.lamports[address] = rent_lamports(self.BYTES)

    # What a program has of its own.

    @staticmethod
    @abstractmethod
    def sqrt_price_at(tick: int) -> int:
        """Return the square root of the price at a tick."""

    @abstractmethod
    def kept(self, fee: int) -> _Pair:
        """Return what the protocol and its fund keep of a fee."""

    @abstractmethod
    def data(self) -> bytes:
        """Return the pool's account data."""

    @abstractmethod
    def array_address(self, start: int) -> bytes:
        """Return the address of the array of ticks from `start`."""

    @abstractmethod
    def array(self, start: int) -> Native:
        """Return the account of the array of ticks from `start`."""

    @abstractmethod
    def position_address(self, mint: bytes) -> bytes:
        """Return the address of the position of an NFT."""

    @abstractmethod
    def position(self, mint: bytes, lower: int, upper: int) -> RangedPosition:
        """Return the account of an empty position."""

    # Ticks.

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return self.PROGRAM.address

    @property
    def tick(self) -> int:
        """Return the current tick; a tick that was crossed downwards is above the price."""
        return min(self.tick_at(self.sqrt_price), self.span.upper - 1)

    @property
    def widest(self) -> _Pair:
        """Return the ticks of a position over all prices."""
        most = MAX_TICK // self.spacing * self.spacing
        return -most, most

    def tick_at(self, price_x64: int) -> int:
        """Return the greatest tick whose price is not above this one."""
        return tick_at(price_x64, self.sqrt_price_at)

    def array_start(self, tick: int) -> int:
        """Return the first tick of the array that has a tick."""
        size = self.spacing * self.ARRAY_TICKS
        return tick // size * size

    def initialized(self, start: int) -> Iterable[tuple[int, int, Tick]]:
        """Yield number in the array, tick, and state of an array's ticks with liquidity."""
        for tick in sorted(self.ticks):
            number, rest = divmod(tick - start, self.spacing)
            if not rest and 0 <= number < self.ARRAY_TICKS:
                yield number, tick, self.ticks[tick]

    def _span(self, tick: int) -> Span:
        ticks = sorted({*self.ticks, *self.widest})
        place = bisect_right(ticks, tick)
        lower, upper = ticks[place - 1], ticks[place]
        return Span(lower, upper, self.sqrt_price_at(lower), self.sqrt_price_at(upper))

    # Swaps.

    def walk(self, a_to_b: bool, amount_in: int) -> Walk:
        """Return what an exact input comes to."""
        rate, side = self.fee_rate, 0 if a_to_b else 1
        price, liquidity, span = self.sqrt_price, self.liquidity, self.span
        growth = self.growths[side]
        left, out, fees, protocol, fund = amount_in, 0, 0, 0, 0
        crossed: list[tuple[int, int]] = []
        ended = False
        while left and not ended:
            used = left * (MILLION - rate) // MILLION
            after = span.lower_x64 if a_to_b else span.upper_x64
            reached = True
            if liquidity:
                step = sqrt_price.swap_in(liquidity, price, a_to_b, used)
                reached = step.sqrt_price <= after if a_to_b else step.sqrt_price >= after
                if not reached:
                    after = step.sqrt_price
            if a_to_b:
                need = sqrt_price.amount_a(liquidity, after, price)
                out += liquidity * (price - after) >> 64
            else:
                need = sqrt_price.amount_b(liquidity, price, after)
                out += (liquidity * (after - price) << 64) // (after * price)
            fee = ceil_div(need * rate, MILLION - rate) if reached else left - need
            left -= need + fee
            fees += fee
            kept = self.kept(fee)
            protocol += kept[0]
            fund += kept[1]
            if liquidity:
                growth = growth + ((fee - sum(kept)) << 64) // liquidity & U128
            price = after
            if reached:
                tick = span.lower if a_to_b else span.upper
                ended = tick in self.widest
                if ended:
                    break
                net = self.ticks[tick].net
                liquidity += -net if a_to_b else net
                crossed.append((tick, growth))
                span = self._span(tick - 1 if a_to_b else tick)
        kept = (protocol, fund)
        return Walk(price, liquidity, span, growth, out, fees, kept, tuple(crossed), ended)

    def follow(self, a_to_b: bool, walk: Walk) -> None:
        """Put the pool where a swap ends; its state must have been noted before."""
        side = 0 if a_to_b else 1
        if walk.crossed:
            ticks = dict(self.ticks)
            for at, growth in walk.crossed:
                tick = ticks[at]
                now = (growth, self.growths[1]) if a_to_b else (self.growths[0], growth)
                first, second = (
                    whole - outside & U128 for whole, outside in zip(now, tick.outside, strict=True)
                )
                ticks[at] = tick._replace(outside=(first, second))
                self._rewrite(at)
            self.ticks = ticks
        self.sqrt_price, self.liquidity, self.span = walk.sqrt_price, walk.liquidity, walk.span
        growths, owed = list(self.growths), list(self.protocol_raw)
        growths[side] = walk.growth
        owed[side] += walk.kept[0]
        owed[side + 2] += walk.kept[1]
        self.growths = (growths[0], growths[1])
        self.protocol_raw = (owed[0], owed[1], owed[2], owed[3])
        self.ledger.rewritten.add(self.address)

    def depth(self) -> tuple[float, float]:
        """Return liquidity at the price, and root price."""
        return float(self.liquidity), self.sqrt_price / ONE

    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return the output for an input."""
        received = amount_in_raw - mint_in.transfer_fee(amount_in_raw)
        out = self.walk(mint_in is self.sides[0], received).amount_out
        return out - self.other(mint_in).transfer_fee(out)

    # Positions.

    def amounts(self, liquidity: int, lower: int, upper: int, *, up: bool) -> _Pair:
        """Return what liquidity is of both tokens: rounded up to put in, down to take out."""
        low, high = self.sqrt_price_at(lower), self.sqrt_price_at(upper)
        tick = self.tick
        at = low if tick < lower else self.sqrt_price if tick < upper else high
        if up:
            return (
                sqrt_price.amount_a(liquidity, at, high),
                sqrt_price.amount_b(liquidity, low, at),
            )
        return (liquidity * (high - at) << 64) // (high * at), liquidity * (at - low) >> 64

    def liquidity_of(self, amounts: _Pair, lower: int, upper: int) -> int:
        """Return the most liquidity that amounts pay for."""
        unit = 1 << 64  # one unit of liquidity needs less than a unit of a token
        needs = self.amounts(unit, lower, upper, up=True)
        return min(
            (raw * unit // need for raw, need in zip(amounts, needs, strict=True) if need),
            default=0,
        )

    def inside(self, lower: int, upper: int) -> _Pair:
        """Return the growths between two ticks; without liquidity all was below a tick."""
        tick, found = self.tick, []
        for side, whole in enumerate(self.growths):
            outside = [
                self.ticks[at].outside[side] if at in self.ticks else (whole if tick >= at else 0)
                for at in (lower, upper)
            ]
            below = outside[0] if tick >= lower else whole - outside[0]
            above = outside[1] if tick < upper else whole - outside[1]
            found.append(whole - below - above & U128)
        return found[0], found[1]

    def add(self, lower: int, upper: int, liquidity: int) -> None:
        """Add liquidity, or take it where it is negative; the state must have been noted."""
        now, ticks = self.tick, dict(self.ticks)
        for at, net in ((lower, liquidity), (upper, -liquidity)):
            tick = ticks.get(at) or Tick(0, 0, self.growths if now >= at else (0, 0))
            gross = tick.gross + liquidity
            if gross:
                ticks[at] = Tick(tick.net + net, gross, tick.outside)
            else:
                ticks.pop(at, None)
            self._rewrite(at)
        if lower <= now < upper:
            self.liquidity += liquidity
        self.ticks = ticks
        self.span = self._span(now)
        self.ledger.rewritten.add(self.address)

    def _rewrite(self, tick: int) -> None:
        self.ledger.rewritten.add(self.tick_arrays[self.array_start(tick)])

    # The start of the world.

    def found(self, owner: bytes, lower: int, upper: int, liquidity: int) -> bytes:
        """Give an owner a position before the first slot, with its tokens; returns its NFT."""
        ledger = self.ledger
        for start in {self.array_start(lower), self.array_start(upper)}:
            self.tick_arrays[start] = at = self.array_address(start)
            ledger.natives[at] = self.array(start)
            ledger.lamports[at] = rent_lamports(self.ARRAY_BYTES)
        nft = Mint(derived("position", self.address, owner), 0, 0)
        ledger.add_mint(nft)
        ledger.endow(ledger.associated(owner, nft), nft, owner, 1)
        raw = self.amounts(liquidity, lower, upper, up=True)
        for vault, side, amount in zip(self.vaults, self.sides, raw, strict=True):
            ledger.tokens[vault].amount_raw += amount
            side.supply_raw += amount
            if side.address == WSOL:  # wrapped SOL is its lamports
                ledger.lamports[vault] += amount
        place = self.position(nft.address, lower, upper)
        at = self.position_address(nft.address)
        inside = self.inside(lower, upper)
        ledger.natives[at] = replace(place, liquidity=liquidity, checkpoints=inside)
        ledger.lamports[at] = rent_lamports(self.POSITION_BYTES)
        self.add(lower, upper, liquidity)
        ledger.rewritten.clear()  # no slot wrote it
        return nft.address
