"""Accounts by address, and token accounts by their owner and their mint."""

from __future__ import annotations

from typing import Final

from infra.chain.source import AccountWrite
from infra.chain.token_layout import is_token_account, token_mint, token_owner

_NO_ACCOUNTS: Final[dict[bytes, AccountWrite]] = {}


class AccountIndex:
    """The last write of each address; a closing is kept only where `keeps_closed` is set."""

    def __init__(self, *, keeps_closed: bool) -> None:
        self._keeps_closed = keeps_closed
        self._accounts: dict[bytes, AccountWrite] = {}
        self._by_token_owner: dict[bytes, dict[bytes, AccountWrite]] = {}
        self._by_mint: dict[bytes, dict[bytes, AccountWrite]] = {}

    def __len__(self) -> int:
        """Return how many addresses have a write."""
        return len(self._accounts)

    def put(self, write: AccountWrite) -> None:
        """Replace what is known of the address."""
        address = write.address
        old = self._accounts.get(address)
        if old is not None and old.lamports:
            self._unlink(old)
        if not write.lamports:
            if self._keeps_closed:
                self._accounts[address] = write
            else:
                self._accounts.pop(address, None)
            return
        self._accounts[address] = write
        if is_token_account(write.owner, write.data):
            self._by_token_owner.setdefault(token_owner(write.data), {})[address] = write
            self._by_mint.setdefault(token_mint(write.data), {})[address] = write

    def get(self, address: bytes) -> AccountWrite | None:
        """Return the last write of an address; one without lamports is a closing."""
        return self._accounts.get(address)

    def writes(self) -> dict[bytes, AccountWrite]:
        """Return every write by its address, not to be changed."""
        return self._accounts

    def of_token_owner(self, wallet: bytes) -> dict[bytes, AccountWrite]:
        """Return a wallet's token accounts under both token programs, not to be changed."""
        return self._by_token_owner.get(wallet, _NO_ACCOUNTS)

    def of_mint(self, mint: bytes) -> dict[bytes, AccountWrite]:
        """Return a mint's token accounts by their addresses, not to be changed."""
        return self._by_mint.get(mint, _NO_ACCOUNTS)

    def _unlink(self, old: AccountWrite) -> None:
        if is_token_account(old.owner, old.data):
            _remove(self._by_token_owner, token_owner(old.data), old.address)
            _remove(self._by_mint, token_mint(old.data), old.address)


def _remove(index: dict[bytes, dict[bytes, AccountWrite]], key: bytes, address: bytes) -> None:
    accounts = index[key]
    del accounts[address]
    if not accounts:
        del index[key]
