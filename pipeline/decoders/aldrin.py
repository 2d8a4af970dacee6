"""Aldrin's pools, v1 and v2 (stable curve): no event, a swap is its two token transfers.

Accounts 0 pool, 1 pool authority, 2 pool mint, 3/4 vaults of base and quote, 5 fee account,
6 user, 7/8 user accounts, as seen on chain. The owner's fee is minted as pool tokens.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults


def _swap(ix: Instruction) -> Leg:
    return swap_by_vaults(ix, pool=0, vaults=(3, 4), user=6)


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
