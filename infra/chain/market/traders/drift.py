"""Traders of Drift, and the keeper who settles their funding.

They have wallets and random numbers of their own: no price depends on what they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Final

from infra.chain.market.runtime import drift_program as program
from infra.chain.market.runtime import spl
from infra.chain.market.runtime.drift import (
    FUNDING_PERIOD_S,
    ORACLE_DECIMALS,
    STEP,
    USD,
    User,
)
from infra.chain.market.runtime.drift_program import Account
from infra.chain.market.runtime.execution import Intent, Step
from infra.chain.market.traders.jupiter_perps import PERPS, SHARE
from infra.chain.market.traders.signing import Signer
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet
from schemas.amounts import LAMPORTS

_SETTLED_AT_ONCE: Final = 12
_TOO_MANY: Final = 26  # their logs are longer than the runtime keeps
_FEWEST_LOST: Final = 24  # so many that a payment is among what is cut off
_TOO_MANY_EVERY: Final = 3  # periods
_OVERLOOKED: Final = 1 / 10  # share of the users that settle with a trade, or later
_MOST_UNITS: Final = 1_400_000
_MOST_LEVERAGE: Final = 3
_LEAST_LEFT: Final = 5  # times its equity is the position that is closed at the latest
_REFILL_USD: Final = 50_000 * USD
_START_USD: Final = 5_000 * USD


class DriftTrading:
    """The habit of trading perps on Drift."""

    def __init__(self, world: World, signer: Signer, seed: int, per_slot: float, failed: float):
        self._world = world
        self._drift = world.drift
        self._signer = signer
        self._random = Random(f"drift/{seed}")  # noqa: S311 - reproducible, not secret
        self._per_slot = per_slot * SHARE
        self._failed = failed

    def turn(self, time_s: int) -> Iterator[Intent]:
        """Yield the next slot's transactions; each must have run before the next."""
        if not self._per_slot:
            return
        if time_s - self._drift.market.funded_s >= FUNDING_PERIOD_S:
            yield from self._fund()
        count = int(self._per_slot) + (self._random.random() < self._per_slot % 1)
        for _ in range(count):
            wallet = self._random.choice(self._drift.wallets.traders)
            of = self._drift.accounts[wallet.address]
            if self._world.ledger.lamports.get(wallet.address, 0) < LAMPORTS:
                continue
            if self._world.ledger.held(wallet.address, self._drift.markets.mint) < _START_USD:
                yield self._refill(wallet)
                continue
            steps = self._steps(of, self._drift.user(of))
            if steps:
                yield self._intent(wallet.address, steps)

    def _fund(self) -> Iterator[Intent]:
        """Begin another period, and settle nearly all users; now and then too many at once."""
        keeper, at = self._drift.wallets.keeper.address, self._drift.markets
        rate: Step = partial(program.update_rate, at=at)
        yield self._intent(keeper, [self._reporting(keeper), rate])
        market = self._drift.market
        owing = [
            of
            for of in self._drift.accounts.values()
            if self._random.random() > _OVERLOOKED
            and (user := self._drift.user(of)) is not None
            and user.base
            and market.cumulative(user.base) != user.last_cumulative
        ]
        is_long = market.next_rate_id % _TOO_MANY_EVERY == 0
        size = _TOO_MANY if is_long and len(owing) >= _FEWEST_LOST else _SETTLED_AT_ONCE
        for first in range(0, len(owing), size):
            steps: list[Step] = [spl.set_unit_limit]
            steps += [
                partial(program.settle_funding, of=of, at=at) for of in owing[first : first + size]
            ]
            intent = self._intent(keeper, steps)
            intent.unit_limit, intent.version, intent.lookup = _MOST_UNITS, 0, True
            yield intent

    def _reporting(self, keeper: bytes) -> Step:
        """Return what brings the oracle to the price of now, as the reference pools trade it."""
        sol, usdc = self._world.sol, self._world.usdc
        mid = self._world.reference[0].mid() * 10 ** (sol.decimals - usdc.decimals)
        price = int(mid * 10**ORACLE_DECIMALS)
        return partial(program.post_oracle, keeper=keeper, at=self._drift.markets, price=price)

    def _steps(self, of: Account, user: User | None) -> list[Step]:
        random, at = self._random, self._drift.markets
        held = self._world.ledger.held(of.authority, at.mint)
        roll = random.random()
        if user is None:
            return [
                partial(program.initialize, of=of),
                partial(program.initialize_user, of=of),
                partial(program.deposit, of=of, at=at, amount_raw=_START_USD),
            ]
        price = self._drift.market.price
        equity = user.equity_usd(price)
        if not user.base and user.quote and roll < 0.5:
            return [partial(program.settle_pnl, of=of, at=at)]
        if user.base and user.notional_usd(price) > _LEAST_LEFT * equity:
            return [self._trade(of, -user.base)]
        if equity < _START_USD // 2 or roll < 0.1:
            amount_raw = min(held // 10, _START_USD)
            return [partial(program.deposit, of=of, at=at, amount_raw=amount_raw)]
        if roll < 0.2:
            amount_raw = user.deposit_raw // 10
            return [partial(program.withdraw, of=of, at=at, amount_raw=amount_raw)]
        if user.base and roll < 0.4:
            part = abs(user.base) // random.choice((1, 2, 4)) // STEP * STEP or abs(user.base)
            return [self._trade(of, -part if user.base > 0 else part)]
        room_usd = max(_MOST_LEVERAGE * equity - user.notional_usd(price), 0)
        steps = room_usd * random.randrange(10, 400) // 1_000 * (10**9) // price // STEP
        if random.random() < self._failed:
            steps *= 1_000
        if not steps:
            return []
        is_long = user.base > 0 if user.base else random.random() < 0.55
        return [self._trade(of, steps * STEP if is_long else -steps * STEP)]

    def _refill(self, wallet: Wallet) -> Intent:
        """Send USDC from an exchange to a wallet that has run out of it."""
        mint, ledger, payer = self._drift.markets.mint, self._world.ledger, self._world.exchange
        source = ledger.associated(payer.address, mint)
        account = ledger.associated(wallet.address, mint)
        step: Step = partial(
            spl.transfer_checked,
            source=source,
            mint=mint,
            destination=account,
            authority=payer.address,
            amount_raw=_REFILL_USD,
        )
        return self._intent(payer.address, [step])

    def _trade(self, of: Account, base: int) -> Step:
        return partial(program.trade, of=of, at=self._drift.markets, base=base)

    def _intent(self, payer: bytes, steps: list[Step]) -> Intent:
        return Intent(
            serial=self._signer.next_serial(),
            payer=payer,
            steps=steps,
            recent_blockhash=self._signer.recent_blockhash,
            tag=PERPS,
        )
