"""Aldrin's pools, v1 and v2 (stable curve): no event, a swap is its two token transfers.

The owner's fee is minted as pool tokens.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults

# Accounts of a swap, as seen on chain.
POOL, BASE_VAULT, QUOTE_VAULT, USER = 0, 3, 4, 6


def _swap(ix: Instruction) -> Leg:
    return swap_by_vaults(ix, pool=POOL, vaults=(BASE_VAULT, QUOTE_VAULT), user=USER)


def _venue(dex: str, program: str) -> Venue:
    return Venue(
        dex=dex,
        programs=(program,),
        handlers={bytes.fromhex("f8c69e91e17587c8"): _swap},
        ignored=named("create_basket", "redeem_basket"),
    )


VENUES: Final = (
    _venue("aldrin", "AMM55ShdkoGRB5jVYPjWziwk8m5MpwyDgsMWHaMSQWH6"),
    _venue("aldrin-v2", "CURVGoZn8zycx6FXwwevgBTB2gVvdbGTEpvMJDbgs2t4"),
)
