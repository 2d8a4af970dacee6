"""Decimals of the mints that a position names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from schemas.protocols.contract import Account
from schemas.solana.token_accounts import BadAccount, read_mint

_CACHED_MINTS: Final = 1 << 11
_MOST_BYTES: Final = 1 << 11  # of a mint that is kept: its extensions may be large


def decimals_of(mints: Iterable[bytes], found: Mapping[bytes, Account]) -> dict[bytes, int]:
    """Return the decimals by mint of those mints whose accounts are found and readable."""
    decimals: dict[bytes, int] = {}
    for mint in mints:
        if account := found.get(mint):
            try:
                read = _cached if len(account.data) <= _MOST_BYTES else _decimals
                decimals[mint] = read(account.kind.program, account.data)
            except BadAccount:
                continue
    return decimals


def _decimals(program: bytes, data: bytes) -> int:
    return read_mint(program, data).decimals


_cached: Final = lru_cache(_CACHED_MINTS)(_decimals)


def whole_ratio(base: bytes, quote: bytes, decimals: Mapping[bytes, int]) -> int | None:
    """Return the power of ten from a price of raw amounts to one of whole tokens, None unknown."""
    if base not in decimals or quote not in decimals:
        return None
    return decimals[base] - decimals[quote]
