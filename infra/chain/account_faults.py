"""What providers do to account updates: some come twice, out of order, or late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from infra.chain.updates import Written


@dataclass(frozen=True, slots=True)
class AccountFaults:
    """How often what goes wrong with account updates; shares are from 0 to 1."""

    duplicates: float = 0.0  # share sent twice
    late: float = 0.0  # share that comes after other messages of its slot, before its block
    reorder: bool = False  # in any order within a slot

    def __post_init__(self) -> None:
        for name in ("duplicates", "late"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(
                    f"account {name} is a share from 0 to 1, not {getattr(self, name)}"
                )

    def __bool__(self) -> bool:
        return bool(self.duplicates or self.late or self.reorder)


class Disturbed(NamedTuple):
    """Account updates as they leave: at once, and later in their slot."""

    at_once: list[Written]
    late: list[Written]


def disturb(written: Iterable[Written], faults: AccountFaults, random: Random) -> Disturbed:
    """Return account updates with faults; none is lost."""
    out = Disturbed([], [])
    for item in written:
        copies = 2 if random.random() < faults.duplicates else 1
        for _ in range(copies):
            (out.late if random.random() < faults.late else out.at_once).append(item)
    if faults.reorder:
        random.shuffle(out.at_once)
        random.shuffle(out.late)
    return out
