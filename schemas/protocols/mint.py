"""Mint accounts of both token programs, and Metaplex metadata."""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import Kind, Protocol
from schemas.solana.addresses import METAPLEX_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from schemas.solana.token_extensions import MULTISIG_SIZE

_SIZE: Final = 82
_TYPE_AT: Final = 165  # of a mint with extensions: they follow a token account's length
_MINT: Final = b"\x01"

MINT: Final = Kind("mint", TOKEN_PROGRAM, size=_SIZE, group="tokens")
MINT_2022: Final = Kind("mint_2022", TOKEN_2022_PROGRAM, size=_SIZE, group="tokens")
MINT_2022_EXTENDED: Final = Kind(
    "mint_2022_extended",
    TOKEN_2022_PROGRAM,
    tag=_MINT,
    tag_at=_TYPE_AT,
    not_size=MULTISIG_SIZE,
    group="tokens",
)
METADATA: Final = Kind("metadata", METAPLEX_PROGRAM, tag=b"\x04", mints=(33,), group="tokens")

PROTOCOL: Final = Protocol("mint", (MINT, MINT_2022, MINT_2022_EXTENDED, METADATA))
