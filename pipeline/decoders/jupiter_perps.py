"""Jupiter Perpetuals: JLP minted for one token of its pool and burnt for another; swaps in it.

Read from what the instruction moved. Positions, their collateral and their keepers' swaps inside
the pool are no swap of a wallet. Source: the program's IDL.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named
from pipeline.decoding.flows import exchange

POOL: Final = 5  # of every form of them

_SWAPS: Final = named(
    "add_liquidity",
    "add_liquidity2",
    "remove_liquidity",
    "remove_liquidity2",
    "swap",
    "swap2",
    "swap_with_token_ledger",
)
_IGNORED: Final = named(
    "borrow_from_custody",
    "close_borrow_position",
    "close_position_request",
    "close_position_request2",
    "close_position_request3",
    "create_and_delegate_stake_account",
    "create_decrease_position_market_request",
    "create_decrease_position_request2",
    "create_increase_position_market_request",
    "create_token_ledger",
    "create_token_metadata",
    "decrease_position4",
    "decrease_position_with_internal_swap",
    "decrease_position_with_tpsl",
    "decrease_position_with_tpsl_and_internal_swap",
    "deposit_collateral_for_borrows",
    "get_add_liquidity_amount_and_fee2",
    "get_assets_under_management2",
    "get_remove_liquidity_amount_and_fee2",
    "increase_position4",
    "increase_position_pre_swap",
    "increase_position_with_internal_swap",
    "instant_create_limit_order",
    "instant_create_tpsl",
    "instant_decrease_position",
    "instant_decrease_position2",
    "instant_increase_position",
    "instant_increase_position_pre_swap",
    "instant_update_limit_order",
    "instant_update_tpsl",
    "liquidate_borrow_position",
    "liquidate_full_position4",
    "operator_set_custody_config",
    "operator_set_pool_config",
    "partial_liquidate_borrow_position",
    "realloc_custody",
    "realloc_pool",
    "redeem_stake",
    "refresh_assets_under_management",
    "repay_to_custody",
    "set_max_global_sizes",
    "set_token_ledger",
    "unstake",
    "update_decrease_position_request2",
    "withdraw_collateral_for_borrows",
    "withdraw_fees2",
    "withdraw_stake",
)


def _swap(ix: Instruction) -> Leg | None:
    return exchange(ix.tx, ix.position, ix.tx.subtree_end(ix.position), pool=ix.address(POOL))


VENUES: Final = (
    Venue(
        dex="jupiter-perps",
        programs=("PERPHjGBqRHArX4DySjwM6UJHiR3sWAatqfdBS2qQJu",),
        handlers=dict.fromkeys(_SWAPS, _swap),
        ignored=_IGNORED,
    ),
)
