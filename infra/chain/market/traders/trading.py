"""A swap as a signed transaction: sizes, limits, accounts, and money for who has run out of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.traders.signing import Signer
from infra.chain.market.traders.swap_plan import SwapPlan, swap_step
from infra.chain.market.venues.venue import Pool
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet
from schemas.amounts import LAMPORTS

SWAP_UNITS: Final = 200_000
GREATEST_SHARE: Final = 0.04  # of a pool's reserve in one trade, but for whales
GIVEN_BACK: Final = 0.9  # of the accounts that a sale empties: closed for their rent

Habit = Callable[[], Intent | None]


class Trading:
    """What all traders do alike."""

    def __init__(self, world: World, random: Random, failed: float) -> None:
        self.world = world
        self.random = random
        self.signer = Signer(random)
        self._failed = failed

    def fails(self) -> bool:
        """Whether the next trade asks for more than it can get."""
        return self.random.random() < self._failed

    def least(self, quoted_raw: int) -> int:
        """Return the least accepted output."""
        if self.fails():
            return quoted_raw * 3 // 2 + 1
        return quoted_raw * self.random.randrange(85, 100) // 100

    def after_sale(self, wallet: Wallet, coin: Mint, amount_raw: int) -> list[Step]:
        """Return what follows a sale: most who sell all they have close the empty account.

        One of a coin with transfer fees stays: it may have some that are withheld in it.
        """
        ledger = self.world.ledger
        if coin.transfer_fee_bps or coin is self.world.sol:
            return []
        if amount_raw != ledger.held(wallet.address, coin) or self.random.random() >= GIVEN_BACK:
            return []
        return [close_account(wallet.address, ledger.associated(wallet.address, coin))]

    def amount(self, reserve_raw: int, typical: float = 0.001) -> int:
        """Return a trade's size, heavy-tailed, as a share of the pool's reserve."""
        share = min(self.random.lognormvariate(0, 1.0) * typical, GREATEST_SHARE)
        return max(int(reserve_raw * share), 1_000)

    def can_spend(self, wallet: Wallet, mint: Mint, amount: int) -> bool:
        """Whether a wallet has so much, and lamports for fees."""
        ledger = self.world.ledger
        if mint is self.world.sol and not wallet.keeps_wsol:
            return ledger.lamports.get(wallet.address, 0) >= amount + LAMPORTS // 10
        return ledger.held(wallet.address, mint) >= amount

    def swap(
        self,
        wallet: Wallet,
        pool: Pool,
        mint_in: Mint,
        amount: int,
        then: Callable[[int], list[Step]] | None = None,
    ) -> Intent | None:
        """Swap; `then` gives what follows it, from the least that comes out."""
        world, random = self.world, self.random
        quoted = pool.quote(mint_in, amount)
        if quoted <= 0:
            return None
        sol = world.sol
        if not self.can_spend(wallet, mint_in, amount):
            return self.refill(wallet) if mint_in is sol else None
        mint_out = pool.other(mint_in)
        plan = SwapPlan(world.ledger, wallet, mint_in, amount, mint_out)
        wraps = sol in (mint_in, mint_out) and not wallet.keeps_wsol
        if pool.DEX == "raydium-amm-v4" and wraps and random.random() < 0.5:
            plan.with_seed_account(sol, random)
        else:
            plan.with_associated(sol)
        least = self.least(quoted)
        step = swap_step(pool, plan.trader(), mint_in, amount, least)
        steps = [*plan.before, step, *plan.after, *(then(least) if then else ())]
        return self.sign_swap(wallet, steps, SWAP_UNITS)

    def sign_swap(self, wallet: Wallet, steps: list[Step], units: int, tag: str = "") -> Intent:
        """Sign a transaction around a swap."""
        versioned = tag == "jupiter" or self.random.random() < 0.6
        return self.signer.sign(
            wallet,
            steps,
            units,
            hurry=0.6 if wallet.keeps_wsol else 0.3,
            version=0 if versioned else None,
            lookup=versioned and self.random.random() < 0.6,
            tag=tag,
        )

    def refill(self, wallet: Wallet, lamports: int | None = None) -> Intent:
        """Send SOL from an exchange to a wallet that has run out of it."""
        world = self.world
        payer = world.exchange
        target, sol = wallet.address, world.sol
        if lamports is None:
            lamports = self.random.randrange(50, 500) * LAMPORTS
        sent = lamports
        if not wallet.keeps_wsol:
            steps: list[Step] = [lambda tx: spl.transfer_lamports(tx, payer.address, target, sent)]
            return self.signer.sign(payer, steps, 1_000)
        account = world.ledger.associated(target, sol)
        steps = [
            lambda tx: spl.transfer_lamports(tx, payer.address, account, sent),
            lambda tx: spl.sync_native(tx, account),
        ]
        return self.signer.sign(payer, steps, 10_000)

    def lend(self, wallet: Wallet, mint: Mint, amount_raw: int) -> Intent:
        """Send a token other than SOL from an exchange to a wallet that has an account for it."""
        ledger, payer = self.world.ledger, self.world.exchange.address
        source, destination = (
            ledger.associated(payer, mint),
            ledger.associated(wallet.address, mint),
        )
        step = partial(_send, source, mint, destination, payer, amount_raw)
        return self.signer.sign(self.world.exchange, [step], 10_000)


def _send(
    source: bytes, mint: Mint, destination: bytes, owner: bytes, amount_raw: int, tx: Execution
) -> None:
    spl.transfer_checked(tx, source, mint, destination, owner, amount_raw)


def open_account(owner: bytes, mint: Mint) -> Step:
    """Return a step that creates an associated account where there is none."""
    return lambda tx: spl.create_associated(tx, owner, owner, mint)


def close_account(owner: bytes, account: bytes) -> Step:
    """Return a step that closes a token account."""
    return lambda tx: spl.close_account(tx, account, owner, owner)
