"""Token accounts and mints, as RPC reads them: the base fields that both token programs share.

Sources: SPL Token `state::{Account, Mint, Multisig}`; Token-2022 puts a type byte behind the length
of a token account, in mints too, and extensions behind it.
"""

from __future__ import annotations

from typing import Final

from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, key

TOKEN_PROGRAMS: Final = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})
NATIVE_MINT: Final = key("So11111111111111111111111111111111111111112")
NATIVE_DECIMALS: Final = 9
ACCOUNT_SIZE: Final = 165
MINT_SIZE: Final = 82

_MULTISIG_SIZE: Final = 355
_STATE_AT: Final = 108
_MINT_IS_INITIALIZED_AT: Final = 45
_MINT_TYPE, _ACCOUNT_TYPE = 1, 2


def is_token_account(program: bytes, data: bytes) -> bool:
    """Return True for an initialized token account of a token program."""
    if program not in TOKEN_PROGRAMS:
        return False
    size = len(data)
    if size < ACCOUNT_SIZE or not data[_STATE_AT]:
        return False
    if size == ACCOUNT_SIZE:
        return True
    return (
        program == TOKEN_2022_PROGRAM
        and size != _MULTISIG_SIZE
        and data[ACCOUNT_SIZE] == _ACCOUNT_TYPE
    )


def is_mint(program: bytes, data: bytes) -> bool:
    """Return True for an initialized mint of a token program."""
    if program not in TOKEN_PROGRAMS:
        return False
    size = len(data)
    if size < MINT_SIZE or not data[_MINT_IS_INITIALIZED_AT]:
        return False
    if size == MINT_SIZE:
        return True
    return (
        program == TOKEN_2022_PROGRAM
        and size > ACCOUNT_SIZE
        and size != _MULTISIG_SIZE
        and data[ACCOUNT_SIZE] == _MINT_TYPE
    )


def token_mint(data: bytes) -> bytes:
    """Return the mint of a token account's data."""
    return data[:32]


def token_owner(data: bytes) -> bytes:
    """Return the wallet that a token account's data names as its owner."""
    return data[32:64]


def token_amount_raw(data: bytes) -> int:
    """Return the balance in a token account's data."""
    return int.from_bytes(data[64:72], "little")


def mint_supply_raw(data: bytes) -> int:
    """Return the supply in a mint's data."""
    return int.from_bytes(data[36:44], "little")


def mint_decimals(data: bytes) -> int:
    """Return the decimals in a mint's data."""
    return data[44]
