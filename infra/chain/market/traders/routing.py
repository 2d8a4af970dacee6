"""Swaps over several pools: Jupiter's routes, and Orca's two hops in one instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from infra.chain.market.runtime.execution import Intent
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.traders.crowd import Crowd
from infra.chain.market.traders.swap_plan import SwapPlan
from infra.chain.market.traders.trading import (
    SWAP_UNITS,
    Trading,
    close_account,
    open_account,
)
from infra.chain.market.venues.orca_two_hop import two_hop_step
from infra.chain.market.venues.orca_whirlpool import Whirlpool
from infra.chain.market.venues.routes import KINDS, SHARED_AUTHORITY, Hop, Route, quote
from infra.chain.market.venues.venue import Pool

ROUTE_UNITS: Final = 600_000
LARGEST_SHARE: Final = 0.01  # of the reserve of each pool on the way
_TRIES: Final = 6


class Routing:
    """Habits of traders who leave the choice of pools to a router."""

    def __init__(self, trading: Trading, crowd: Crowd) -> None:
        self._trading = trading
        self._world = world = trading.world
        self._random = trading.random
        self._crowd = crowd
        self._liquid = (world.sol, world.usdc, world.staked_sol)
        self._two_hop_pools = [
            pool
            for pool in world.directory.of(world.sol)
            if isinstance(pool, Whirlpool) and not pool.v2 and pool not in world.reference
        ]

    def _hops(self) -> list[Hop]:
        """Return a route: into a coin, out of one, or from one to another, over SOL or USDC."""
        world, random = self._world, self._random
        money = (world.sol, world.usdc, world.usdt, world.staked_sol)
        first = random.choice((*money, self._crowd.coin()))
        length = random.choice((1, 1, 2, 2, 3))
        hops: list[Hop] = []
        mint, seen = first, {first.address}
        while len(hops) < length:
            pool = self._next_pool(mint, seen, last=len(hops) + 1 == length)
            if pool is None:
                break
            hops.append(Hop(pool, mint))
            mint = pool.other(mint)
            seen.add(mint.address)
        return hops

    def _next_pool(self, mint: Mint, seen: set[bytes], *, last: bool) -> Pool | None:
        """Return a pool that leads on; before the last hop, over something liquid if it can."""
        pools = self._world.directory.of(mint)
        found = None
        for pool in (self._random.choice(pools) for _ in range(_TRIES if pools else 0)):
            other = pool.other(mint)
            if other.address in seen or not pool.alive:
                continue
            if last or other in self._liquid:
                return pool
            found = pool
        return found

    def route(self) -> Intent | None:
        """Swap through Jupiter, over one to three pools."""
        world, random = self._world, self._random
        ledger, sol = world.ledger, world.sol
        hops = self._hops()
        if not hops:
            return None
        first, last = hops[0].mint_in, hops[-1].mint_out
        wallet = random.choice(world.bots if random.random() < 0.3 else world.holders)
        owner = wallet.address
        if first is sol:
            amount = self._trading.amount(hops[0].pool.reserves()[hops[0].pool.sides.index(sol)])
            if not self._trading.can_spend(wallet, sol, amount):
                return self._trading.refill(wallet)
        else:
            held = ledger.held(owner, first)
            amount = held // random.randrange(2, 9)
        amount = _bounded(hops, amount)
        quoted = quote(hops, amount) if amount >= 10_000 else 0
        if quoted <= 0:
            return None
        kind = random.choice(KINDS)
        slippage_bps = random.randrange(30, 500)
        if self._trading.fails():
            quoted = quoted * 3 // 2
        route = Route(ledger, kind, owner, hops, amount, quoted, slippage_bps)
        plan = SwapPlan(ledger, wallet, first, amount, last).with_associated(sol)
        between = [hop.mint_in for hop in hops[1:]]
        if kind.startswith("shared"):
            for mint in (first, *between, last):
                self._open_shared(mint)
        else:
            plan.before += [open_account(owner, mint) for mint in between]
            if sol in between and not wallet.keeps_wsol:
                plan.after.append(close_account(owner, ledger.associated(owner, sol)))
        steps = [*plan.before, route.execute, *plan.after]
        return self._trading.sign_swap(wallet, steps, ROUTE_UNITS, "jupiter")

    def _open_shared(self, mint: Mint) -> None:
        """Jupiter's own accounts exist for every token that it routes."""
        ledger = self._world.ledger
        account = ledger.associated(SHARED_AUTHORITY, mint)
        if account not in ledger.tokens:
            ledger.endow(account, mint, SHARED_AUTHORITY, 0)

    def two_hop(self) -> Intent | None:
        """Go from one coin to another over SOL inside Orca."""
        world, random = self._world, self._random
        ledger, sol = world.ledger, world.sol
        pools = self._two_hop_pools
        if len(pools) < 2:
            return None
        first, second = random.sample(pools, 2)
        mint_in, mint_out = first.other(sol), second.other(sol)
        bot = random.choice(world.bots)
        owner = bot.address
        amount = ledger.held(owner, mint_in) // 3
        if amount < 10_000:
            reserve = first.reserves()[first.sides.index(sol)]
            return self._trading.swap(bot, first, sol, self._trading.amount(reserve))
        hops = (Hop(first, mint_in), Hop(second, sol))
        amount = _bounded(hops, amount)
        quoted = quote(hops, amount)
        if quoted <= 0:
            return None
        accounts = tuple(ledger.associated(owner, mint) for mint in (mint_in, sol, mint_out))
        step = two_hop_step(first, second, owner, accounts, amount, self._trading.least(quoted))
        return self._trading.sign_swap(bot, [open_account(owner, mint_out), step], 2 * SWAP_UNITS)


def _bounded(hops: Sequence[Hop], amount: int) -> int:
    """Return as much of an amount as moves no pool of the route far."""
    flow, greatest = float(amount), LARGEST_SHARE
    for pool, mint_in in hops:
        greatest = max(greatest, flow / max(pool.reserves()[pool.sides.index(mint_in)], 1))
        flow *= pool.price_of(mint_in)
    return int(amount * LARGEST_SHARE / greatest)
