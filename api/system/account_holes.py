"""What the lane of accounts lacks for now, in words: changes that are asked for, slots it lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from schemas.account_reading import floor_question
from schemas.redis_keys import account_tags

LASTS_SLOTS: Final = 150  # a minute of the chain: a hole is mended sooner where RPC answers
LOST_FOR_SLOTS: Final = 9_000  # an hour: until then who was covered may not be asked for again


def questions() -> list[tuple[Any, ...]]:
    """Return what to ask Redis: of each partition where it was lost, and where a hole begins."""
    return [floor_question(tag) for tag in account_tags()]


def reasons(floors: Sequence[Sequence[bytes | None]], head_slot: int | None) -> Iterator[str]:
    """Yield what is wrong by the answers to `questions`, as of the newest slot."""
    if head_slot is None:
        return
    holes = [int(floor[1]) for floor in floors if floor[1] is not None]
    if holes and head_slot - min(holes) > LASTS_SLOTS:
        yield (
            f"accounts that changed since slot {min(holes)} are still being asked for: until RPC "
            "answers, no holdings and positions are complete"
        )
    lost = [int(floor[0]) for floor in floors if floor[0] is not None]
    if lost and head_slot - max(lost) < LOST_FOR_SLOTS:
        yield (
            f"accounts lost slots before {max(lost)}: what was complete is asked for again, and is "
            "complete once it was"
        )
