"""Accounts that were opened: pools, banks and mints that positions of many wallets refer to.

Each request reads what is stored; where that is the same bytes as before, slot and all, it is the
same account, and neither unpacked nor recognized again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from schemas.accounts import BadAccount, unpack
from schemas.protocols.contract import Account
from schemas.protocols.registry import kind_of

KEPT_BYTES: Final = 1 << 25
MOST_BYTES: Final = 1 << 14
"""Of the data of an account that is kept: arrays of ticks and bins have ten thousand."""

_OBJECTS_BYTES: Final = 500  # of an account, beside its data and what is stored
_NOTHING: Final = (b"", None)
_Opened = tuple[bytes, Account | None]  # what is stored, and what it is


class OpenedAccounts:
    """The accounts that a process has opened last; evicts the oldest insertion."""

    def __init__(self, kept_bytes: int = KEPT_BYTES, most_bytes: int = MOST_BYTES) -> None:
        """Keep accounts with data of `most_bytes` each at most, of `kept_bytes` together."""
        # The first of a plain dict is found behind the places of all that were evicted before.
        self._kept: OrderedDict[bytes, _Opened] = OrderedDict()
        self._left_bytes = kept_bytes
        self._most_bytes = most_bytes

    def of_tokens(self, addresses: Iterable[bytes]) -> list[bytes]:
        """Return those at which a token account or mint was when they were last opened."""
        kept = self._kept
        return [
            address
            for address in addresses
            if (one := kept.get(address)) is not None
            and (account := one[1]) is not None
            and account.kind.group == "tokens"
        ]

    def all_of(self, stored: Iterable[tuple[bytes, bytes | None]]) -> dict[bytes, Account]:
        """Return the accounts that are stored at addresses, without what `get` has none of."""
        found = {}
        kept = self._kept
        for address, packed in stored:
            if packed is None:
                continue
            before, account = kept.get(address, _NOTHING)
            if before != packed:  # most are the same, for which `get` need not be called
                account = self.get(address, packed)
            if account is not None:
                found[address] = account
        return found

    def get(self, address: bytes, packed: bytes) -> Account | None:
        """Return the account that is stored at an address.

        None where it is closed, where its bytes are no account, or where no protocol knows it.
        """
        kept = self._kept.get(address)
        if kept is not None and kept[0] == packed:
            return kept[1]
        account = opened(address, packed)
        size = len(packed) if account is None else len(account.data)
        if size <= self._most_bytes:
            self._put(address, (packed, account))
        return account

    def _put(self, address: bytes, new: _Opened) -> None:
        kept = self._kept
        if (before := kept.pop(address, None)) is not None:
            self._left_bytes += _bytes_of(before)
        kept[address] = new
        self._left_bytes -= _bytes_of(new)
        while self._left_bytes < 0:
            self._left_bytes += _bytes_of(kept.popitem(last=False)[1])


def _bytes_of(opened: _Opened) -> int:
    packed, account = opened
    return _OBJECTS_BYTES + len(packed) + (0 if account is None else len(account.data))


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
