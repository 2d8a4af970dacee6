"""Mint accounts and token metadata, as account data has them.

Sources: SPL Token `state::Mint` (82 bytes); Token-2022's extensions, which follow the length of a
token account and a type byte (`extension/mod.rs`), the metadata one of them; Metaplex Token
Metadata `Metadata` (key 4, update authority, mint, then three texts padded with NUL).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from solders.pubkey import Pubkey

from schemas.solana.addresses import METAPLEX_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from schemas.solana.borsh import Reader, u16, u64

_MINT_SIZE: Final = 82
_SUPPLY_AT: Final = 36
_DECIMALS_AT: Final = 44
_INITIALIZED_AT: Final = 45
_TYPE_AT: Final = 165
_MINT_TYPE: Final = 1
_TOKEN_METADATA: Final = 19
_METADATA_V1: Final = 4
_TEXT_AT: Final = 1 + 32 + 32
_METAPLEX: Final = Pubkey(METAPLEX_PROGRAM)


class BadAccount(ValueError):
    """An account's data is not what its owner and address say; the text tells what is wrong."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a token is called."""

    name: str
    symbol: str
    uri: str


@dataclass(frozen=True, slots=True)
class MintAccount:
    """A mint; `metadata` if it carries its own."""

    decimals: int
    supply_raw: int
    metadata: Metadata | None


def metadata_address(mint: bytes) -> bytes:
    """Return the address of a mint's Metaplex metadata account."""
    seeds = [b"metadata", METAPLEX_PROGRAM, mint]
    return bytes(Pubkey.find_program_address(seeds, _METAPLEX)[0])


def read_mint(owner: bytes, data: bytes) -> MintAccount:
    """Return the mint in an account of a token program; raises BadAccount."""
    if owner not in (TOKEN_PROGRAM, TOKEN_2022_PROGRAM):
        raise BadAccount("its owner is no token program")
    is_plain = len(data) == _MINT_SIZE
    if not is_plain and (len(data) <= _TYPE_AT or data[_TYPE_AT] != _MINT_TYPE):
        raise BadAccount(f"{len(data)} bytes are no mint")
    if not data[_INITIALIZED_AT]:
        raise BadAccount("the mint is not initialized")
    metadata = None if is_plain else _own_metadata(data)
    return MintAccount(data[_DECIMALS_AT], u64(data, _SUPPLY_AT), metadata)


def read_metadata(mint: bytes, owner: bytes, data: bytes) -> Metadata:
    """Return the metadata in a Metaplex account of a mint; raises BadAccount."""
    if owner != METAPLEX_PROGRAM:
        raise BadAccount("its owner is not Metaplex Token Metadata")
    if not data or data[0] != _METADATA_V1:
        raise BadAccount("no metadata account, by its key")
    if data[33:65] != mint:
        raise BadAccount("metadata of another mint")
    return _texts(data, _TEXT_AT)


def _own_metadata(data: bytes) -> Metadata | None:
    at = _TYPE_AT + 1
    while at + 4 <= len(data):
        kind, size = u16(data, at), u16(data, at + 2)
        at += 4
        if kind == 0:  # nothing follows
            return None
        if at + size > len(data):
            raise BadAccount(f"extension {kind} ends behind the data")
        if kind == _TOKEN_METADATA:
            return _texts(data[at : at + size], 32 + 32)
        at += size
    return None


def _texts(data: bytes, at: int) -> Metadata:
    reader = Reader(data, at)
    try:
        name, symbol, uri = (reader.string().rstrip("\0").strip() for _ in range(3))
    except struct.error as error:
        raise BadAccount(f"metadata is cut short: {error}") from None
    return Metadata(name, symbol, uri)
