"""Limit orders: a bot places one, and another wallet, the keeper, fills it later."""

from __future__ import annotations

from collections import deque
from typing import Final

from infra.chain.market.runtime.execution import Intent, Step
from infra.chain.market.runtime.programs import TOKEN
from infra.chain.market.traders.crowd import Crowd
from infra.chain.market.traders.trading import SWAP_UNITS, Trading, open_account
from infra.chain.market.venues.limit_orders import LimitOrder

_OPEN: Final = 20  # orders that wait at most
_PERCENT: Final = 97  # of the quote, which the maker asks for


class Ordering:
    """Habits of makers and keepers; both keep their SOL wrapped."""

    def __init__(self, trading: Trading, crowd: Crowd) -> None:
        self._trading = trading
        self._crowd = crowd
        self._open: deque[LimitOrder] = deque(maxlen=_OPEN)
        self._placed = 0

    def order(self) -> Intent | None:
        """Fill the oldest order, or place one."""
        world, random = self._trading.world, self._trading.random
        maker, keeper = random.sample(world.bots, 2)
        if self._open and random.random() < 0.5:
            order = self._open.popleft()
            if world.ledger.balance(order.reserve) < order.making_raw:
                return None  # never placed, or on a branch that died
            keeper = next(bot for bot in (keeper, maker) if bot.address != order.maker)
            steps: list[Step] = [
                open_account(keeper.address, order.mint_in),
                open_account(keeper.address, order.mint_out),
                *order.fill(keeper.address),
            ]
            return self._trading.sign_swap(keeper, steps, 2 * SWAP_UNITS)
        coin, pools = self._crowd.coin_and_pools()
        pools = [each for each in pools if each.alive and each.other(coin) is world.sol]
        if not pools or coin.program is not TOKEN:
            return None
        pool = random.choice(pools)
        mint_in = random.choice((coin, world.sol))
        held = world.ledger.held(maker.address, mint_in)
        making_raw = min(
            held // 4, self._trading.amount(pool.reserves()[pool.sides.index(mint_in)])
        )
        taking_raw = pool.quote(mint_in, making_raw) * _PERCENT // 100 if making_raw > 0 else 0
        if taking_raw < 1_000:
            return None
        self._placed += 1
        order = LimitOrder(
            world.ledger, maker.address, pool, mint_in, (making_raw, taking_raw), self._placed
        )
        self._open.append(order)
        steps = [open_account(maker.address, order.mint_out), order.open]
        return self._trading.signer.sign(maker, steps, SWAP_UNITS)
