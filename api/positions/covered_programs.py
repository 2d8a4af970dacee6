"""What partitions say of the coverage of programs, kept until one of them says that it changed.

Hardly a program changes its coverage, and an answer about a wallet rests on that of all programs
in all partitions. The agent `accounts` changes a revision beside a partition's floor in the
transaction that changes coverage of a program, so the same floor and revision mean the same
coverage. Where no agent has written a revision, all is asked for each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import is_
from typing import Any, Final

from api.stores.caches import BoundedCache
from infra.redis.pipelined import Repeated
from schemas import account_reading
from schemas.account_reading import Coverage

_ROUTES: Final = 1 << 7  # sets of programs that are asked for together, 80 kB each at most
_QUESTIONS: Final = 1 << 10  # of a partition and the programs of a route: 30 kB at most

OfPrograms = Mapping[bytes, Coverage]


@dataclass(frozen=True, slots=True)
class Known:
    """What a partition said of programs, as of a floor."""

    floor: Sequence[bytes | None]
    coverage: OfPrograms

    def get(self, floor: Sequence[bytes | None]) -> OfPrograms | None:
        """Return the coverage, None where the floor is another one by now."""
        return self.coverage if self.floor == floor else None


class CoveredPrograms:
    """What a process knows of the coverage of programs."""

    def __init__(self) -> None:
        self._known: BoundedCache[tuple[bytes, ...], dict[str, Known]] = BoundedCache(_ROUTES)
        self._since: BoundedCache[tuple[bytes, ...], tuple[Sequence[OfPrograms], OfPrograms]] = (
            BoundedCache(_ROUTES)
        )

    def known(self, programs: tuple[bytes, ...]) -> Mapping[str, Known]:
        """Return what is known of programs, by the tags of partitions."""
        return dict(self._known.kept.get(programs, ()))

    def learn(
        self,
        tag: str,
        programs: tuple[bytes, ...],
        answers: Sequence[Any],
        floor: Sequence[bytes | None],
    ) -> OfPrograms:
        """Return what a partition's answers to `questions` say; `floor` was read behind them.

        They are kept where the floor was the same before and behind them.
        """
        before, *said = answers
        coverage = account_reading.program_coverage(programs, floor, said)
        if before == floor and account_reading.has_revision(floor):
            if (by_tag := self._known.kept.get(programs)) is None:
                by_tag = {}
                self._known.put(programs, by_tag)
            by_tag[tag] = Known(floor, coverage)
        return coverage

    def since(self, programs: tuple[bytes, ...], partitions: Sequence[OfPrograms]) -> OfPrograms:
        """Return from which slot all partitions have programs, or why one has not."""
        last = self._since.kept.get(programs)
        if last is not None and all(map(is_, last[0], partitions)):
            return last[1]
        found = {
            each: account_reading.least_covered(of_one[each] for of_one in partitions)
            for each in programs
        }
        self._since.put(programs, (partitions, found))
        return found


@lru_cache(_QUESTIONS)
def questions(tag: str, programs: tuple[bytes, ...]) -> tuple[Repeated, ...]:
    """Return what to ask a partition: its floor, and behind that about each of some programs."""
    asked = account_reading.floor_question(tag), *account_reading.program_questions(tag, programs)
    return tuple(map(Repeated, asked))
