"""Providers of pools of ticks: open positions, add to them, collect, take out and close."""

from __future__ import annotations

from infra.chain.market.runtime.execution import Step
from infra.chain.market.traders.provider_habit import LEAST_RAW, ProviderHabit
from infra.chain.market.traders.signing import Signer
from infra.chain.market.venues import orca_liquidity, raydium_clmm_liquidity
from infra.chain.market.venues.positions import Instructions, Place, place
from infra.chain.market.venues.ranges import RangedPool, RangedPosition
from infra.chain.market.venues.raydium_clmm import ClmmPool
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet


class RangedProviding(ProviderHabit[Place]):
    """The habit of providing liquidity between two ticks."""

    def __init__(self, world: World, signer: Signer, seed: int, per_slot: float, failed: float):
        super().__init__(world, signer, f"providing/{seed}", per_slot, failed)
        self._number = 0

    def _open(self, wallet: Wallet) -> tuple[Place, tuple[bytes, ...], list[Step]]:
        at = self._place(wallet)
        liquidity, most = self._affordable(at)
        steps = [*_program(at.pool).opened(at, liquidity, most)] if liquidity else []
        return at, (at.nft.address,), steps

    def _change(self, at: Place) -> list[Step]:
        position = self._world.ledger.natives[at.address]
        assert isinstance(position, RangedPosition)
        roll, program = self._random.random(), _program(at.pool)
        if roll < 0.3 or not position.liquidity:
            return [*program.closed(at, position.liquidity)]
        if roll < 0.5:
            return [*program.collected(at)]
        if roll < 0.7:
            part = position.liquidity // self._random.randrange(2, 6)
            return [*program.decreased(at, part)] if part else []
        liquidity, most = self._affordable(at)
        return [*program.increased(at, liquidity, most)] if liquidity else []

    def _place(self, wallet: Wallet) -> Place:
        """Return a new place around the price: most are wide, some are soon left by the price."""
        random = self._random
        pool = random.choice(self._world.ranged)
        self._number += 1
        width = random.choice((60, 400, 2_000, 8_000))
        low, high = (
            max(random.randrange(width // 2, width + 1) // pool.spacing, 1) * pool.spacing
            for _ in range(2)
        )
        middle = pool.tick // pool.spacing * pool.spacing
        mint = self._world.address("position", self._number)
        return place(pool, wallet.address, mint, middle - low, middle + high)

    def _affordable(self, at: Place) -> tuple[int, tuple[int, int]]:
        """Return liquidity for a part of what a provider has, and what it may cost at most."""
        pool = at.pool
        held = self._part_held(at.holder, pool.sides)
        liquidity = pool.liquidity_of(held, at.lower, at.upper)
        costs = pool.amounts(liquidity, at.lower, at.upper, up=True)
        if max(costs) < LEAST_RAW:
            return 0, (0, 0)
        return liquidity, self._at_most(costs)


def _program(pool: RangedPool) -> Instructions:
    return raydium_clmm_liquidity if isinstance(pool, ClmmPool) else orca_liquidity
