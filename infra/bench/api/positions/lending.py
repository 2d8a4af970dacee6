"""A lender of marginfi's kind in the bench: banks of a group, and accounts of wallets with them."""

from __future__ import annotations

from random import Random
from typing import Final

from infra.bench.api.world import DECIMALS, LAST_MS
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
    fixed,
)
from infra.chain.market.runtime.programs import MARGINFI, MARGINFI_MAIN_GROUP

PROGRAM: Final = MARGINFI.address
BANKS: Final = 30
_BALANCES: Final = 4  # of an account; the last one is a debt
_FIRST_AT: Final = 72  # of the balances in an account's data
_BALANCE_BYTES: Final = 104
_EMISSIONS_AT: Final = 72  # in a balance
_EMISSIONS_MINT_AT: Final = 872  # in a bank
_WEIGHTS: Final = Weights(ONE * 8 // 10, ONE * 9 // 10, ONE * 12 // 10, ONE * 11 // 10)

Made = tuple[bytes, bytes, int]
"""Address, data and lamports of an account."""


class Lender:
    """Banks of one group; everything follows from the seed."""

    def __init__(self, mints: list[bytes], seed: int) -> None:
        """Lend these tokens, one a bank."""
        self._random = random = Random(f"{seed} lending")  # noqa: S311 - figures to be had again
        self._group = MARGINFI_MAIN_GROUP  # what is in others counts in no sum
        self._banks = {random.randbytes(32): self._bank(mint) for mint in mints}

    @property
    def banks(self) -> list[bytes]:
        """Return the addresses of the banks."""
        return [*self._banks]

    def references(self) -> list[Made]:
        """Return the group and its banks."""
        group = Group(self._random.randbytes(32))
        made = [(self._group, group.data(), GROUP_RENT_LAMPORTS)]
        for address, bank in self._banks.items():
            data = bytearray(bank.data())
            data[_EMISSIONS_MINT_AT : _EMISSIONS_MINT_AT + 32] = bank.mint
            made.append((address, bytes(data), BANK_RENT_LAMPORTS))
        return made

    def account(self, wallet: bytes) -> Made:
        """Return a new account of a wallet: deposits, one debt, and emissions not yet claimed."""
        random = self._random
        account = LendingAccount(self._group, wallet)
        *supplied, borrowed = random.sample([*self._banks], _BALANCES)
        for bank in supplied:
            shares = random.randrange(10**9, 10**12) * ONE
            account = account.with_balance(Balance(bank, shares, 0, LAST_MS // 1_000))
        shares = random.randrange(10**8, 10**9) * ONE
        account = account.with_balance(Balance(borrowed, 0, shares, LAST_MS // 1_000))
        data = bytearray(account.data())
        at = _FIRST_AT + _BALANCE_BYTES * random.randrange(_BALANCES) + _EMISSIONS_AT
        data[at : at + 16] = fixed(random.randrange(1, 10**8) * ONE)
        return random.randbytes(32), bytes(data), ACCOUNT_RENT_LAMPORTS

    def _bank(self, mint: bytes) -> Bank:
        random = self._random
        assets = random.randrange(10**14, 10**15)
        return Bank(
            self._group,
            mint,
            DECIMALS,
            vault=random.randbytes(32),
            insurance=random.randbytes(32),
            weights=_WEIGHTS,
            updated_s=LAST_MS // 1_000 - random.randrange(1, 3_600),
            price=random.randrange(ONE // 100, 100 * ONE),
            asset_value=ONE + random.randrange(ONE // 10),
            debt_value=ONE + random.randrange(ONE // 10, ONE // 5),
            assets=assets * ONE,
            debts=assets * random.randrange(10, 90) // 100 * ONE,
        )
