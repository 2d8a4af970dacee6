"""Phoenix v1: an order book; a taker's swap settles at once, by its two token transfers.

Source: phoenix-v1 idl/phoenix_v1.json. The market's own log (instruction 15) counts in lots
whose size is not in the transaction, so it is not read. Not decoded, and counted as unknown:
limit orders and swaps on funds deposited earlier, which may trade without moving a token.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, swap_by_vaults

DEX: Final = "phoenix"
PROGRAM: Final = "PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY"


def _swap(ix: Instruction) -> Leg | None:
    """Read a swap: 2 market, 3 trader, 4/5 trader's accounts, 6/7 vaults of base and quote."""
    transfers = ix.transfers()
    if not transfers:
        return None  # the order met no other
    return swap_by_vaults(ix, pool=2, vaults=(6, 7), user=3, transfers=transfers)


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        tag_size=1,
        handlers={bytes([0]): _swap},
        ignored=frozenset(
            bytes([tag])
            for tag in (
                4,  # ReduceOrder
                5,  # ReduceOrderWithFreeFunds
                6,  # CancelAllOrders
                7,  # CancelAllOrdersWithFreeFunds
                8,  # CancelUpTo
                9,  # CancelUpToWithFreeFunds
                10,  # CancelMultipleOrdersById
                11,  # CancelMultipleOrdersByIdWithFreeFunds
                12,  # WithdrawFunds
                13,  # DepositFunds
                14,  # RequestSeat
                15,  # Log
                16,  # PlaceMultiplePostOnlyOrders
                17,  # PlaceMultiplePostOnlyOrdersWithFreeFunds
                *range(100, 110),  # the market's authority
            )
        ),
    ),
)
