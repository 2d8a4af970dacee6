"""Token accounts, mint accounts and token metadata, as account data has them.

Sources: SPL Token `state::Account` (165 bytes) and `state::Mint` (82 bytes), which Token-2022 has
too, with its extensions behind (`schemas.solana.token_extensions`); Metaplex Token Metadata
`Metadata` (key 4, update authority, mint, three texts padded with NUL, then what they are sold by).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from schemas.solana.addresses import METAPLEX_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from schemas.solana.borsh import Reader, raw_pubkey, u32, u64
from schemas.solana.derived import derive
from schemas.solana.token_extensions import (
    AccountExtensions,
    BadAccount,
    Metadata,
    MintExtensions,
    account_extensions,
    mint_extensions,
    read_texts,
)

__all__ = ["BadAccount", "Metadata"]  # and all that is defined here

MINT_SIZE: Final = 82
_SUPPLY_AT: Final = 36
_DECIMALS_AT: Final = 44
_INITIALIZED_AT: Final = 45
_FREEZE_AUTHORITY_AT: Final = 46

ACCOUNT_SIZE: Final = 165
_OWNER_AT: Final = 32
_AMOUNT_AT: Final = 64
_DELEGATE_AT: Final = 72
_STATE_AT: Final = 108
_NATIVE_AT: Final = 109
_DELEGATED_AT: Final = 121
_CLOSE_AUTHORITY_AT: Final = 129
_STATES: Final = (1, 2)
_FROZEN: Final = 2

_METADATA_V1: Final = 4
_UPDATE_AUTHORITY_AT: Final = 1
_MINT_AT: Final = 33
_TEXT_AT: Final = 1 + 32 + 32


@dataclass(frozen=True, slots=True)
class TokenAccountState:
    """What a token account holds, its owner, and its delegate."""

    mint: bytes
    owner: bytes
    amount_raw: int
    is_frozen: bool
    delegate: bytes | None
    delegated_raw: int  # how much of the amount the delegate may move
    native_reserve_lamports: int | None  # of wrapped SOL; None: it is of another mint
    close_authority: bytes | None  # None: its owner
    extensions: AccountExtensions


@dataclass(frozen=True, slots=True)
class MintAccount:
    """A mint; `metadata` if it carries its own."""

    decimals: int
    supply_raw: int
    metadata: Metadata | None
    mint_authority: bytes | None = None  # None: the supply is fixed
    freeze_authority: bytes | None = None  # None: no account can be frozen
    extensions: MintExtensions | None = None  # None: a mint without


@dataclass(frozen=True, slots=True)
class Creator:
    """A creator that Metaplex metadata names."""

    address: bytes
    is_verified: bool  # the creator has signed
    share_percent: int


@dataclass(frozen=True, slots=True)
class MetaplexMetadata:
    """A Metaplex metadata account."""

    update_authority: bytes
    mint: bytes
    texts: Metadata
    seller_fee_bps: int
    creators: tuple[Creator, ...]
    is_primary_sale_over: bool
    is_mutable: bool


def metadata_address(mint: bytes) -> bytes:
    """Return the address of a mint's Metaplex metadata account."""
    # Not kept: the pipeline asks for each new mint's once.
    return derive(METAPLEX_PROGRAM, b"metadata", METAPLEX_PROGRAM, mint)


def read_token_account(owner: bytes, data: bytes) -> TokenAccountState:
    """Return the token account in an account of a token program; raises BadAccount."""
    _check_program(owner)
    if len(data) == ACCOUNT_SIZE:
        extensions = AccountExtensions()
    elif owner == TOKEN_PROGRAM:
        raise BadAccount(f"{len(data)} bytes are no account")
    else:
        extensions = account_extensions(data)
    if data[_STATE_AT] not in _STATES:
        raise BadAccount(f"state is {data[_STATE_AT]}, 1 is initialized and 2 frozen")
    return TokenAccountState(
        mint=raw_pubkey(data, 0),
        owner=raw_pubkey(data, _OWNER_AT),
        amount_raw=u64(data, _AMOUNT_AT),
        is_frozen=data[_STATE_AT] == _FROZEN,
        delegate=_optional_key(data, _DELEGATE_AT),
        delegated_raw=u64(data, _DELEGATED_AT),
        native_reserve_lamports=u64(data, _NATIVE_AT + 4) if _is_some(data, _NATIVE_AT) else None,
        close_authority=_optional_key(data, _CLOSE_AUTHORITY_AT),
        extensions=extensions,
    )


def read_mint(owner: bytes, data: bytes) -> MintAccount:
    """Return the mint in an account of a token program; raises BadAccount."""
    _check_program(owner)
    extensions = None if len(data) == MINT_SIZE else mint_extensions(data)
    if not data[_INITIALIZED_AT]:
        raise BadAccount("the mint is not initialized")
    own = extensions.metadata if extensions else None
    return MintAccount(
        decimals=data[_DECIMALS_AT],
        supply_raw=u64(data, _SUPPLY_AT),
        metadata=own.texts if own else None,
        mint_authority=_optional_key(data, 0),
        freeze_authority=_optional_key(data, _FREEZE_AUTHORITY_AT),
        extensions=extensions,
    )


def read_metaplex(owner: bytes, data: bytes) -> MetaplexMetadata:
    """Return the metadata in a Metaplex account; raises BadAccount."""
    if owner != METAPLEX_PROGRAM:
        raise BadAccount("its owner is not Metaplex Token Metadata")
    if not data or data[0] != _METADATA_V1:
        raise BadAccount("no metadata account, by its key")
    reader = Reader(data, _TEXT_AT)
    try:
        return MetaplexMetadata(
            update_authority=raw_pubkey(data, _UPDATE_AUTHORITY_AT),
            mint=raw_pubkey(data, _MINT_AT),
            texts=read_texts(reader),
            seller_fee_bps=reader.u16(),
            creators=_creators(reader) if reader.flag() else (),
            is_primary_sale_over=reader.flag(),
            is_mutable=reader.flag(),
        )
    except struct.error as error:
        raise BadAccount(f"metadata is cut short: {error}") from None


def read_metadata(mint: bytes, owner: bytes, data: bytes) -> Metadata:
    """Return what a Metaplex account calls its mint; raises BadAccount."""
    found = read_metaplex(owner, data)
    if found.mint != mint:
        raise BadAccount("metadata of another mint")
    return found.texts


def _check_program(owner: bytes) -> None:
    if owner not in (TOKEN_PROGRAM, TOKEN_2022_PROGRAM):
        raise BadAccount("its owner is no token program")


def _is_some(data: bytes, at: int) -> bool:
    return u32(data, at) == 1


def _optional_key(data: bytes, at: int) -> bytes | None:
    return raw_pubkey(data, at + 4) if _is_some(data, at) else None


def _creators(reader: Reader) -> tuple[Creator, ...]:
    return tuple(
        Creator(reader.raw_pubkey(), reader.flag(), reader.u8()) for _ in range(reader.u32())
    )
