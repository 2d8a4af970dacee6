"""Addresses that a program derives from seeds; they are on no curve, so that no key signs them.

Source: Solana's `Pubkey::find_program_address`.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import Final

_MARKER: Final = b"ProgramDerivedAddress"
_P: Final = 2**255 - 19
_D: Final = -121665 * pow(121666, -1, _P) % _P


@lru_cache(maxsize=65_536)
def derived(program: bytes, *seeds: bytes) -> bytes:
    """Return the address of the highest bump; raises ValueError where no bump gives one."""
    for bump in range(255, -1, -1):
        found = sha256(b"".join(seeds) + bytes([bump]) + program + _MARKER).digest()
        if not _is_on_curve(found):
            return found
    raise ValueError("no bump leads off the curve")


def _is_on_curve(point: bytes) -> bool:
    """Return whether 32 bytes are the y of a point of ed25519: x² = (y² - 1) / (d y² + 1)."""
    squared = (int.from_bytes(point, "little") % 2**255) ** 2
    return pow((squared - 1) * (_D * squared + 1) % _P, (_P - 1) // 2, _P) <= 1
