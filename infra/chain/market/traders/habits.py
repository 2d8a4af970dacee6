"""Who acts next: every trader's habit has its share of the transactions."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import accumulate
from random import Random

from infra.chain.market.knobs import Knobs
from infra.chain.market.runtime.execution import Execution, Intent
from infra.chain.market.runtime.programs import VOTE
from infra.chain.market.traders.crowd import Crowd
from infra.chain.market.traders.curves import Curves
from infra.chain.market.traders.desk import Desk
from infra.chain.market.traders.drift import DriftTrading
from infra.chain.market.traders.holding import Holding
from infra.chain.market.traders.jupiter_perps import PerpTrading
from infra.chain.market.traders.klend_lending import KlendLending
from infra.chain.market.traders.lending import Lending
from infra.chain.market.traders.meteora_providing import MeteoraProviding
from infra.chain.market.traders.ordering import Ordering
from infra.chain.market.traders.ranged_providing import RangedProviding
from infra.chain.market.traders.routing import Routing
from infra.chain.market.traders.staking import SHARE, Staking
from infra.chain.market.traders.trading import Habit, Trading
from infra.chain.market.world.genesis import World


class Habits:
    """Chooses who acts next, and how."""

    def __init__(self, world: World, random: Random, knobs: Knobs) -> None:
        self._world = world
        self._random = random
        self._knobs = knobs
        trading = Trading(world, random, knobs.failed)
        self.signer = trading.signer
        self.desk = Desk(trading, knobs.slot_ms)
        self.curves = Curves(trading, knobs.slot_ms, knobs.tempo)
        self._crowd = crowd = Crowd(trading, self.desk, knobs.slot_ms)
        routing, holding = Routing(trading, crowd), Holding(trading, crowd)
        per_slot = knobs.rate * knobs.slot_ms / 1_000 * SHARE
        self._staking = Staking(world, self.signer, knobs.seed, per_slot, knobs.failed)
        self._lending = Lending(world, self.signer, knobs.seed, per_slot, knobs.failed)
        self._klend = KlendLending(world, self.signer, knobs.seed, per_slot, knobs.failed)
        self._providing = RangedProviding(world, self.signer, knobs.seed, per_slot, knobs.failed)
        self._meteora = MeteoraProviding(world, self.signer, knobs.seed, per_slot, knobs.failed)
        rate_per_slot = knobs.rate * knobs.slot_ms / 1_000
        self._perps = PerpTrading(world, self.signer, knobs.seed, rate_per_slot, knobs.failed)
        self._drift = DriftTrading(world, self.signer, knobs.seed, rate_per_slot, knobs.failed)
        self._urgent: deque[Habit] = deque()
        shares: tuple[tuple[float, Habit], ...] = (
            (0.08, crowd.keep_reference),
            (0.34, self.curves.play),
            (0.33, crowd.trade),
            (0.14, routing.route),
            (0.01, routing.two_hop),
            (0.06, crowd.transfer),
            (0.004, self.curves.launch),
            (0.01, holding.buy_and_hand_on),
            (0.006, holding.airdrop),
            (0.008, holding.burn),
            (0.004, holding.wrap),
            (0.004, holding.provide),
            (0.01, Ordering(trading, crowd).order),
        )
        self._mix = [habit for _, habit in shares]
        self._bounds = list(accumulate(share for share, _ in shares))

    def next(self) -> Intent:
        """Return the next transaction."""
        while True:
            if self._urgent:
                intent = self._urgent.popleft()()
            else:
                roll = self._random.random() * self._bounds[-1]
                intent = self._mix[bisect_right(self._bounds, roll)]()
            if intent is not None:
                return intent

    def begin_slot(self, slot: int, time_ms: float) -> None:
        """Look at what the last slots brought; `time_ms` counts from the market's start."""
        self.desk.begin_slot()
        self._crowd.begin_slot(slot)
        self._urgent = deque(self.curves.begin_slot(slot, time_ms))
        self._crowd.young = self.curves.graduates()

    def beside_trade(self, slot: int) -> Iterator[Intent]:
        """Yield what stakers, lenders, providers and perp traders do, whom nobody waits for."""
        yield from self._staking.turn(slot)
        yield from self._lending.turn()
        yield from self._klend.turn()
        yield from self._providing.turn()
        yield from self._meteora.turn()
        yield from self._perps.turn(slot, self._time_s(slot))
        yield from self._drift.turn(self._time_s(slot))

    def _time_s(self, slot: int) -> int:
        knobs = self._knobs
        return (knobs.start_time_ms + (slot - knobs.start_slot) * knobs.slot_ms) // 1_000

    def end_slot(self) -> Iterator[Intent]:
        """Yield what the desk does; each transaction must have run before the next."""
        return self.desk.turn()

    def retire(self) -> set[bytes]:
        """Forget dead coins, and the oldest where there are too many; returns their accounts."""
        return self.curves.retire(self._knobs.curves_kept, self._knobs.pools_kept)

    def vote(self) -> Intent:
        """Return a validator's vote."""
        validator = self._random.choice(self._world.validators)
        data = b"\x0e\0\0\0" + self._random.randbytes(112)
        accounts = (validator.vote_account, validator.address)

        def vote(tx: Execution) -> None:
            tx.enter(VOTE, accounts, data, (True, False))
            tx.leave_builtin()

        return self.signer.vote(validator.address, vote)
