"""What the books know of an account, from its stored form or from the lane."""

from __future__ import annotations

from typing import Final, NamedTuple

from schemas.accounts import StoredAccount, unpack
from schemas.protocols.contract import Kind
from schemas.protocols.registry import KINDS, kind_of

NAMED: Final = frozenset(
    program
    for program, kinds in KINDS.items()
    if any(kind.wallets or kind.has_mints for kind in kinds)
)
"""Programs with accounts that wallets or mints find."""


class Known(NamedTuple):
    """The last version of an account, without its data."""

    slot: int
    program: bytes = b""
    closed: bool = False
    found_by: tuple[bytes, ...] = ()
    has_row: bool = False  # in ClickHouse, `accounts`
    is_here: bool = True  # False: Redis does not have it


ABSENT: Final = Known(-1, is_here=False)
PUT_AWAY: Final = Known(-1, is_here=False, has_row=True)
"""An account that Redis does not have, and ClickHouse may."""


def has_row(kind: Kind | None) -> bool:
    """Return whether ClickHouse keeps accounts of a kind: those that belong to a wallet."""
    return kind is not None and bool(kind.wallets)


def known(address: bytes, stored: bytes) -> Known:
    """Return what a stored account says; raises BadAccount."""
    account = unpack(stored)
    kind = kind_of_stored(address, account)
    found_by = () if kind is None else tuple(kind.found_by(account.data()))
    return Known(account.slot, account.program, account.closed, found_by, has_row(kind))


def kind_of_stored(address: bytes, account: StoredAccount) -> Kind | None:
    """Return the kind of a stored account, None where nothing finds it; raises BadAccount."""
    if account.closed or account.program not in NAMED:
        return None
    return kind_of(address, account.program, account.data())
