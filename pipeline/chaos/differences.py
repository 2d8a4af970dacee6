"""What is not as it should be: all of it counted, the first of each kind kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

KEPT: Final = 20  # examples of each kind

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class Difference:
    """One thing that is not as it should be."""

    kind: str
    key: str
    expected: str
    found: str


@dataclass(slots=True)
class Differences:
    """All of them, counted; what was compared is counted too, so that nothing passes unseen."""

    counts: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    examples: list[Difference] = field(default_factory=list)
    unknowable: frozenset[object] = frozenset()  # keys, or parts of one, that rest on a torn slot
    excused: int = 0  # differences at such keys

    @property
    def total(self) -> int:
        """How many there are."""
        return self.counts.total()

    def add(self, kind: str, key: object, expected: object, found: object) -> None:
        """Note one."""
        self.counts[kind] += 1
        if self.counts[kind] <= KEPT:
            shown = (str(key)[:300], str(expected)[:600], str(found)[:600])
            self.examples.append(Difference(kind, *shown))

    def take(self, other: Differences) -> None:
        """Add what another comparison found."""
        self.counts += other.counts
        self.compared += other.compared
        self.examples += other.examples
        self.excused += other.excused

    def maps(self, kind: str, expected: Mapping[K, V], found: Mapping[K, V]) -> None:
        """Compare entry by entry; of entries that are maps, report only what differs."""
        self.compared[kind] += len(expected)
        for key in expected.keys() | found.keys():
            wanted, got = expected.get(key), found.get(key)
            if wanted == got:
                continue
            if not self.unknowable.isdisjoint(key if isinstance(key, tuple) else (key,)):
                self.excused += 1
                continue
            if isinstance(wanted, dict) and isinstance(got, dict):
                names = [n for n in wanted.keys() | got.keys() if wanted.get(n) != got.get(n)]
                self.add(
                    kind,
                    key,
                    {name: wanted.get(name) for name in sorted(names)},
                    {name: got.get(name) for name in sorted(names)},
                )
            else:
                self.add(kind, key, wanted, got)
