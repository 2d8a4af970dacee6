"""Mercurial: stable pools of two to four tokens; no event, a swap is its two token transfers.

After the user's the instruction lists a vault for each token, then the user's accounts.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, swap_by_authority

DEX: Final = "mercurial"
PROGRAM: Final = "MERLuDFBMmsHnsBPZw2sDQZHvXFMwp8EdjudcU2HKky"

POOL, POOL_AUTHORITY = 0, 2  # as seen on chain


def _exchange(ix: Instruction) -> Leg:
    return swap_by_authority(ix, pool=POOL, authority=POOL_AUTHORITY)


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        tag_size=1,
        handlers={bytes([4]): _exchange},
        ignored=frozenset(bytes([tag]) for tag in range(4)),  # initialise, add, remove liquidity
    ),
)
