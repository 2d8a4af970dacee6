"""The steps around a swap: which token accounts it uses, and how SOL is wrapped for it."""

from __future__ import annotations

from random import Random
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, Step
from infra.chain.market.runtime.ledger import TOKEN_ACCOUNT_RENT_LAMPORTS, Ledger, Mint
from infra.chain.market.runtime.programs import derived
from infra.chain.market.venues.venue import Pool, Trader
from infra.chain.market.world.wallets import Wallet

SEED_LETTERS: Final = "abcdefghijkmnopqrstuvwxyz23456789"


class SwapPlan:
    """Accounts for a swap: where tokens come from and go to, and the steps around it."""

    def __init__(
        self, ledger: Ledger, wallet: Wallet, mint_in: Mint, amount_in_raw: int, mint_out: Mint
    ) -> None:
        self.before: list[Step] = []
        self.after: list[Step] = []
        self._ledger = ledger
        self._wallet = wallet
        owner = wallet.address
        self.source = ledger.associated(owner, mint_in)
        self.destination = ledger.associated(owner, mint_out)
        self._mint_in, self._mint_out, self._amount = mint_in, mint_out, amount_in_raw

    def trader(self) -> Trader:
        """Return the trader of these accounts."""
        owner = self._wallet.address
        return Trader(owner, self.source, self.destination, owner)

    def with_associated(self, sol: Mint) -> SwapPlan:
        """Use associated accounts; wrap and unwrap SOL unless the wallet keeps it wrapped."""
        wallet, owner = self._wallet, self._wallet.address
        wraps = not wallet.keeps_wsol
        if self._mint_in is sol and wraps:
            source, amount = self.source, self._amount
            self.before += (
                lambda tx: spl.create_associated(tx, owner, owner, sol),
                lambda tx: spl.transfer_lamports(tx, owner, source, amount),
                lambda tx: spl.sync_native(tx, source),
            )
            self.after.append(lambda tx: spl.close_account(tx, source, owner, owner))
        mint_out, destination = self._mint_out, self.destination
        self.before.append(lambda tx: spl.create_associated(tx, owner, owner, mint_out))
        if mint_out is sol and wraps:
            self.after.append(lambda tx: spl.close_account(tx, destination, owner, owner))
        return self

    def with_seed_account(self, sol: Mint, random: Random) -> SwapPlan:
        """Use a wSOL account made with a seed and closed again, as Raydium's clients do."""
        owner = self._wallet.address
        seed = "".join(random.choice(SEED_LETTERS) for _ in range(32))
        temporary = derived("seed", owner, seed)
        lamports = TOKEN_ACCOUNT_RENT_LAMPORTS
        if self._mint_in is sol:
            self.source = temporary
            lamports += self._amount
        else:
            self.destination = temporary
        self.before += (
            lambda tx: spl.create_account_with_seed(tx, owner, temporary, seed, lamports, 165),
            lambda tx: spl.initialize_account(tx, temporary, sol, owner, sysvar=True),
        )
        if self._mint_in is sol:
            mint_out = self._mint_out
            self.before.append(lambda tx: spl.create_associated(tx, owner, owner, mint_out))
        self.after.append(lambda tx: spl.close_account(tx, temporary, owner, owner))
        return self


def swap_step(pool: Pool, trader: Trader, mint_in: Mint, amount: int, minimum: int) -> Step:
    """Return a swap as an outer instruction."""

    def swap(tx: Execution) -> None:
        pool.swap(tx, trader, mint_in, amount, minimum)

    return swap
