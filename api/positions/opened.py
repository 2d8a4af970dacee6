"""Accounts that were opened: pools, banks and mints that positions of many wallets refer to.

Each request reads what is stored; where that is the same bytes as before, slot and all, it is the
same account, and neither unpacked nor recognized again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from api.stores.caches import BoundedCache
from schemas.accounts import BadAccount, unpack
from schemas.protocols.contract import Account
from schemas.protocols.registry import kind_of

KEPT: Final = 1 << 11
MOST_BYTES: Final = 1 << 14
"""Of the data of an account that is kept: arrays of ticks and bins have ten thousand."""


class OpenedAccounts:
    """The accounts that a process has opened last, 32 MiB of data at most."""

    def __init__(self) -> None:
        self._cache: BoundedCache[bytes, tuple[bytes, Account | None]] = BoundedCache(KEPT)

    def of_tokens(self, addresses: Iterable[bytes]) -> list[bytes]:
        """Return those at which a token account or mint was when they were last opened."""
        kept = self._cache.kept
        return [
            address
            for address in addresses
            if (one := kept.get(address)) is not None
            and one[1] is not None
            and one[1].kind.group == "tokens"
        ]

    def get(self, address: bytes, packed: bytes) -> Account | None:
        """Return the account that is stored at an address.

        None where it is closed, where its bytes are no account, or where no protocol knows it.
        """
        kept = self._cache.kept.get(address)
        if kept is not None and kept[0] == packed:
            return kept[1]
        account = opened(address, packed)
        if account is None or len(account.data) <= MOST_BYTES:
            self._cache.put(address, (packed, account))
        return account


def opened(address: bytes, packed: bytes) -> Account | None:
    """Return what is stored at an address, as `OpenedAccounts.get`."""
    try:
        stored = unpack(packed)
        if stored.closed:
            return None
        data = stored.data()
    except BadAccount:
        return None
    kind = kind_of(address, stored.program, data)
    return None if kind is None else Account(address, kind, stored.lamports, data, stored.slot)
