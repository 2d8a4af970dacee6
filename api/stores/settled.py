"""Progress of the agents: what a store holds is complete up to this slot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from api.stores.clients import Stores
from schemas.redis_keys import WATERMARK


class Settled(NamedTuple):
    """A slot, and the time of its block; 0 where nothing is settled yet."""

    slot: int
    time_ms: int


def watermark(group: str, tag: str) -> tuple[Any, ...]:
    """Return the command that asks how far a group has come on a partition."""
    return ("HMGET", WATERMARK.make(tag=tag, group=group), "slot", "time_ms")


def settled(answers: Iterable[Sequence[bytes | None]]) -> Settled:
    """Return how far all the partitions have come whose watermarks were asked for."""
    return min(Settled(int(slot or 0), int(time_ms or 0)) for slot, time_ms in answers)


async def read_settled(stores: Stores, group: str, tags: Sequence[str]) -> Settled:
    """Return how far a group has come on all of some partitions; raises Problem.

    Ask before the rows themselves: they are written first.
    """
    return settled(await stores.ask([watermark(group, tag) for tag in tags]))
