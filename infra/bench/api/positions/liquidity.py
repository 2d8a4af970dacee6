"""Whirlpools in the bench: pools with arrays of ticks, and positions of wallets in them."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Final

from infra.bench.api.positions import whirlpool
from infra.bench.api.positions.lending import Made
from infra.bench.api.positions.whirlpool import Pool, Position, Reward
from infra.bench.api.world import LAST_MS

POOLS: Final = 120
_SPACING: Final = 64
_ONE_X64: Final = 1 << 64


class Pools:
    """Pools of tokens with one other token; everything follows from the seed."""

    def __init__(self, mints: list[bytes], quote: bytes, seed: int) -> None:
        """Make a pool of each token with `quote`."""
        self._random = Random(f"{seed} liquidity")  # noqa: S311 - figures to be had again
        self._pools = [self._pool(mint, quote) for mint in mints]
        self._ticks: defaultdict[tuple[int, int], dict[int, tuple[int, ...]]] = defaultdict(dict)

    @property
    def addresses(self) -> list[bytes]:
        """Return the addresses of the pools."""
        return [each.address for each in self._pools]

    def references(self) -> list[Made]:
        """Return the pools, and the arrays with the ticks of all positions that were made."""
        made = [(each.address, each.data(), whirlpool.POOL_LAMPORTS) for each in self._pools]
        for (number, first), ticks in self._ticks.items():
            pool = self._pools[number]
            data = whirlpool.array_data(pool, first, ticks)
            made.append((whirlpool.array_address(pool, first), data, whirlpool.ARRAY_LAMPORTS))
        return made

    def vaults(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return the vaults of all rewards: address, pool and mint."""
        return [(vault, each.address, mint) for each in self._pools for vault, mint in each.vaults]

    def positions(self, count: int) -> list[Position]:
        """Return positions with NFTs of their own, each in another pool.

        All are within their range; fees and rewards have grown since they were last written.
        """
        numbers = self._random.sample(range(len(self._pools)), count)
        return [self._position(number) for number in numbers]

    def _position(self, number: int) -> Position:
        random, pool = self._random, self._pools[number]
        current = pool.tick // _SPACING * _SPACING
        lower = current - _SPACING * random.randrange(1, whirlpool.TICKS)
        upper = current + _SPACING * random.randrange(1, whirlpool.TICKS)
        outside = [self._outside(number, tick) for tick in (lower, upper)]
        inside = (
            whole - below - above
            for whole, below, above in zip(pool.all_growths, *outside, strict=True)
        )
        checkpoints = tuple(growth * 7 // 8 for growth in inside)
        owed_raw = (random.randrange(10**6), random.randrange(10**6), 0, 0, 0)
        liquidity = random.randrange(10**9, 10**11)
        mint = random.randbytes(32)
        return Position(pool, mint, liquidity, (lower, upper), checkpoints, owed_raw)

    def _outside(self, number: int, tick: int) -> tuple[int, ...]:
        """Return what has grown on the far side of a tick, which has liquidity from now on."""
        ticks = self._ticks[number, whirlpool.first_tick(tick, _SPACING)]
        if tick not in ticks:
            whole = self._pools[number].all_growths
            ticks[tick] = tuple(self._random.randrange(growth // 4 + 1) for growth in whole)
        return ticks[tick]

    def _pool(self, mint: bytes, quote: bytes) -> Pool:
        random = self._random
        tick = random.randrange(-40_000, 40_000)
        growth = _ONE_X64 >> 12
        rewards = (Reward(quote, random.randrange(_ONE_X64), random.randrange(growth)),)
        return Pool(
            random.randbytes(32),
            (mint, quote),
            _SPACING,
            tick,
            round(1.0001 ** (tick / 2) * (1 << 40)) << 24,
            random.randrange(10**14, 10**15),
            (random.randrange(growth), random.randrange(growth)),
            rewards * random.randrange(2),
            LAST_MS // 1_000 - random.randrange(600),
        )
