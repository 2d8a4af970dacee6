"""Slots that one partition of a group continues without, and the gap that puts them on record.

A gap is identified by its slots and by the group and place that lost them. A process that is killed
after it has recorded one records the same one again, which changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from pipeline.sinks.kafka import Message
from schemas.proto.tape_pb2 import SlotGap
from schemas.topics import GAPS

LOG_LACKS: Final = "the log no longer had them"
UNREADABLE: Final = "they could not be read"


class Lost(NamedTuple):
    """Slots, first and last, and the reason in words."""

    first_slot: int
    last_slot: int
    reason: str


def because(causes: Iterable[str]) -> str:
    """Return the reason of a gap."""
    return f"lost: {' or '.join(sorted(causes))}"


def gap_message(lost: Lost, lost_by: str) -> Message:
    """Return what puts lost slots on record; `lost_by` is the group and its place."""
    gap = SlotGap(
        first_slot=lost.first_slot,
        last_slot=lost.last_slot,
        reason=lost.reason,
        detected_ms=time.time_ns() // 1_000_000,
        lost_by=lost_by,
    )
    key = str(lost.first_slot)
    return Message(GAPS.name, GAPS.partition(key), key.encode(), gap.SerializeToString())
