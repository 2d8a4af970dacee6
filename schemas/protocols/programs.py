"""The numbers that stored accounts know their programs by: never changed, never used again."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final

from schemas.solana.addresses import key

ADDRESSES: Final[dict[int, bytes]] = {
    int(number): key(address)
    for number, address in tomllib.loads(
        files("schemas.protocols").joinpath("programs.toml").read_text()
    ).items()
}
NUMBERS: Final[dict[bytes, int]] = {address: number for number, address in ADDRESSES.items()}

OTHER_NUMBER: Final = (1 << 16) - 1
OTHER: Final = b"\xff" * 32
"""What a wallet's own account is stored with where its program, which may be any, has no number."""


def numbered(program: bytes) -> bytes:
    """Return a program that has a number; OTHER for one without."""
    return program if program in NUMBERS else OTHER
