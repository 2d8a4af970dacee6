"""Providers of Meteora's pools: open positions, add to them, collect, take out and close.

They are the providers of pools of ticks too, with random numbers of their own for this.
"""

from __future__ import annotations

from typing import Final

from infra.chain.market.runtime.execution import Step
from infra.chain.market.traders.provider_habit import LEAST_RAW, ProviderHabit
from infra.chain.market.traders.signing import Signer
from infra.chain.market.venues import meteora_damm_v2_liquidity as damm
from infra.chain.market.venues import meteora_dlmm_liquidity as dlmm
from infra.chain.market.venues.bins import BinnedPosition
from infra.chain.market.venues.meteora_damm_v2 import DammPosition
from infra.chain.market.venues.meteora_damm_v2_liquidity import Share
from infra.chain.market.venues.meteora_dlmm_liquidity import Bins
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet

_WIDTHS: Final = (8, 30, 69, 90)  # of bins; the last is more than a position is opened with


class MeteoraProviding(ProviderHabit[Bins | Share]):
    """The habit of providing liquidity in bins, or over all prices."""

    def __init__(self, world: World, signer: Signer, seed: int, per_slot: float, failed: float):
        super().__init__(world, signer, f"meteora-providing/{seed}", per_slot, failed)
        self._number = 0

    def _open(self, wallet: Wallet) -> tuple[Bins | Share, tuple[bytes, ...], list[Step]]:
        if self._random.random() < 0.6:
            bins = self._bins(wallet)
            return bins, (), self._open_bins(bins)
        share = self._share(wallet)
        return share, (share.nft.address,), self._open_share(share)

    def _change(self, at: Bins | Share) -> list[Step]:
        position = self._world.ledger.natives[at.address]
        if isinstance(at, Bins):
            assert isinstance(position, BinnedPosition)
            return self._change_bins(at, position)
        assert isinstance(position, DammPosition)
        return self._change_share(at, position)

    # In bins.

    def _bins(self, wallet: Wallet) -> Bins:
        """Return a place of bins: most are around the price, some below or above it."""
        random = self._random
        pool = random.choice(self._world.binned)
        width = random.choice(_WIDTHS)
        lower = pool.active_bin - random.randrange(-4, width + 4)
        return Bins(pool, wallet.address, lower, lower + width - 1)

    def _open_bins(self, at: Bins) -> list[Step]:
        if at.address in self._world.ledger.natives:
            return []
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
        if min(first, second) // part < LEAST_RAW * at.width:
            return None
        if self._random.random() < self._failed:
            return 2 * first, 2 * second
        return first // part, second // part

    # Over all prices.

    def _share(self, wallet: Wallet) -> Share:
        self._number += 1
        mint = self._world.address("meteora-position", self._number)
        return damm.share(self._random.choice(self._world.whole_range), wallet.address, mint)

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
        """Return liquidity for a part of what a provider has, and what it may cost at most."""
        pool = at.pool
        liquidity = pool.liquidity_of(self._part_held(at.holder, pool.sides))
        costs = pool.amounts(liquidity, up=True)
        if max(costs) < LEAST_RAW:
            return 0, (0, 0)
        return liquidity, self._at_most(costs)
