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
from infra.chain.market.venues import meteora_damm_v2_liquidity as damm
from infra.chain.market.venues import meteora_dlmm_liquidity as dlmm
from infra.chain.market.venues.bins import BinnedPosition
from infra.chain.market.venues.meteora_damm_v2 import DammPosition
from infra.chain.market.venues.meteora_damm_v2_liquidity import Share
from infra.chain.market.venues.meteora_dlmm_liquidity import Bins
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet

_POSITIONS_EACH: Final = 3
_LEAST_RAW: Final = 1_000
_WIDTHS: Final = (8, 30, 69, 90)  # of bins; the last is more than a position is opened with


class MeteoraProviding:
    """The habit of providing liquidity in bins, or over all prices."""

    def __init__(self, world: World, signer: Signer, seed: int, per_slot: float, failed: float):
        self._world = world
        self._signer = signer
        self._random = Random(f"meteora-providing/{seed}")  # noqa: S311 - reproducible, not secret
        self._per_slot = per_slot
        self._failed = failed
        self._number = 0
        self._own: dict[Wallet, dict[bytes, Bins | Share]] = {
            wallet: {} for wallet in world.providers
        }

    def turn(self) -> Iterator[Intent]:
        """Yield the next slot's transactions; each must have run before the next."""
        random, natives = self._random, self._world.ledger.natives
        count = int(self._per_slot) + (random.random() < self._per_slot % 1)
        for _ in range(count):
            wallet = random.choice(self._world.providers)
            # A fork may have taken an opening back, or a closing.
            own = [each for at, each in self._own[wallet].items() if at in natives]
            cosigners: tuple[bytes, ...] = ()
            if not own or (len(own) < _POSITIONS_EACH and random.random() < 0.4):
                if random.random() < 0.6:
                    steps = self._open_bins(wallet)
                else:
                    at = self._share(wallet)
                    cosigners, steps = (at.nft.address,), self._open_share(at)
            else:
                steps = self._change(random.choice(own))
            if steps:
                yield Intent(
                    serial=self._signer.next_serial(),
                    payer=wallet.address,
                    steps=steps,
                    recent_blockhash=self._signer.recent_blockhash,
                    cosigners=cosigners,
                    tag=PROVIDING,
                )

    def _change(self, at: Bins | Share) -> list[Step]:
        position = self._world.ledger.natives[at.address]
        if isinstance(at, Bins):
            assert isinstance(position, BinnedPosition)
            return self._change_bins(at, position)
        assert isinstance(position, DammPosition)
        return self._change_share(at, position)

    # In bins.

    def _open_bins(self, wallet: Wallet) -> list[Step]:
        """Open a position: most are around the price, some below or above it."""
        random = self._random
        pool = random.choice(self._world.binned)
        width = random.choice(_WIDTHS)
        lower = pool.active_bin - random.randrange(-4, width + 4)
        at = Bins(pool, wallet.address, lower, lower + width - 1)
        if at.address in self._world.ledger.natives:
            return []
        self._own[wallet][at.address] = at
        amounts = self._amounts(at)
        return [*dlmm.opened(at, amounts)] if amounts else []

    def _change_bins(self, at: Bins, position: BinnedPosition) -> list[Step]:
        roll = self._random.random()
        has_shares = any(part.share for part in position.parts)
        if roll < 0.3 or not has_shares:
            return [*dlmm.closed(at, is_empty=not has_shares)]
        if roll < 0.5:
            return [*dlmm.collected(at)]
        if roll < 0.7:
            return [*dlmm.decreased(at, self._random.randrange(500, 6_000))]
        amounts = self._amounts(at)
        return [*dlmm.increased(at, amounts)] if amounts else []

    def _amounts(self, at: Bins) -> tuple[int, int] | None:
        """Return a part of what a provider has; now and then more than it has, which fails."""
        part = self._random.randrange(4, 12)
        first, second = (self._world.ledger.held(at.holder, side) for side in at.pool.sides)
        if min(first, second) // part < _LEAST_RAW * at.width:
            return None
        if self._random.random() < self._failed:
            return 2 * first, 2 * second
        return first // part, second // part

    # Over all prices.

    def _share(self, wallet: Wallet) -> Share:
        self._number += 1
        mint = self._world.address("meteora-position", self._number)
        at = damm.share(self._random.choice(self._world.whole_range), wallet.address, mint)
        self._own[wallet][at.address] = at
        return at

    def _open_share(self, at: Share) -> list[Step]:
        liquidity, most = self._affordable(at)
        return [*damm.opened(at, liquidity, most)] if liquidity else []

    def _change_share(self, at: Share, position: DammPosition) -> list[Step]:
        roll = self._random.random()
        if roll < 0.3 or not position.liquidity:
            return [*damm.closed(at, position.liquidity)]
        if roll < 0.5:
            return [*damm.collected(at)]
        if roll < 0.7:
            return [*damm.decreased(at, position.liquidity // self._random.randrange(2, 6))]
        liquidity, most = self._affordable(at)
        return [*damm.increased(at, liquidity, most)] if liquidity else []

    def _affordable(self, at: Share) -> tuple[int, tuple[int, int]]:
        """Return liquidity for a part of what a provider has, and what it may cost at most.

        Now and then it may cost less than it does, and the transaction fails.
        """
        pool, part = at.pool, self._random.randrange(4, 12)
        first, second = (self._world.ledger.held(at.holder, side) // part for side in pool.sides)
        liquidity = pool.liquidity_of((first, second))
        costs = pool.amounts(liquidity, up=True)
        if max(costs) < _LEAST_RAW:
            return 0, (0, 0)
        percent = 90 if self._random.random() < self._failed else 110
        return liquidity, (costs[0] * percent // 100, costs[1] * percent // 100)
