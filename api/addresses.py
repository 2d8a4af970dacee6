"""Addresses in paths and bodies: base58 of 32 bytes, or 422 with the reason."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path
from pydantic import AfterValidator, Field, WithJsonSchema

from schemas import base58

_LENGTH: Final = 32
_SCHEMA: Final = {
    "type": "string",
    "format": "solana-address",  # 32 bytes, which no pattern can say
    "pattern": "^[1-9A-HJ-NP-Za-km-z]{32,44}$",
    "minLength": 32,
    "maxLength": 44,
}
EXAMPLE_WALLET: Final = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
EXAMPLE_MINT: Final = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


class NoAddress(ValueError):  # noqa: N818 - says what is the case
    """A text is no address; the message says why, and repeats no more of it than a character."""


def check(text: str) -> str:
    """Return an address; raises NoAddress."""
    if not 32 <= len(text) <= 44:
        raise NoAddress(f"an address has 32 to 44 base58 characters, this has {len(text)}")
    try:
        data = base58.decode(text)
    except ValueError as reason:
        raise NoAddress(str(reason)) from None
    if len(data) != _LENGTH:
        raise NoAddress(f"an address is 32 bytes, this is {len(data)}")
    return text


Address = Annotated[str, AfterValidator(check), WithJsonSchema(_SCHEMA)]
Wallet = Annotated[
    Address, Path(description="Address of a wallet, base58", examples=[EXAMPLE_WALLET])
]
Mint = Annotated[
    Address, Path(description="Address of a token's mint, base58", examples=[EXAMPLE_MINT])
]
Mints = Annotated[list[Address], Field(min_length=1, max_length=100)]
