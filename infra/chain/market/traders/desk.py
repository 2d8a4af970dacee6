"""The arbitrage desk: at each slot's end it trades the pools of one coin to one price.

It moves every pool that is off by more than `TOLERANCE`, as transactions of the makers, who
borrow from an exchange what they lack. Money has a price of its own: SOL a random walk, dollars
one dollar, staked SOL a fixed rate. A coin's price is the mean of its pools, weighted by depth,
in lamports, so that pools against different quotes agree too. A DLMM pool cannot be nearer than
half a bin.

The desk also keeps the widest DLMM positions: it spreads their liquidity anew around the price
before the price reaches the last bin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import exp, log
from typing import Final

from infra.chain.market.runtime.execution import Intent, Step
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.runtime.programs import USDC, USDT
from infra.chain.market.traders.swap_plan import SwapPlan, swap_step
from infra.chain.market.traders.trading import SWAP_UNITS, Trading, open_account
from infra.chain.market.traders.valuation import Drift
from infra.chain.market.venues import meteora_dlmm_liquidity as dlmm_liquidity
from infra.chain.market.venues.bins import BinnedPosition
from infra.chain.market.venues.meteora_dlmm import BINS_PER_SIDE, DlmmPool
from infra.chain.market.venues.venue import Pool
from infra.chain.market.world.wallets import Wallet
from schemas.amounts import LAMPORTS

TOLERANCE: Final = 0.003
DOLLAR_TOLERANCE: Final = 0.0015
MOST_STEPS: Final = 16  # in which one pool is traded to its price
RECENTER_BINS: Final = BINS_PER_SIDE // 3
SOL_PER_ROOT_HOUR: Final = 0.008
SOL_BACK_H: Final = 48.0
REFILL_LAMPORTS: Final = 20_000 * LAMPORTS


class CoinMarket:
    """A coin and all its pools."""

    def __init__(self, mint: Mint, pools: Iterable[Pool], worth: dict[bytes, float]) -> None:
        self.mint = mint
        self.pools = tuple(pools)
        self._weights = [
            pool.vault_balances()[pool.sides.index(mint)] * worth[mint.address]
            for pool in self.pools
        ]

    def prices(self, worth: dict[bytes, float]) -> list[float]:
        """Return the coin's mid price in each pool, in lamports a raw unit."""
        mint = self.mint
        return [pool.price_of(mint) * worth[pool.other(mint).address] for pool in self.pools]

    def mean(self, worth: dict[bytes, float]) -> float:
        """Return the geometric mean of the prices, weighted by the pools' first depths."""
        weighted = zip(self.prices(worth), self._weights, strict=True)
        return exp(sum(log(price) * weight for price, weight in weighted) / sum(self._weights))


