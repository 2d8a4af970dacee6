"""Decimals of the mints that a position names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from schemas.protocols.contract import Account
from schemas.solana.token_accounts import BadAccount, read_mint


def decimals_of(mints: Iterable[bytes], found: Mapping[bytes, Account]) -> dict[bytes, int]:
    """Return the decimals by mint of those mints whose accounts are found and readable."""
    decimals: dict[bytes, int] = {}
    for mint in mints:
        if account := found.get(mint):
            try:
                decimals[mint] = read_mint(account.kind.program, account.data).decimals
            except BadAccount:
                continue
    return decimals


def whole_ratio(base: bytes, quote: bytes, decimals: Mapping[bytes, int]) -> int | None:
    """Return the power of ten from a price of raw amounts to one of whole tokens, None unknown."""
    if base not in decimals or quote not in decimals:
        return None
    return decimals[base] - decimals[quote]
