"""Traders of old coins: each buys or sells a little, rather towards what the coin is worth."""

from __future__ import annotations

from math import exp, log
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Intent, Step
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.traders.desk import Desk
from infra.chain.market.traders.trading import Trading
from infra.chain.market.traders.valuation import Drift
from infra.chain.market.venues.venue import Pool
from schemas.amounts import LAMPORTS

COIN_PER_ROOT_HOUR: Final = 0.06
COIN_BACK_H: Final = 24.0
DRIFT_EVERY_SLOTS: Final = 10
EAGERNESS: Final = 8.0  # how strongly a price apart from the worth turns buyers into sellers
WHALES: Final = 0.01  # share of the trades that are larger than usual, by so much:
WHALE_FACTOR: Final = 20
LARGEST_SALE: Final = 50  # of a pool's reserve at most one part is sold at once
_LEAST_RAW: Final = 1_000


class Crowd:
    """Habits around old coins, and around those that left their curve."""

    def __init__(self, trading: Trading, desk: Desk, slot_ms: int) -> None:
        self._trading = trading
        self._world = trading.world
        self._random = trading.random
        self._desk = desk
        tick_ms = slot_ms * DRIFT_EVERY_SLOTS
        self._drifts = {
            coin.address: Drift(COIN_PER_ROOT_HOUR, COIN_BACK_H, tick_ms)
            for coin in self._world.coins
        }
        self.young: list[Mint] = []  # left their curve

    def begin_slot(self, slot: int) -> None:
        """Move what old coins are worth."""
        if slot % DRIFT_EVERY_SLOTS == 0:
            for drift in self._drifts.values():
                drift.tick(self._random)

    def coin(self) -> Mint:
        """Return a coin to trade: an old one, or one that left its curve."""
        random = self._random
        if self.young and random.random() < 0.2:
            coin = random.choice(self.young)
            if self._world.directory.of(coin):
                return coin
        return random.choice(self._world.coins)

    def coin_and_pools(self) -> tuple[Mint, list[Pool]]:
        """Return a coin to trade and its pools."""
        coin = self.coin()
        return coin, list(self._world.directory.of(coin))

    def trade(self) -> Intent | None:
        """Buy or sell a coin in one of its pools."""
        world, random = self._world, self._random
        coin = random.choice(world.coins)
        pool = random.choice(world.directory.of(coin))
        wallet = random.choice(world.bots if random.random() < 0.5 else world.holders)
        side = pool.sides.index(coin)
        whale = WHALE_FACTOR if random.random() < WHALES else 1
        if random.random() < self._selling(coin, pool):
            held = world.ledger.held(wallet.address, coin)
            part = held if random.random() < 0.3 else held // random.randrange(2, 6)
            part = min(part, pool.reserves()[side] * whale // LARGEST_SALE)
            if part <= _LEAST_RAW:
                return None
            close = self._trading.after_sale(wallet, coin, part)
            return self._trading.swap(wallet, pool, coin, part, lambda _: close)
        reserve = pool.reserves()[1 - side]
        return self._trading.swap(
            wallet, pool, pool.other(coin), self._trading.amount(reserve, 0.001 * whale)
        )

    def _selling(self, coin: Mint, pool: Pool) -> float:
        """Return how likely a trader sells: one half where price and worth are the same."""
        worth = self._desk.worth
        price = pool.price_of(coin) * worth[pool.other(coin).address]
        above = log(price / self._world.worth[coin.address]) - self._drifts[coin.address].value
        return 1 / (1 + exp(-EAGERNESS * above))

    def keep_reference(self) -> Intent | None:
        """Trade a little of SOL against USDC, towards the price that makers agree on."""
        world, random, desk = self._world, self._random, self._desk
        pool = random.choice(world.reference)
        sol = world.sol
        amount = self._trading.amount(pool.reserves()[pool.sides.index(sol)], 0.0004)
        if pool.mid() > desk.fair(pool):
            return self._trading.swap(random.choice(world.makers), pool, sol, amount)
        dollars = int(amount * pool.price_of(sol))
        return self._trading.swap(random.choice(world.makers), pool, world.usdc, dollars)

    def transfer(self) -> Intent | None:
        """Send SOL or a coin to somebody."""
        world, random = self._world, self._random
        sender, receiver = random.sample(world.holders, 2)
        owner, other = sender.address, receiver.address
        if random.random() < 0.4:
            lamports = random.randrange(1_000_000, LAMPORTS)
            if not self._trading.can_spend(sender, world.sol, lamports):
                return self._trading.refill(sender)
            return self._trading.signer.sign(
                sender, [lambda tx: spl.transfer_lamports(tx, owner, other, lamports)], 1_000
            )
        coin = self.coin()
        held = world.ledger.held(owner, coin)
        if held < _LEAST_RAW:
            return None
        source = world.ledger.associated(owner, coin)
        amount = held // random.randrange(2, 10)
        destination = world.ledger.associated(other, coin)
        move = spl.transfer_checked_with_fee if coin.transfer_fee_bps else spl.transfer_checked
        steps: list[Step] = [
            lambda tx: spl.create_associated(tx, owner, other, coin),
            lambda tx: move(tx, source, coin, destination, owner, amount),
        ]
        return self._trading.signer.sign(sender, steps, 60_000)
