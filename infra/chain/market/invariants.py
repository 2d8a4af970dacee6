"""What must hold at the end of every slot, after the desk's turn, whatever traders did in it.

`spread`: of all pools of one coin, the highest mid price over the lowest, less 1. Mid prices are
between buying and selling, before fees. Prices in other quotes than SOL are converted with the
desk's price of the quote. `dollar`: how far USDT's mid price in USDC is from 1. `sol`: how far
SOL's mid price in each reference pool is from the price the desk keeps.
"""

from __future__ import annotations

from typing import Any, Final

from infra.chain.market.market import Market
from infra.chain.market.runtime.programs import WSOL
from infra.chain.market.venues.meteora_dlmm import DlmmPool

SPREAD_BOUND: Final = 0.01
DOLLAR_BOUND: Final = 0.005


class BrokenMarket(Exception):
    """A pool was drained, or tokens were made or lost; the text says which."""


class Invariants:
    """Greatest deviations so far, and in how many slots they were over their bounds."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._slots = 0
        self._spread = self._dollar = self._sol = 0.0
        self._spread_over = self._dollar_over = 0
        self._fewest_bins: int | None = None

    def check_prices(self) -> None:
        """Measure spreads and pegs."""
        desk = self._market.habits.desk
        world = self._market.world
        self._slots += 1
        spread = 0.0
        for market in desk.markets:
            prices = market.prices(desk.worth)
            spread = max(spread, max(prices) / min(prices) - 1)
        self._spread = max(self._spread, spread)
        self._spread_over += spread > SPREAD_BOUND
        dollar = abs(world.dollars.mid() - 1)
        self._dollar = max(self._dollar, dollar)
        self._dollar_over += dollar > DOLLAR_BOUND
        for pool in desk.pegged:
            if pool is not world.dollars:
                self._sol = max(self._sol, abs(pool.mid() / desk.fair(pool) - 1))

    def check_pools(self) -> None:
        """Raise BrokenMarket if a pool is drained; count the bins that are left."""
        for pool in self._market.world.directory.pools.values():
            if min(pool.vault_balances()) <= 0:
                raise BrokenMarket(f"{pool.DEX} pool {pool.address.hex()} is drained")
            if isinstance(pool, DlmmPool):
                first, last = pool.kept_bins
                left = min(pool.active_bin - first, last - pool.active_bin)
                if self._fewest_bins is None or left < self._fewest_bins:
                    self._fewest_bins = left

    def check_supply(self) -> None:
        """Raise BrokenMarket if a mint's supply is not what accounts hold and withhold."""
        ledger = self._market.world.ledger
        held = dict.fromkeys(ledger.mints, 0)
        for account in ledger.tokens.values():
            held[account.mint.address] += account.amount_raw + account.withheld_raw
        for address, mint in ledger.mints.items():
            if address != WSOL and held[address] != mint.supply_raw:
                raise BrokenMarket(f"{mint.text}: {held[address]} held of {mint.supply_raw}")

    @property
    def within_bounds(self) -> bool:
        """Whether no slot ended with prices over their bounds."""
        return not self._spread_over and not self._dollar_over

    def figures(self) -> dict[str, Any]:
        """Return the greatest deviations, in percent."""
        return {
            "slots": self._slots,
            "spread_max_pct": round(100 * self._spread, 3),
            "spread_slots_over": self._spread_over,
            "dollar_max_pct": round(100 * self._dollar, 3),
            "dollar_slots_over": self._dollar_over,
            "sol_max_pct": round(100 * self._sol, 3),
            "fewest_bins_left": self._fewest_bins,
        }
