"""What a settled group brings: its work on one partition, between the log and the stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from schemas.proto.tape_pb2 import SlotBatch


@dataclass(slots=True)
class Writes:
    """What one partition wants written: absolute values, harmless when written twice."""

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    """ClickHouse table -> rows, values in the order of `schemas.rows`."""
    commands: list[tuple[Any, ...]] = field(default_factory=list)
    """Redis commands on keys of the partition's hash tag, e.g. ("HSET", key, name, value)."""
    evicted: int = 0
    """How much was put away to make room: wallets, or markets."""


class Books(Protocol):
    """One group's work on one partition.

    The frame calls one method at a time. Neither `take` nor `written` comes between a `load` and
    the last `apply` of what it loaded, so what `load` found in memory is there in `apply`.

    `load` and `apply` raise CodecError for a batch whose content is malformed: it is put
    aside and recorded as a gap, and the books are opened again and continue without it: the parent
    of the next batch is a slot that `apply` did not get. Whatever else `apply` raises is a bug, and
    ends the process before anything of the slot is written.
    `load` may raise RedisError or ClickHouseError: it is called again when the store is back.

    Books that have something to do by the clock may have `async def tick(self) -> None`: called
    about once a second, never during one of the others; what it changes the next `take` returns.

    Books that can do with less in Redis may have `async def evict(self, slot: int) -> Writes |
    None`: called when Redis is full and refuses what was taken, never during one of the others.
    It returns what puts state away that is there, as it is at the watermark of that slot, and that
    nothing unwritten concerns; None where there is none. From then on it must not be in memory.

    Books that can go on without a wallet or mint have `quarantine: Quarantine`, whose commands
    `take` returns among the others.
    """

    async def load(self, batches: Sequence[SlotBatch]) -> None:
        """Read what `apply` will need of these batches, one at least, and is not in memory.

        Called again before any of them is applied, it is the last call that counts.
        """

    def apply(self, batch: SlotBatch) -> None:
        """Do the work of one slot, in memory: slots come ascending, each once."""

    def take(self) -> Writes:
        """Return what changed since the last take; `apply` goes on while it is written."""

    def written(self) -> None:
        """Hear that the last take is in the stores: its entries may be forgotten now."""


Open = Callable[[int], Awaitable[Books]]
"""Opens the books of a partition as the stores have them, which is at their watermark."""
