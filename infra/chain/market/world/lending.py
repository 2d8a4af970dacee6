"""The lender of the world: a group with banks of SOL and USDC, and wallets that use it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.marginfi import (
    ACCOUNT_RENT_LAMPORTS,
    BANK_RENT_LAMPORTS,
    GROUP_RENT_LAMPORTS,
    ONE,
    Balance,
    Bank,
    Group,
    LendingAccount,
    Weights,
)
from infra.chain.market.runtime.marginfi_program import Holder, Lent
from infra.chain.market.runtime.programs import derived
from infra.chain.market.world.wallets import Wallet

_WEIGHTS: Final = {  # percent, by decimals: SOL moves more than the dollar
    9: (80, 90, 125, 110),
    6: (90, 95, 110, 105),
}


class Lender:
    """Banks by mint, and the accounts that wallets have with them."""

    def __init__(
        self, seed: int, ledger: Ledger, mints: tuple[Mint, ...], wallets: list[Wallet], time_s: int
    ) -> None:
        self.wallets = wallets
        self.group = derived(seed, "lending-group")
        ledger.natives[self.group] = Group(wallets[0].address)
        ledger.lamports[self.group] = GROUP_RENT_LAMPORTS
        self.banks = [self._bank(seed, ledger, mint, time_s) for mint in mints]
        self.keeper = wallets[0]
        self.keeping = Holder(derived(seed, "lending-account", "keeper"), self.keeper.address)
        balances = tuple(self._first_deposit(ledger, lent) for lent in self.banks)
        account = LendingAccount(self.group, self.keeper.address)
        for balance in balances:
            account = account.with_balance(balance)
        ledger.natives[self.keeping.account] = account
        ledger.lamports[self.keeping.account] = ACCOUNT_RENT_LAMPORTS

    def _bank(self, seed: int, ledger: Ledger, mint: Mint, time_s: int) -> Lent:
        address, vault, authority, insurance, oracle = (
            derived(seed, "bank", mint.symbol, of)
            for of in ("bank", "vault", "authority", "insurance", "oracle")
        )
        for account in (vault, insurance):
            ledger.endow(account, mint, authority, 0)
        asset_init, asset, debt_init, debt = (
            ONE * percent // 100 for percent in _WEIGHTS[mint.decimals]
        )
        weights = Weights(asset_init, asset, debt_init, debt)
        ledger.natives[address] = Bank(
            self.group, mint.address, mint.decimals, vault, insurance, weights, time_s
        )
        ledger.lamports[address] = BANK_RENT_LAMPORTS
        return Lent(self.group, address, mint, vault, authority, insurance, oracle)

    def _first_deposit(self, ledger: Ledger, lent: Lent) -> Balance:
        """Move half of what the keeper has into a bank."""
        source = ledger.tokens[ledger.associated(self.keeper.address, lent.mint)]
        amount_raw = source.amount_raw // 2
        source.amount_raw -= amount_raw
        ledger.tokens[lent.vault].amount_raw += amount_raw
        if lent.mint.decimals == 9:  # wrapped SOL is its lamports
            ledger.lamports[source.address] -= amount_raw
            ledger.lamports[lent.vault] += amount_raw
        bank = ledger.natives[lent.address]
        assert isinstance(bank, Bank)
        shares = bank.asset_shares(amount_raw)
        ledger.natives[lent.address] = replace(bank, assets=bank.assets + shares)
        return Balance(lent.address, assets=shares, updated_s=bank.updated_s)
