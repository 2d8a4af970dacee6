"""What the node is asked for: derived from the decoders, so a new venue needs no edit here."""

from __future__ import annotations

from typing import Final

from pipeline.decoding.hops import ROUTER_PROGRAMS
from pipeline.decoding.registry import PROGRAM_IDS
from schemas.proto.geyser_pb2 import (
    PROCESSED,
    SubscribeRequest,
    SubscribeRequestFilterBlocksMeta,
    SubscribeRequestFilterSlots,
    SubscribeRequestFilterTransactions,
    SubscribeRequestPing,
)
from schemas.solana.addresses import text

LABEL: Final = "soltape"
# Venues and keepers; and routers, for routes through pools of no venue.
SUBSCRIBED: Final = tuple(sorted({*PROGRAM_IDS, *map(text, ROUTER_PROGRAMS)}))


def subscribe_request(from_slot: int | None = None) -> SubscribeRequest:
    """Ask for the venues' transactions and every slot's fate, from a slot on or from now.

    Failed transactions are not asked for: nothing in them happened, and bots send many.
    Slots come at every status, with the interslot ones: only those report a dead slot, and which
    slots began on this connection.
    """
    return SubscribeRequest(
        transactions={
            LABEL: SubscribeRequestFilterTransactions(
                vote=False, failed=False, account_include=SUBSCRIBED
            )
        },
        slots={
            LABEL: SubscribeRequestFilterSlots(filter_by_commitment=False, interslot_updates=True)
        },
        blocks_meta={LABEL: SubscribeRequestFilterBlocksMeta()},
        commitment=PROCESSED,
        from_slot=from_slot,
    )


def ping_request() -> SubscribeRequest:
    """Keep the stream alive; a request with a ping alone leaves the filters as they are."""
    return SubscribeRequest(ping=SubscribeRequestPing(id=1))
