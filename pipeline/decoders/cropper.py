"""Cropper's pools: a fork of Orca Whirlpool with the same `swap`, and no event.

Seen in mainnet transactions (2024-07); its other instructions are those of Whirlpool then.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoders import orca_whirlpool
from pipeline.decoding.contract import Venue

DEX: Final = "cropper"
PROGRAM: Final = "H8W3ctz92svYg6mkn1UtGfu2aQr2fnUFHM1RhScEtQDt"

VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={orca_whirlpool.SWAP: orca_whirlpool.swap},
        ignored=orca_whirlpool.IGNORED,
    ),
)
