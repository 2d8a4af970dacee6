"""From a venue's facts to perp events: the fact, and where in the chain it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from pipeline.decoding.contract import Fact, FundingPaid, PositionChanged, Unread, Venue
from pipeline.solana.transaction import Transaction
from schemas.events import FundingPayment, PerpChange, PerpEvent, PerpGap
from schemas.solana.addresses import text

_FUNDING: Final = tuple(each.name for each in fields(FundingPaid))
_CHANGE: Final = tuple(each.name for each in fields(PositionChanged))
_funding: Final = attrgetter(*_FUNDING)
_change: Final = attrgetter(*_CHANGE)


def perp_events(
    tx: Transaction, position: int, venue: Venue, facts: Iterable[Fact]
) -> Iterator[PerpEvent]:
    """Yield the perp events of one instruction's facts, in their order."""
    for fact in facts:
        if isinstance(fact, FundingPaid):
            yield FundingPayment(
                **_place(tx, position, venue), **dict(zip(_FUNDING, _funding(fact), strict=True))
            )
        elif isinstance(fact, PositionChanged):
            yield PerpChange(
                **_place(tx, position, venue), **dict(zip(_CHANGE, _change(fact), strict=True))
            )
        elif isinstance(fact, Unread):
            for wallet in fact.wallets or ("",):
                yield PerpGap(
                    tx.signature,
                    tx.slot,
                    tx.index,
                    position,
                    tx.block_time_ms,
                    venue.dex,
                    fact.reason,
                    wallet,
                )


def _place(tx: Transaction, position: int, venue: Venue) -> dict[str, Any]:
    return {
        "signature": tx.signature,
        "slot": tx.slot,
        "tx_index": tx.index,
        "event_index": position,
        "block_time_ms": tx.block_time_ms,
        "dex": venue.dex,
        "program_id": text(tx.program(position)),
    }
