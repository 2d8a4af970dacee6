"""Mercurial: stable pools of two to four tokens; no event, a swap is its two token transfers.

Accounts 0 pool, 1 token program, 2 pool authority, 3 user, then a vault for each token and the
user's accounts, as seen on chain.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, swap_by_authority

DEX: Final = "mercurial"
PROGRAM: Final = "MERLuDFBMmsHnsBPZw2sDQZHvXFMwp8EdjudcU2HKky"


def _exchange(ix: Instruction) -> Leg:
    return swap_by_authority(ix, pool=0, authority=2)


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        tag_size=1,
        handlers={bytes([4]): _exchange},
        ignored=frozenset(bytes([tag]) for tag in range(4)),  # initialise, add, remove liquidity
    ),
)
