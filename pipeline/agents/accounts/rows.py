"""The rows of `accounts`: the last versions of accounts that belong to a wallet."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.accounts import StoredAccount
from schemas.protocols.contract import Kind
from schemas.rows import Row
from schemas.solana.addresses import text


def row(
    address: bytes, kind: Kind, account: StoredAccount, data: bytes, found_by: Sequence[bytes]
) -> Row:
    """Return the row of an account; written again it is the same."""
    finders = [text(finder) for finder in found_by]
    program = text(account.program)
    return text(address), kind.name, program, finders, account.lamports, data, account.slot, 0


def gone_row(address: bytes, slot: int) -> Row:
    """Return the row of an account that belongs to no wallet any more, as of a slot."""
    return text(address), "", "", [], 0, b"", slot, 1
