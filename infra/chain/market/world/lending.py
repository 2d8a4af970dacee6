"""The lender of the world: a group with banks of SOL and USDC, and wallets that use it."""

from __future__ import annotations

from collections.abc import Mapping
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
from infra.chain.market.runtime.programs import MARGINFI_MAIN_GROUP, WSOL, derived
from infra.chain.market.runtime.stake import Native
from infra.chain.market.world.wallets import Wallet

_WEIGHTS: Final = {  # percent, by decimals: SOL moves more than the dollar
    9: (80, 90, 125, 110),
    6: (90, 95, 110, 105),
}


class Lender:
    """Banks of some mints, and the accounts that wallets have with them.

    The first wallet is the keeper, who has deposited much; the second has deposited the first mint
    and borrowed the second, and does nothing more.
    """

    def __init__(
        self,
        seed: int,
        ledger: Ledger,
        mints: Mapping[Mint, int],
        wallets: list[Wallet],
        time_s: int,
    ) -> None:
        """Put the group, its banks and two accounts on the ledger; mints have dollars a token."""
        self._ledger = ledger
        self.keeper, self.borrower, *self.wallets = wallets
        self.group = MARGINFI_MAIN_GROUP
        self._put(self.group, Group(self.keeper.address), GROUP_RENT_LAMPORTS)
        self.banks = [self._bank(seed, mint, price, time_s) for mint, price in mints.items()]
        self.keeping = Holder(derived(seed, "lending-account", "keeper"), self.keeper.address)
        self._open(self.keeping, [self._deposit(self.keeper, lent, 2) for lent in self.banks])
        first, second = self.banks
        loan = [self._deposit(self.borrower, first, 2), self._borrow(self.borrower, second, 4)]
        self._open(Holder(derived(seed, "lending-account", 0), self.borrower.address), loan)

    def bank(self, lent: Lent) -> Bank:
        """Return a bank as it is now."""
        bank = self._ledger.natives[lent.address]
        assert isinstance(bank, Bank)
        return bank

    def _put(self, address: bytes, native: Native, lamports: int) -> None:
        self._ledger.natives[address] = native
        self._ledger.lamports[address] = lamports

    def _bank(self, seed: int, mint: Mint, price: int, time_s: int) -> Lent:
        address, vault, authority, insurance, oracle = (
            derived(seed, "bank", mint.symbol, of)
            for of in ("bank", "vault", "authority", "insurance", "oracle")
        )
        for account in (vault, insurance):
            self._ledger.endow(account, mint, authority, 0)
        weights = Weights(*(ONE * percent // 100 for percent in _WEIGHTS[mint.decimals]))
        bank = Bank(
            *(self.group, mint.address, mint.decimals, vault, insurance, weights, time_s),
            price=price * ONE,
        )
        self._put(address, bank, BANK_RENT_LAMPORTS)
        return Lent(self.group, address, mint, vault, authority, insurance, oracle)

    def _open(self, of: Holder, balances: list[Balance]) -> None:
        account = LendingAccount(self.group, of.authority)
        for balance in balances:
            account = account.with_balance(balance)
        self._put(of.account, account, ACCOUNT_RENT_LAMPORTS)

    def _deposit(self, wallet: Wallet, lent: Lent, part: int) -> Balance:
        """Move a part of what a wallet has into a bank."""
        own = self._ledger.associated(wallet.address, lent.mint)
        amount_raw = self._ledger.balance(own) // part
        self._move(own, lent.vault, amount_raw)
        bank = self.bank(lent)
        shares = bank.asset_shares(amount_raw)
        self._ledger.natives[lent.address] = replace(bank, assets=bank.assets + shares)
        return Balance(lent.address, assets=shares, updated_s=bank.updated_s)

    def _borrow(self, wallet: Wallet, lent: Lent, part: int) -> Balance:
        """Move tokens out of a bank: a part of what the wallet has already."""
        own = self._ledger.associated(wallet.address, lent.mint)
        amount_raw = self._ledger.balance(own) // part
        self._move(lent.vault, own, amount_raw)
        bank = self.bank(lent)
        shares = bank.debt_shares(amount_raw, up=True)
        self._ledger.natives[lent.address] = replace(bank, debts=bank.debts + shares)
        return Balance(lent.address, debts=shares, updated_s=bank.updated_s)

    def _move(self, source: bytes, destination: bytes, amount_raw: int) -> None:
        tokens, lamports = self._ledger.tokens, self._ledger.lamports
        tokens[source].amount_raw -= amount_raw
        tokens[destination].amount_raw += amount_raw
        if tokens[source].mint.address == WSOL:  # wrapped SOL is its lamports
            lamports[source] -= amount_raw
            lamports[destination] += amount_raw
