"""Lenders of klend: deposit, borrow, repay, withdraw, and a keeper who liquidates.

They have wallets and random numbers of their own: no price depends on what they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from random import Random
from typing import Final

from infra.chain.market.runtime import klend_program as program
from infra.chain.market.runtime.execution import Intent, Step
from infra.chain.market.runtime.klend import BITS, ONE, Obligation
from infra.chain.market.runtime.klend_program import Holder, Lent
from infra.chain.market.traders.lending import LENDING
from infra.chain.market.traders.signing import Signer
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet

_LEAST_RAW: Final = 1_000
_SHARES: Final = (400, 600, 800, 990, 999, 999)  # of 1,000 that may be borrowed: wallets are bold
_DRAINED: Final = 10  # part of a vault that one loan takes at most

Prices = Mapping[bytes, int]  # reserve -> dollars a whole token by the oracle, at 60 bits


class KlendLending:
    """The habit of lending and borrowing with klend."""

    def __init__(self, world: World, signer: Signer, seed: int, per_slot: float, failed: float):
        self._world = world
        self._lender = world.klend
        self._signer = signer
        self._random = Random(f"klend/{seed}")  # noqa: S311 - reproducible, not secret
        self._per_slot = per_slot
        self._failed = failed

    def turn(self) -> Iterator[Intent]:
        """Yield the next slot's transactions; each must have run before the next."""
        count = int(self._per_slot) + (self._random.random() < self._per_slot % 1)
        for number in range(count):
            prices = self._prices()
            if number == 0 and (found := self._liquidation(prices)):
                yield self._intent(self._lender.keeper, found)
                continue
            wallet = self._random.choice(self._lender.wallets)
            of, obligation = self._lender.holder(wallet), self._lender.obligation(wallet)
            if obligation is None:
                start: Step = partial(program.initialize, of=of, market=self._lender.market)
                yield self._intent(wallet, [start])
            elif (found_op := self._operation(of, obligation)) is not None:
                lent, step = found_op
                steps = self._refreshing(of, obligation, prices, lent.address)
                yield self._intent(wallet, [*steps, step])

    def _intent(self, wallet: Wallet, steps: list[Step]) -> Intent:
        return Intent(
            serial=self._signer.next_serial(),
            payer=wallet.address,
            steps=steps,
            recent_blockhash=self._signer.recent_blockhash,
            tag=LENDING,
        )

    def _prices(self) -> Prices:
        """Return what the oracles say: SOL in dollars as the reference pools trade it."""
        sol, usdc = self._lender.lents
        mid = self._world.reference[0].mid() * 10 ** (sol.mint.decimals - usdc.mint.decimals)
        return {sol.address: int(mid * ONE), usdc.address: ONE}

    def _refreshing(
        self, of: Holder, obligation: Obligation, prices: Prices, *others: bytes
    ) -> list[Step]:
        """Return what must come before an operation: each reserve, then the obligation."""
        wanted = {*obligation.reserves, *others}
        steps: list[Step] = [
            partial(program.refresh_reserve, lent=lent, price_sf=prices[lent.address])
            for lent in self._lender.lents
            if lent.address in wanted
        ]
        return [*steps, partial(program.refresh_obligation, of=of)]

    def _operation(self, of: Holder, obligation: Obligation) -> tuple[Lent, Step] | None:
        random = self._random
        lent = random.choice(self._lender.lents)
        roll = random.random()
        held = self._world.ledger.held(of.authority, lent.mint)
        if owed_sf := obligation.borrow_of(lent.address).amount_sf:
            owed_raw = owed_sf >> BITS
            amount_raw = program.ALL if roll < 0.3 and held > 2 * owed_raw else owed_raw // 3
            if amount_raw < _LEAST_RAW or (amount_raw != program.ALL and amount_raw > held):
                return None
            return lent, partial(program.repay, of=of, lent=lent, amount_raw=amount_raw)
        if collateral_raw := obligation.deposit_of(lent.address).collateral_raw:
            if roll < 0.2 or collateral_raw < 10 * _LEAST_RAW:
                collateral_raw = program.ALL
            elif roll < 0.5:
                collateral_raw //= random.randrange(2, 6)
            else:
                return self._deposit(of, lent, held)
            return lent, partial(program.withdraw, of=of, lent=lent, collateral_raw=collateral_raw)
        if roll < 0.4:
            return self._deposit(of, lent, held)
        return self._borrow(of, obligation, lent)

    def _deposit(self, of: Holder, lent: Lent, held: int) -> tuple[Lent, Step] | None:
        amount_raw = held // self._random.randrange(3, 8)
        if amount_raw < _LEAST_RAW:
            return None
        return lent, partial(program.deposit, of=of, lent=lent, amount_raw=amount_raw)

    def _borrow(self, of: Holder, obligation: Obligation, lent: Lent) -> tuple[Lent, Step] | None:
        """Borrow close to what the deposits allow; now and then more, which fails."""
        reserves = {each.address: self._lender.reserve(each) for each in self._lender.lents}
        now = obligation.refreshed(reserves, obligation.slot)
        reserve = reserves[lent.address]
        room_sf = max(now.allowed_sf - now.weighed_sf, 0) * 100 // reserve.terms.borrow_factor
        share = 1_300 if self._random.random() < self._failed else self._random.choice(_SHARES)
        room_raw = room_sf * 10**reserve.decimals // reserve.price_sf
        amount_raw = min(room_raw * share // 1_000, reserve.available_raw // _DRAINED)
        if amount_raw < _LEAST_RAW:
            return None
        return lent, partial(program.borrow, of=of, lent=lent, amount_raw=amount_raw)

    def _liquidation(self, prices: Prices) -> list[Step]:
        """Return what the keeper does with the first obligation beyond its limit."""
        slot = max(self._lender.reserve(each).slot for each in self._lender.lents)
        reserves = {
            each.address: self._lender.reserve(each).refreshed(slot, 0, prices[each.address])
            for each in self._lender.lents
        }
        for wallet in self._lender.wallets:
            obligation = self._lender.obligation(wallet)
            if obligation is None or not any(each.amount_sf for each in obligation.borrows):
                continue
            now = obligation.refreshed(reserves, slot)
            if now.weighed_sf < now.limit_sf:
                continue
            of, (asset, debt) = self._lender.holder(wallet), self._sides(now)
            liquidate = partial(
                program.liquidate,
                keeper=self._lender.keeper.address,
                debtor=of.account,
                debt=debt,
                asset=asset,
                amount_raw=self._world.ledger.held(self._lender.keeper.address, debt.mint),
            )
            return [*self._refreshing(of, obligation, prices), liquidate]
        return []

    def _sides(self, obligation: Obligation) -> tuple[Lent, Lent]:
        """Return the reserves of an obligation's largest deposit and of its largest debt."""
        by_address = {each.address: each for each in self._lender.lents}
        asset = max(obligation.deposits, key=lambda each: each.worth_sf)
        debt = max(obligation.borrows, key=lambda each: each.worth_sf)
        return by_address[asset.reserve], by_address[debt.reserve]
