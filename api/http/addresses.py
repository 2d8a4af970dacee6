"""Addresses in paths and bodies: base58 of 32 bytes, or 422 with the reason."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field, WithJsonSchema

from schemas.solana.addresses import check

_SCHEMA: Final = {
    "type": "string",
    "format": "solana-address",  # 32 bytes, which no pattern can say
    "pattern": "^[1-9A-HJ-NP-Za-km-z]{32,44}$",
    "minLength": 32,
    "maxLength": 44,
}
EXAMPLE_WALLET: Final = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
EXAMPLE_MINT: Final = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"

Address = Annotated[str, AfterValidator(check), WithJsonSchema(_SCHEMA)]
Mints = Annotated[list[Address], Field(min_length=1, max_length=100)]
