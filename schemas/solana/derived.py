"""Addresses that a program derives from seeds; they are on no curve, so that no key signs them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from solders.pubkey import Pubkey

_CACHED: Final = 1 << 17  # some 350 bytes each; a wallet's positions ask for the same again


def derive(program: bytes, *seeds: bytes) -> bytes:
    """Return the address of the highest bump that leads off the curve, searched for by hashing."""
    return bytes(Pubkey.find_program_address(list(seeds), Pubkey(program))[0])


@lru_cache(_CACHED)
def derived(program: bytes, *seeds: bytes) -> bytes:
    """Return what `derive` does, of addresses that are asked for again."""
    return derive(program, *seeds)
