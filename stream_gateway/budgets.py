"""How many bytes a key may have of this process: a budget for live events, one for replays.

A budget is of a key, whatever connections share it. It fills steadily, up to what a minute brings
(`schemas.plans`). Live events beyond it are dropped and their number is sent; a replay or a
snapshot waits until there is some again. It pays for what was read, be none of it wanted. What is
sent or read may go a step below zero, and counts.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from schemas.plans import MINUTE_S, Plan

_MIB: Final = 1024 * 1024


@dataclass(slots=True)
class Budget:
    """What is left to a key, in bytes."""

    live_most: float  # of a minute
    replay_most: float
    live: float = field(init=False)
    replay: float = field(init=False)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # to read what was before

    def __post_init__(self) -> None:
        self.live = self.live_most
        self.replay = self.replay_most

    @staticmethod
    def of(plan: Plan) -> Budget:
        """Return the full budget of a plan."""
        return Budget(plan.live_mib_a_minute * _MIB, plan.replay_mib_a_minute * _MIB)

    def adopt(self, plan: Plan) -> None:
        """Go by a plan from here on: what was used of the former one is used."""
        full = Budget.of(plan)
        self.live = _left(self.live, self.live_most, full.live_most)
        self.replay = _left(self.replay, self.replay_most, full.replay_most)
        self.live_most, self.replay_most = full.live_most, full.replay_most

    def fill(self, elapsed_s: float) -> None:
        """Add what a time brings."""
        share = elapsed_s / MINUTE_S
        self.live = min(self.live_most, self.live + share * self.live_most)
        self.replay = min(self.replay_most, self.replay + share * self.replay_most)

    @property
    def is_full(self) -> bool:
        """Whether nothing of it is used."""
        return self.live >= self.live_most and self.replay >= self.replay_most


class Budgets:
    """The budgets of all keys that are connected, or were within a minute."""

    def __init__(self) -> None:
        self._budgets: dict[str, Budget] = {}  # by payer
        self._filled_s: float | None = None

    def __len__(self) -> int:
        return len(self._budgets)

    def of(self, payer: str, plan: Plan) -> Budget:
        """Return the budget of a key: what it used before it connected again is used.

        The plan may have changed meanwhile. Connections of the key that are open share the change.
        """
        budget = self._budgets.get(payer)
        if budget is None:
            budget = self._budgets[payer] = Budget.of(plan)
        else:
            budget.adopt(plan)
        return budget

    def fill(self, now_s: float, connected: set[str]) -> None:
        """Add what the time since the last call brings; forget whole ones that nobody has."""
        elapsed_s = 0.0 if self._filled_s is None else now_s - self._filled_s
        self._filled_s = now_s
        for payer, budget in list(self._budgets.items()):
            budget.fill(elapsed_s)
            if budget.is_full and payer not in connected:
                del self._budgets[payer]


def _left(left: float, most: float, new_most: float) -> float:
    """Return what is left of a new plan's bytes; a smaller plan begins with no debt.

    A key that used a gigabyte under a large plan would get nothing of a small one for a quarter of
    an hour.
    """
    return max(min(left, 0.0), left + new_most - most)
