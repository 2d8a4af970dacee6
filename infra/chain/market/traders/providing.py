"""Providers: open positions in pools of ticks, add to them, collect, take out and close.

They have wallets and random numbers of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from infra.chain.market.runtime.execution import Intent, Step
from infra.chain.market.traders.signing import Signer
from infra.chain.market.venues import orca_liquidity, raydium_clmm_liquidity
from infra.chain.market.venues.positions import Instructions, Place, place
from infra.chain.market.venues.ranges import RangedPool, RangedPosition
from infra.chain.market.venues.raydium_clmm import ClmmPool
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet

PROVIDING: Final = "providing"  # tag of the intents
_POSITIONS_EACH: Final = 3
_LEAST_RAW: Final = 1_000


class Providing:
    """The habit of providing liquidity."""

    def __init__(self, world: World, signer: Signer, seed: int, per_slot: float, failed: float):
        self._world = world
        self._signer = signer
        self._random = Random(f"providing/{seed}")  # noqa: S311 - reproducible, not secret
        self._per_slot = per_slot
        self._failed = failed
        self._number = 0
        self._own: dict[Wallet, list[Place]] = {wallet: [] for wallet in world.providers}

    def turn(self) -> Iterator[Intent]:
        """Yield the next slot's transactions; each must have run before the next."""
        random = self._random
        count = int(self._per_slot) + (random.random() < self._per_slot % 1)
        for _ in range(count):
            wallet = random.choice(self._world.providers)
            natives = self._world.ledger.natives
            # A fork may have taken an opening back, or a closing.
            own = [each for each in self._own[wallet] if each.address in natives]
            if not own or (len(own) < _POSITIONS_EACH and random.random() < 0.4):
                at = self._place(wallet)
                cosigners: tuple[bytes, ...] = (at.nft.address,)
                steps = self._open(at)
            else:
                at, cosigners = random.choice(own), ()
                position = natives[at.address]
                assert isinstance(position, RangedPosition)
                steps = self._change(at, position)
            if steps:
                yield Intent(
                    serial=self._signer.next_serial(),
                    payer=wallet.address,
                    steps=steps,
                    recent_blockhash=self._signer.recent_blockhash,
                    cosigners=cosigners,
                    tag=PROVIDING,
                )

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
        at = place(pool, wallet.address, mint, middle - low, middle + high)
        self._own[wallet].append(at)
        return at

    def _open(self, at: Place) -> list[Step]:
        liquidity, most = self._affordable(at)
        return [*_program(at.pool).opened(at, liquidity, most)] if liquidity else []

    def _change(self, at: Place, position: RangedPosition) -> list[Step]:
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

    def _affordable(self, at: Place) -> tuple[int, tuple[int, int]]:
        """Return liquidity for a part of what a provider has, and what it may cost at most.

        Now and then it may cost less than it does, and the transaction fails.
        """
        pool, random = at.pool, self._random
        part = random.randrange(4, 12)
        first, second = (self._world.ledger.held(at.holder, side) // part for side in pool.sides)
        liquidity = pool.liquidity_of((first, second), at.lower, at.upper)
        costs = pool.amounts(liquidity, at.lower, at.upper, up=True)
        if max(costs) < _LEAST_RAW:
            return 0, (0, 0)
        percent = 90 if random.random() < self._failed else 110
        return liquidity, (costs[0] * percent // 100, costs[1] * percent // 100)


def _program(pool: RangedPool) -> Instructions:
    return raydium_clmm_liquidity if isinstance(pool, ClmmPool) else orca_liquidity