class Desk:
    """The makers' common book."""

    def __init__(self, trading: Trading, slot_ms: int) -> None:
        world = trading.world
        self._trading = trading
        self._world = world
        self.worth = dict(world.worth)
        self._sol_price = Drift(SOL_PER_ROOT_HOUR, SOL_BACK_H, slot_ms)
        directory = world.directory
        staked = world.staked_sol
        self.pegged: tuple[Pool, ...] = (
            *world.reference,
            world.dollars,
            *(pool for pool in directory.of(staked) if pool.other(staked) is world.sol),
        )
        self.markets = [
            CoinMarket(coin, directory.of(coin), self.worth)
            for coin in world.coins
            if coin is not staked
        ]
        self._market_of = {pool.address: market for market in self.markets for pool in market.pools}
        # SOL's price alone moves these apart, when nobody trades in them.
        self._against_dollars = [
            market
            for market in self.markets
            if any(pool.other(market.mint) is world.usdc for pool in market.pools)
        ]
        self._touched: dict[bytes, None] = {}

    def begin_slot(self) -> None:
        """Move SOL's price."""
        self._sol_price.tick(self._trading.random)
        dollar = self._world.worth[USDC] * exp(-self._sol_price.value)
        self.worth[USDC] = self.worth[USDT] = dollar

    def saw(self, pool: bytes) -> None:
        """Remember that a pool was traded in."""
        self._touched[pool] = None

    def turn(self) -> Iterator[Intent]:
        """Yield the transactions that bring prices together; each must have run before the next."""
        for pool in self.pegged:
            tolerance = DOLLAR_TOLERANCE if pool is self._world.dollars else TOLERANCE
            yield from self._bring(pool, tolerance)
        traded = (self._market_of[pool] for pool in self._touched if pool in self._market_of)
        markets = dict.fromkeys((*traded, *self._against_dollars))
        self._touched = {}
        for market in markets:
            self.worth[market.mint.address] = market.mean(self.worth)
            for pool in market.pools:
                yield from self._bring(pool, TOLERANCE)

    def fair(self, pool: Pool) -> float:
        """Return the mid price that a pool should have."""
        first, second = pool.sides
        return self.worth[first.address] / self.worth[second.address]

    def _bring(self, pool: Pool, tolerance: float) -> Iterator[Intent]:
        """Trade a pool to its price; a DLMM pool's bins follow, and it is traded on in them.

        Where a coin withholds a part of transfers one large trade misses, so it is looked at again.
        """
        for _ in range(MOST_STEPS):
            is_off = abs(pool.mid() / self.fair(pool) - 1) > tolerance
            if is_off:
                yield from self._correct(pool)
            if not isinstance(pool, DlmmPool):
                if is_off:
                    continue
                return
            if not _near_the_edge(pool):
                return
            intent = self._recenter(pool)
            if intent is None:
                return
            yield intent

    def _correct(self, pool: Pool) -> Iterator[Intent]:
        fair = self.fair(pool)
        mint_in, amount = pool.trade_to(fair)
        if amount <= 0:
            return
        maker = self._richest(mint_in)
        if not self._trading.can_spend(maker, mint_in, amount):
            if mint_in is self._world.sol:
                yield self._trading.refill(maker, REFILL_LAMPORTS + amount)
            else:
                yield self._trading.lend(maker, mint_in, 2 * amount)
        if pool.quote(mint_in, amount) <= 0:
            return
        plan = SwapPlan(self._world.ledger, maker, mint_in, amount, pool.other(mint_in))
        plan.with_associated(self._world.sol)
        step = swap_step(pool, plan.trader(), mint_in, amount, 1)
        yield self._trading.sign_swap(maker, [*plan.before, step, *plan.after], SWAP_UNITS)

    def _richest(self, mint: Mint) -> Wallet:
        return max(self._world.makers, key=lambda maker: self._held(maker, mint))

    def _held(self, maker: Wallet, mint: Mint) -> int:
        ledger = self._world.ledger
        return ledger.held(maker.address, mint)

    def _recenter(self, pool: DlmmPool) -> Intent | None:
        """Take out its liquidity and spread it around the price, half of its value on each side."""
        maker = self._world.makers[0]
        owner = maker.address
        position = self._world.ledger.natives[dlmm_liquidity.kept(pool).address]
        assert isinstance(position, BinnedPosition)
        held = position.amounts(pool.bins)
        mid = pool.mid()
        half = (held[0] * mid + held[1]) / 2
        wanted = (half / mid, half)
        amounts = tuple(
            min(int(want), own + self._held(maker, side))
            for want, own, side in zip(wanted, held, pool.sides, strict=True)
        )
        if min(amounts) < BINS_PER_SIDE:
            return None
        steps: list[Step] = [
            *(open_account(owner, side) for side in pool.sides),
            *dlmm_liquidity.recentered(pool, (amounts[0], amounts[1])),
        ]
        return self._trading.sign_swap(maker, steps, 2 * SWAP_UNITS)


def _near_the_edge(pool: DlmmPool) -> bool:
    return abs(pool.active_bin - pool.center_bin) >= RECENTER_BINS
