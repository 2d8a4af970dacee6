"""Providers of Meteora's pools: open positions, add to them, collect, take out and close.

They are the providers of pools of ticks too, with random numbers of their own for this.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from infra.chain.market.runtime.execution import Intent, Step
from infra.chain.market.traders.providing import PROVIDING
from infra.chain.market.traders.signing import Signer
from infra.chain.market.venues import meteora_dlmm_liquidity as dlmm
from infra.chain.market.venues.bins import BinnedPosition
from infra.chain.market.venues.meteora_dlmm_liquidity import Bins
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet

_POSITIONS_EACH: Final = 3
_LEAST_RAW: Final = 1_000
_WIDTHS: Final = (8, 30, 69, 90)  # of bins; the last is more than a position is opened with


class MeteoraProviding:
    """The habit of providing liquidity in bins."""

    def __init__(self, world: World, signer: Signer, seed: int, per_slot: float, failed: float):
        self._world = world
        self._signer = signer
        self._random = Random(f"meteora-providing/{seed}")  # noqa: S311 - reproducible, not secret
        self._per_slot = per_slot
        self._failed = failed
        self._own: dict[Wallet, dict[bytes, Bins]] = {wallet: {} for wallet in world.providers}

    def turn(self) -> Iterator[Intent]:
        """Yield the next slot's transactions; each must have run before the next."""
        random, natives = self._random, self._world.ledger.natives
        count = int(self._per_slot) + (random.random() < self._per_slot % 1)
        for _ in range(count):
            wallet = random.choice(self._world.providers)
            # A fork may have taken an opening back, or a closing.
            own = [each for at, each in self._own[wallet].items() if at in natives]
            if not own or (len(own) < _POSITIONS_EACH and random.random() < 0.4):
                steps = self._open(wallet)
            else:
                steps = self._change(random.choice(own))
            if steps:
                yield Intent(
                    serial=self._signer.next_serial(),
                    payer=wallet.address,
                    steps=steps,
                    recent_blockhash=self._signer.recent_blockhash,
                    tag=PROVIDING,
                )

    def _open(self, wallet: Wallet) -> list[Step]:
        """Open a position: most are around the price, some below or above it."""
        random = self._random
        pool = random.choice(self._world.binned)
        width = random.choice(_WIDTHS)
        lower = pool.active_bin - random.randrange(-4, width + 4)
        at = Bins(pool, wallet.address, lower, lower + width - 1)
        if at.address in self._world.ledger.natives:
            return []
        self._own[wallet][at.address] = at
        amounts = self._affordable(at)
        return [*dlmm.opened(at, amounts)] if amounts else []

    def _change(self, at: Bins) -> list[Step]:
        roll, position = self._random.random(), self._world.ledger.natives[at.address]
        assert isinstance(position, BinnedPosition)
        has_shares = any(part.share for part in position.parts)
        if roll < 0.3 or not has_shares:
            return [*dlmm.closed(at, is_empty=not has_shares)]
        if roll < 0.5:
            return [*dlmm.collected(at)]
        if roll < 0.7:
            return [*dlmm.decreased(at, self._random.randrange(500, 6_000))]
        amounts = self._affordable(at)
        return [*dlmm.increased(at, amounts)] if amounts else []

    def _affordable(self, at: Bins) -> tuple[int, int] | None:
        """Return a part of what a provider has.

        Now and then it is more than that, and the transaction fails.
        """
        random = self._random
        part = random.randrange(4, 12)
        first, second = (self._world.ledger.held(at.holder, side) for side in at.pool.sides)
        if min(first, second) // part < _LEAST_RAW * at.width:
            return None
        if random.random() < self._failed:
            return 2 * first, 2 * second
        return first // part, second // part
