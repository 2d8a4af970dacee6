"""OpenBook v2: an order book; a taker's order settles at once, by its two token transfers.

Source: openbook-v2 idl/openbook_v2.json. Fees are in the quote's transfer. Not decoded, and
counted as unknown: orders placed on an open-orders account, whose fills settle later.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults

DEX: Final = "openbook-v2"
PROGRAM: Final = "opnb2LAfJYbRMAHHvqjCwQxanZn7ReEHp1k81EohpZb"

SIGNER, MARKET, MARKET_BASE_VAULT, MARKET_QUOTE_VAULT = 0, 2, 6, 7


def _place_take_order(ix: Instruction) -> Leg | None:
    transfers = ix.transfers()
    if not transfers:
        return None  # the order met no other
    vaults = MARKET_BASE_VAULT, MARKET_QUOTE_VAULT
    return swap_by_vaults(ix, pool=MARKET, vaults=vaults, user=SIGNER, transfers=transfers)


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={bytes.fromhex("032c47031ac7cb55"): _place_take_order},
        ignored=named(
            "cancel_all_orders",
            "cancel_order",
            "cancel_order_by_client_order_id",
            "close_market",
            "close_open_orders_account",
            "close_open_orders_indexer",
            "consume_events",
            "consume_given_events",
            "create_market",
            "create_open_orders_account",
            "create_open_orders_indexer",
            "deposit",
            "prune_orders",
            "refill",
            "set_delegate",
            "set_market_expired",
            "settle_funds",
            "settle_funds_expired",
            "stub_oracle_close",
            "stub_oracle_create",
            "stub_oracle_set",
            "sweep_fees",
        ),
    ),
)
