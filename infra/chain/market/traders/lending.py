"""Lenders: deposit, borrow, repay, withdraw, and a keeper who liquidates.

They have wallets and random numbers of their own: no price depends on what they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from infra.chain.market.runtime import marginfi_program as program
from infra.chain.market.runtime.execution import Intent, Step
from infra.chain.market.runtime.marginfi import ONE, Bank, LendingAccount, health
from infra.chain.market.runtime.marginfi_program import Holder, Lent, Prices
from infra.chain.market.traders.signing import Signer
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet

LENDING: Final = "lending"  # tag of the intents
_LEAST_RAW: Final = 1_000
_LIQUIDATED: Final = 4  # part of the collateral, at once


class Lending:
    """The habit of lending and borrowing."""

    def __init__(self, world: World, signer: Signer, seed: int, per_slot: float, failed: float):
        self._world = world
        self._lender = world.lender
        self._signer = signer
        self._random = Random(f"lending/{seed}")  # noqa: S311 - reproducible, not secret
        self._per_slot = per_slot
        self._failed = failed
        self._number = 0

    def turn(self) -> Iterator[Intent]:
        """Yield the next slot's transactions; each must have run before the next."""
        count = int(self._per_slot) + (self._random.random() < self._per_slot % 1)
        for number in range(count):
            prices = self._prices()
            if number == 0 and (found := self._unhealthy(prices)) is not None:
                yield self._intent(self._lender.keeper, [found])
                continue
            wallet = self._random.choice(self._lender.wallets)
            found_account = self._account(wallet)
            if found_account is None:
                self._number += 1
                at = self._world.address("lending-account", self._number)
                of = Holder(at, wallet.address)
                steps: list[Step] = [
                    partial(program.initialize, of=of, group=self._lender.group),
                    *self._deposit(of, self._random.choice(self._lender.banks), prices),
                ]
                yield self._intent(wallet, steps, (at,))
            elif steps := self._steps(*found_account, prices):
                yield self._intent(wallet, steps)

    def _intent(
        self, wallet: Wallet, steps: list[Step], cosigners: tuple[bytes, ...] = ()
    ) -> Intent:
        return Intent(
            serial=self._signer.next_serial(),
            payer=wallet.address,
            steps=steps,
            recent_blockhash=self._signer.recent_blockhash,
            cosigners=cosigners,
            tag=LENDING,
        )

    def _prices(self) -> Prices:
        """Return what the oracles say: SOL in dollars as the reference pools trade it."""
        sol, usdc = self._lender.banks
        mid = self._world.reference[0].mid() * 10 ** (sol.mint.decimals - usdc.mint.decimals)
        return {sol.address: program.dollars(mid), usdc.address: ONE}

    def _account(self, wallet: Wallet) -> tuple[Holder, LendingAccount] | None:
        for at, each in self._world.ledger.natives.items():
            if isinstance(each, LendingAccount) and each.authority == wallet.address:
                return Holder(at, wallet.address), each
        return None

    def _steps(self, of: Holder, account: LendingAccount, prices: Prices) -> list[Step]:
        random = self._random
        lent = random.choice(self._lender.banks)
        balance, bank = account.of(lent.address), self._lender.bank(lent)
        roll = random.random()
        if balance.debts:
            held = self._world.ledger.held(of.authority, lent.mint)
            owed = bank.owed(balance.debts)
            if roll < 0.3 and held > 2 * owed:
                return [partial(program.repay, of=of, lent=lent, amount_raw=None, prices=prices)]
            part = min(owed // 3, held)
            if part < _LEAST_RAW:
                return []
            return [partial(program.repay, of=of, lent=lent, amount_raw=part, prices=prices)]
        if balance.assets:
            deposited = bank.deposited(balance.assets)
            if roll < 0.2 or deposited < 10 * _LEAST_RAW:
                amount = None
            elif roll < 0.5:
                amount = deposited // random.randrange(2, 6)
            else:
                return self._deposit(of, lent, prices)
            return [partial(program.withdraw, of=of, lent=lent, amount_raw=amount, prices=prices)]
        if roll < 0.4:
            return self._deposit(of, lent, prices)
        return self._borrow(of, account, lent, prices)

    def _deposit(self, of: Holder, lent: Lent, prices: Prices) -> list[Step]:
        held = self._world.ledger.held(of.authority, lent.mint)
        amount = held // self._random.randrange(3, 8)
        if amount < _LEAST_RAW:
            return []
        return [partial(program.deposit, of=of, lent=lent, amount_raw=amount, prices=prices)]

    def _borrow(
        self, of: Holder, account: LendingAccount, lent: Lent, prices: Prices
    ) -> list[Step]:
        """Borrow close to what the deposits secure; now and then more, which fails."""
        banks = self._banks(prices)
        secured, owed = health(account, banks, initial=True)
        bank = replace(self._lender.bank(lent), price=prices[lent.address])
        room = (secured - owed) * 10**bank.decimals // (bank.price * bank.weights.debt_init)
        share = 130 if self._random.random() < self._failed else self._random.randrange(40, 99)
        amount = min(room * share // 100, self._world.ledger.balance(lent.vault) // 10)
        if amount < _LEAST_RAW:
            return []
        return [partial(program.borrow, of=of, lent=lent, amount_raw=amount, prices=prices)]

    def _banks(self, prices: Prices) -> dict[bytes, Bank]:
        return {
            lent.address: replace(self._lender.bank(lent), price=prices[lent.address])
            for lent in self._lender.banks
        }

    def _unhealthy(self, prices: Prices) -> Step | None:
        """Return what the keeper does with the first account that may be liquidated."""
        banks = self._banks(prices)
        for at, account in self._world.ledger.natives.items():
            if not isinstance(account, LendingAccount):
                continue
            secured, owed = health(account, banks, initial=False)
            if secured >= owed or at == self._lender.keeping.account:
                continue
            assets = [each for each in self._lender.banks if account.of(each.address).assets]
            debts = [each for each in self._lender.banks if account.of(each.address).debts]
            if assets and debts:
                shares = account.of(assets[0].address).assets
                amount = self._lender.bank(assets[0]).deposited(shares) // _LIQUIDATED
                return partial(
                    program.liquidate,
                    of=self._lender.keeping,
                    debtor=at,
                    asset=assets[0],
                    debt=debts[0],
                    amount_raw=amount,
                    prices=prices,
                )
        return None
