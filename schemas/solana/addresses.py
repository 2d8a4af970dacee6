"""Addresses: base58 text and bytes, and the ones that every part of Solana knows."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Final

from solders.pubkey import Pubkey
from solders.signature import Signature

from schemas.solana import base58

# Every address of the chain comes by: an entry takes 300 bytes, and those that come often are few.
_CACHE_SIZE: Final = 1 << 14


@lru_cache(_CACHE_SIZE)
def text(key: bytes) -> str:
    """Return the base58 text of a 32-byte key.

    Raises ValueError where the key is not 32 bytes long.
    """
    return str(Pubkey(key))


@lru_cache(_CACHE_SIZE)
def has_private_key(address: str) -> bool:
    """Return whether an address is on the curve: one that a program signs for is not.

    Raises ValueError where the text is no address.
    """
    return Pubkey.from_string(address).is_on_curve()


@lru_cache(_CACHE_SIZE)
def key(address: str) -> bytes:
    """Return the 32 bytes of a base58 address.

    Raises ValueError where the text is no address.
    """
    return bytes(Pubkey.from_string(address))


ACCEPTED: Final = "a Solana address, 32 to 44 characters of base58"


class NoAddress(ValueError):
    """A text is not an address; the message says why, and repeats at most a character of it."""


def check(text: str) -> str:
    """Return an address that a user gave; raises NoAddress."""
    if not 32 <= len(text) <= 44:
        raise NoAddress(f"must be {ACCEPTED}")
    with suppress(ValueError):
        key(text)
        return text
    try:
        data = base58.decode(text)
    except ValueError as reason:
        raise NoAddress(f"must be {ACCEPTED} ({reason})") from None
    raise NoAddress(f"must be {ACCEPTED} and 32 bytes (this is {len(data)})")


def signature_text(signature: bytes) -> str:
    """Return the base58 text of a 64-byte signature.

    Raises ValueError where the signature is not 64 bytes long.
    """
    return str(Signature(signature))


SYSTEM_PROGRAM: Final = bytes(32)
STAKE_PROGRAM: Final = key("Stake11111111111111111111111111111111111111")
VOTE_PROGRAM: Final = key("Vote111111111111111111111111111111111111111")
SYSVAR_PROGRAM: Final = key("Sysvar1111111111111111111111111111111111111")
CLOCK: Final = key("SysvarC1ock11111111111111111111111111111111")
STAKE_HISTORY: Final = key("SysvarStakeHistory1111111111111111111111111")
TOKEN_PROGRAM: Final = key("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022_PROGRAM: Final = key("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
METAPLEX_PROGRAM: Final = key("metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s")

# Precompiles: they verify signatures, cost a base fee each, and write no log line.
ED25519_PROGRAM: Final = key("Ed25519SigVerify111111111111111111111111111")
SECP256K1_PROGRAM: Final = key("KeccakSecp256k11111111111111111111111111111")
SECP256R1_PROGRAM: Final = key("Secp256r1SigVerify1111111111111111111111111")
PRECOMPILES: Final = frozenset({ED25519_PROGRAM, SECP256K1_PROGRAM, SECP256R1_PROGRAM})
