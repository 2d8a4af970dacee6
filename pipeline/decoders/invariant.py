"""Invariant: concentrated liquidity; no event, a swap is its two token transfers.

Source: invariant-labs/protocol programs/invariant/src/instructions/swap.rs.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults

DEX: Final = "invariant"
PROGRAM: Final = "HyaB3W9q6XdA5xwpU4XnSZV94htfmbmqJXZcEbRaJutt"

POOL, RESERVE_X, RESERVE_Y, OWNER = 1, 5, 6, 7


def _swap(ix: Instruction) -> Leg:
    return swap_by_vaults(ix, pool=POOL, vaults=(RESERVE_X, RESERVE_Y), user=OWNER)


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={bytes.fromhex("f8c69e91e17587c8"): _swap},
        ignored=named(
            "change_fee_receiver",
            "change_protocol_fee",
            "claim_fee",
            "create_fee_tier",
            "create_pool",
            "create_position",
            "create_position_list",
            "create_state",
            "create_tick",
            "initialize_oracle",
            "remove_position",
            "transfer_position_ownership",
            "update_seconds_per_liquidity",
            "withdraw_protocol_fee",
        ),
    ),
)
