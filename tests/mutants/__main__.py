"""Mutation testing of some rooms: `make mutants`; tests/README.md says how to read it.

Ends with 1 if a room has fewer killed than `BAR`, of those that differ, or some not run.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cosmic_ray.work_item import WorkResult

from tests.mutants.rooms import ROOMS
from tests.mutants.sample import Mutant, changed_lines, sample
from tests.mutants.session import TIMED_OUT, Session

BAR: Final = 0.9
EQUAL: Final = Path(__file__).parent / "equal.toml"


class Count(NamedTuple):
    """What became of a room's sample."""

    sampled: int
    killed: int
    timed_out: int
    equal: int
    survived: int

    @property
    def not_run(self) -> int:
        """How many have no result yet."""
        return self.sampled - self.killed - self.equal - self.survived

    @property
    def passed(self) -> bool:
        """Return True if all ran and enough were killed."""
        return self.not_run == 0 and self.killed >= BAR * (self.killed + self.survived)

    def __str__(self) -> str:
        differ = self.killed + self.survived
        share = f"{100 * self.killed / differ:.1f} %" if differ else "none"
        return (
            f"{self.sampled} sampled: {self.killed} killed ({self.timed_out} of them by the bound "
            f"of a run), {self.equal} listed as equal, {self.survived} survived, "
            f"{self.not_run} not run; killed of those that differ: {share}"
        )


def listed() -> set[tuple[str, str, str, str]]:
    """Return the equal mutants: module, function, lines before, lines after."""
    entries = tomllib.loads(EQUAL.read_text(encoding="utf-8")).get("equal", [])
    return {(each["module"], each["function"], each["old"], each["new"]) for each in entries}


def main() -> int:
    """Run what the sample has no result for; report each room."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--room", choices=[*ROOMS], help="one room (default: all)")
    parser.add_argument("--sample", type=int, default=300, help="mutants a room (300)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--minutes", type=float, help="stop a room after so long; continue later")
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument("--report", action="store_true", help="run nothing")
    asked = parser.parse_args()
    passed = [_room(name, asked) for name in ([asked.room] if asked.room else ROOMS)]
    return 0 if all(passed) else 1


def _room(name: str, asked: argparse.Namespace) -> bool:
    mutants = sample(ROOMS[name].modules(), asked.sample, asked.seed)
    session = Session(name, ROOMS[name])
    try:
        if not asked.report:
            _run(name, session, mutants, asked)
        return _report(name, mutants, session.results())
    finally:
        session.close()


def _run(name: str, session: Session, mutants: Sequence[Mutant], asked: argparse.Namespace) -> None:
    session.add(mutants)
    results = session.results()
    equal = listed()
    left = [mutant for mutant in mutants if mutant.key not in results]
    if asked.again:
        survived = (each for each in mutants if each.key in results)
        left += [
            mutant
            for mutant in survived
            if not results[mutant.key].is_killed and _entry(mutant) not in equal
        ]
    if not left:
        return
    reach = session.reach()
    until = time.monotonic() + 60 * asked.minutes if asked.minutes else None
    for number, mutant in enumerate(left, 1):
        if until is not None and time.monotonic() > until:
            return
        began = time.monotonic()
        found = session.run(mutant, reach)
        took = time.monotonic() - began
        outcome = f"{'killed' if found.is_killed else 'SURVIVED'} {found.output or ''}".strip()
        print(f"{name} {number}/{len(left)} {took:.1f} s {_place(mutant)} {outcome}", flush=True)


def _report(name: str, mutants: Sequence[Mutant], results: dict[str, WorkResult]) -> bool:
    equal = listed()
    survivors = []
    killed = timed_out = same = 0
    for mutant in mutants:
        result = results.get(mutant.key)
        if result is None:
            continue
        if result.is_killed:
            killed += 1
            timed_out += result.output == TIMED_OUT
        elif _entry(mutant) in equal:
            same += 1
        else:
            survivors.append((mutant, result))
    for mutant, result in survivors:
        old, new = changed_lines(mutant)
        print(f"\n{_place(mutant)} survived {result.output}\n- {old}\n+ {new}")
    count = Count(len(mutants), killed, timed_out, same, len(survivors))
    print(f"\n{name}: {count}", flush=True)
    return count.passed


def _entry(mutant: Mutant) -> tuple[str, str, str, str]:
    return (mutant.module, mutant.spec.definition_name or "", *changed_lines(mutant))


def _place(mutant: Mutant) -> str:
    return f"{mutant.module}:{mutant.line} {mutant.spec.operator_name.partition('/')[2]}"


if __name__ == "__main__":
    sys.exit(main())
