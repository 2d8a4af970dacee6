"""Addresses: base58 text and bytes, and the ones that every part of Solana knows."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from solders.pubkey import Pubkey
from solders.signature import Signature

# Under `as` their names are this module's as well.
from schemas.money import DOLLARS as DOLLARS
from schemas.money import MONEY as MONEY
from schemas.money import SOL_DECIMALS as SOL_DECIMALS
from schemas.money import USD1 as USD1
from schemas.money import USDC as USDC
from schemas.money import USDT as USDT
from schemas.money import WSOL as WSOL


@lru_cache(maxsize=1 << 17)
def text(key: bytes) -> str:
    """Return the base58 text of a 32-byte key.

    Raises ValueError where the key is not 32 bytes long.
    """
    return str(Pubkey(key))


def key(address: str) -> bytes:
    """Return the 32 bytes of a base58 address.

    Raises ValueError where the text is no address.
    """
    return bytes(Pubkey.from_string(address))


def signature_text(signature: bytes) -> str:
    """Return the base58 text of a 64-byte signature.

    Raises ValueError where the signature is not 64 bytes long.
    """
    return str(Signature(signature))


SYSTEM_PROGRAM: Final = bytes(32)
TOKEN_PROGRAM: Final = key("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022_PROGRAM: Final = key("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")

# Precompiles: they verify signatures, cost a base fee each, and write no log line.
ED25519_PROGRAM: Final = key("Ed25519SigVerify111111111111111111111111111")
SECP256K1_PROGRAM: Final = key("KeccakSecp256k11111111111111111111111111111")
SECP256R1_PROGRAM: Final = key("Secp256r1SigVerify1111111111111111111111111")
PRECOMPILES: Final = frozenset({ED25519_PROGRAM, SECP256K1_PROGRAM, SECP256R1_PROGRAM})
