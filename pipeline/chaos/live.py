"""The public topics: each settled swap must be in them, at least once."""

from __future__ import annotations

from typing import Any, Final

from infra.kafka import topics
from infra.settings import Settings
from pipeline.chaos.differences import Differences
from pipeline.chaos.truth import Slot
from schemas.proto.tape_pb2 import Creation, Swap
from schemas.topics import CREATIONS, SWAPS

_MESSAGES: Final = ((SWAPS, Swap), (CREATIONS, Creation))


async def missing_live(settings: Settings, slots: list[Slot], found: Differences) -> None:
    """Note the events of these slots that the public topics do not have."""
    wanted = {
        SWAPS.name: {
            (swap["signature"], swap["event_index"], slot.slot)
            for slot in slots
            for tx in slot.transactions
            for swap in tx.swaps
        },
        CREATIONS.name: {
            (creation["signature"], creation["event_index"], slot.slot)
            for slot in slots
            for tx in slot.transactions
            for creation in tx.creations
        },
    }
    for topic, message in _MESSAGES:
        published: set[tuple[str, int, int]] = set()
        async for record in topics.records_so_far(settings, topic):
            event: Any = message.FromString(record.value)
            published.add((event.signature, event.event_index, event.slot))
        found.compared[topic.name] += len(wanted[topic.name])
        for event in wanted[topic.name] - published:
            found.add(topic.name, event, "at least once", "never")
