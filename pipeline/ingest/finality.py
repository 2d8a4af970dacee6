"""Which settled slots are final, and which of them turn out to be of a fork that was left.

A slot is settled when it is confirmed, and seldom a confirmed slot is rolled back. So the number of
a final slot says nothing of the slots below it: a settled slot is final when the node says so of
it, or of a slot whose ancestor it is by the parents we know. A settled slot between two slots of
that ancestry is of another fork: it was rolled back. Where a parent is not known, as below a gap,
nothing is concluded, and the slot waits for a word of its own. A node names final slots ascending:
once it is far above, there will be none, and the slot is a gap, for it may have been rolled back.
Nor is anything concluded from the
word on a slot that was not settled, until a final slot that was settled descends from it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

ROLLED_BACK: Final = "rolled back after it was settled"
NOT_SETTLED: Final = "final, and a slot of another fork was settled in its place"
NOT_KNOWN: Final = "not known to be final: the slots after it were lost"
AWAITED: Final = 64  # slots; a slot is final 32 blocks later


@dataclass(slots=True, frozen=True)
class Counts:
    """How much of a slot was seen."""

    transactions: int = 0
    events: int = 0
    decoded: int = 0
    unknown: int = 0
    malformed: int = 0


@dataclass(slots=True, frozen=True)
class Finalized:
    """A settled slot is final."""

    slot: int
    parent: int | None
    block_time_ms: int
    counts: Counts


@dataclass(slots=True, frozen=True)
class RolledBack:
    """A settled slot left the canonical chain after it was confirmed; its events never happened.

    `wallets` are the traders and token-account owners that its transactions touched.
    """

    slot: int
    parent: int | None
    counts: Counts
    wallets: frozenset[str]


@dataclass(slots=True, frozen=True)
class Gap:
    """Slots first..last could not be had, or only in part."""

    first: int
    last: int
    reason: str


@dataclass(slots=True, frozen=True)
class Unfinal:
    """A settled slot that is not final yet."""

    slot: int
    parent: int | None
    block_time_ms: int
    counts: Counts
    wallets: frozenset[str]


Conclusion = Finalized | RolledBack | Gap


class Finality:
    """The settled slots that are not final yet, the last `most` of them.

    `unfinal` are the last slots that an earlier process settled, ascending, and `gaps` those it
    named; `before` is the last slot it settled.
    """

    def __init__(
        self,
        most: int,
        before: int | None = None,
        unfinal: Iterable[Unfinal] = (),
        gaps: Iterable[Gap] = (),
    ) -> None:
        self._most = most
        self._before = before
        self._since: int | None = None  # the first slot settled here: before it nothing is known
        self._unfinal: OrderedDict[int, Unfinal] = OrderedDict()  # ascending
        self._early: dict[int, int | None] = {}  # final and not settled yet, with the parent
        self._known: OrderedDict[int, None] = OrderedDict()  # concluded upon, the last ones
        self._forgotten = -1  # the highest that was concluded upon and is not among them any more
        self._elsewhere: OrderedDict[int, int | None] = OrderedDict()  # final, not settled: parent
        self._named: OrderedDict[int, None] = OrderedDict()  # parents of final slots, not settled
        self._gaps: deque[Gap] = deque(gaps, maxlen=most)
        for each in unfinal:
            self._before = None
            self.settled(each)

    def __len__(self) -> int:
        return len(self._unfinal)

    def settled(self, slot: Unfinal) -> list[Conclusion]:
        """Take the slot that is settled next."""
        if self._since is None:
            self._since = slot.slot
        self._unfinal[slot.slot] = slot
        while len(self._unfinal) > self._most:
            self._know(self._unfinal.popitem(last=False)[0])
        conclusions: list[Conclusion] = []
        for each in sorted(each for each in self._early if each < slot.slot):
            conclusions += self._not_settled(each, self._early.pop(each))
        if slot.slot in self._early:
            del self._early[slot.slot]
            conclusions += self._conclude(slot.slot)
        return conclusions

    def gap(self, gap: Gap) -> None:
        """Hear of slots that are said to be lacking already."""
        self._gaps.append(gap)

    def final(self, slot: int, parent: int | None, settled: int | None) -> list[Conclusion]:
        """Take the node's word that a slot is final; `settled` is the last that was settled."""
        if (held := self._unfinal.get(slot)) is not None:
            if None not in (parent, held.parent) and parent != held.parent:
                held = replace(held, parent=None)  # another block of this slot than was settled
                self._unfinal[slot] = held
            return self._conclude(slot)
        if settled is None or slot > settled:
            self._early[slot] = parent
            if len(self._early) > self._most:
                del self._early[min(self._early)]
            return []
        return self._not_settled(slot, parent)

    def _conclude(self, slot: int) -> list[Conclusion]:
        """Conclude from a final slot upon its ancestors and what is between them."""
        path = {slot}
        lowest = slot
        while (parent := self._parent(lowest)) is not None:
            if parent not in self._unfinal and parent not in self._elsewhere:
                _keep(self._named, parent, self._most)
                break
            path.add(parent)
            lowest = parent
        # What is above the parent of the last known ancestor, and none of them, is no ancestor.
        floor = lowest if parent is None else parent + 1
        conclusions: list[Conclusion] = []
        if lowest == self._since and parent is not None and parent < (self._before or 0):
            # Slots of an earlier process, of which nothing else is known any more.
            conclusions.append(Gap(parent + 1, self._before or 0, ROLLED_BACK))
        for at in sorted(path & self._elsewhere.keys()):
            del self._elsewhere[at]
            self._know(at)
            if not any(gap.first <= at <= gap.last for gap in self._gaps):
                conclusions.append(Gap(at, at, NOT_SETTLED))
        for each in [each for at, each in self._unfinal.items() if floor <= at <= slot]:
            del self._unfinal[each.slot]
            self._know(each.slot)
            if each.slot in path:
                final = Finalized(each.slot, each.parent, each.block_time_ms, each.counts)
                conclusions.append(final)
            else:
                conclusions.append(RolledBack(each.slot, each.parent, each.counts, each.wallets))
        conclusions += self._give_up(min(floor, slot - AWAITED))
        return conclusions

    def _give_up(self, below: int) -> Iterator[Gap]:
        """Name the slots below one of which the node will say nothing more.

        One gap holds a slot and its descendants, and so no slot of which more is known.
        """
        run: Gap | None = None
        while self._unfinal and next(iter(self._unfinal)) < below:
            slot, each = self._unfinal.popitem(last=False)
            self._know(slot)
            if any(gap.first <= slot <= gap.last for gap in self._gaps):
                continue
            if run is not None and each.parent == run.last:
                run = replace(run, last=slot)
                continue
            if run is not None:
                yield run
            run = Gap(slot, slot, NOT_KNOWN)
        if run is not None:
            yield run

    def _parent(self, slot: int) -> int | None:
        held = self._unfinal.get(slot)
        parent = self._elsewhere.get(slot) if held is None else held.parent
        return parent if parent is None or parent < slot else None

    def _not_settled(self, slot: int, parent: int | None) -> list[Conclusion]:
        """Take the word on a slot that is not among the settled ones."""
        if self._since is None or slot < self._since or slot <= self._forgotten:
            return []  # a repeated status, as a restarted node sends
        if slot in self._known:
            return []
        _keep(self._elsewhere, slot, self._most, parent)
        return self._conclude(slot) if slot in self._named else []

    def _know(self, slot: int) -> None:
        self._known[slot] = None
        while len(self._known) > 2 * self._most:
            self._forgotten = max(self._forgotten, self._known.popitem(last=False)[0])


def _keep(kept: OrderedDict[int, Any], slot: int, most: int, value: Any = None) -> None:
    kept[slot] = value
    while len(kept) > most:
        kept.popitem(last=False)
