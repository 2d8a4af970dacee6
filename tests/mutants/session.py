"""A room's session: a file of Cosmic Ray's, outside of git, that a later run continues."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

from tests.mutants import trial
from tests.mutants.reach import Reach
from tests.mutants.rooms import ROOT, SESSIONS, Room
from tests.mutants.sample import Mutant, changed_lines, digest

TIMED_OUT: Final = "the run's bound"
MORE_EXAMPLES: Final = 10
"""Hypothesis tries so many more at the gate than in profile `fast`."""
NO_TESTS: Final = "no test reaches it"
_REACH: Final = Path(__file__).with_name("reach.py")


class Session:
    """The results of a room's mutants, by keys that change with the module's text."""

    def __init__(self, name: str, room: Room, root: Path = ROOT) -> None:
        self._room = room
        self._root = root
        folder = root / SESSIONS
        folder.mkdir(exist_ok=True)
        self._stem = name.replace("/", "-")
        self._reach_file = folder / f"{self._stem}-reach.json"
        self._db = WorkDB(folder / f"{self._stem}.sqlite", WorkDB.Mode.create)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def results(self) -> dict[str, WorkResult]:
        """Return the results by the mutants' keys."""
        return dict(self._db.results)

    def reach(self) -> Reach:
        """Return what the tests reach, anew if they or the room differ from the last time."""
        state = self._state()
        if self._reach_file.exists():
            known = json.loads(self._reach_file.read_text())
            if known["state"] == state:
                trial.preload(known["packages"])
                return Reach.read(known["reach"])
        reach, packages = trial.watch(self._room, self._root)
        known = {"state": state, "reach": reach.written(), "packages": packages}
        self._reach_file.write_text(json.dumps(known))
        return reach

    def add(self, mutants: Iterable[Mutant]) -> None:
        """Add those that the session does not know."""
        known = {item.job_id for item in self._db.work_items}
        self._db.add_work_items([each.item() for each in mutants if each.key not in known])

    def run(self, mutant: Mutant, reach: Reach) -> WorkResult:
        """Run the tests on a mutant, and keep what they said."""
        found = self._attempt(mutant, reach)
        self._db.set_result(mutant.key, found)
        return found

    def _attempt(self, mutant: Mutant, reach: Reach) -> WorkResult:
        source = (self._root / mutant.module).read_text(encoding="utf-8")
        tests = reach.tests_of(mutant.module, mutant.line, source)
        if not tests:
            return self._result(TestOutcome.SURVIVED, NO_TESTS, mutant)
        code = mutant.code(self._root)
        seconds = sum(reach.seconds[test] for test in tests)
        # First with few examples, which suffice for most; what survives meets the gate's.
        for profile, factor in (("fast", 1), ("gate", MORE_EXAMPLES)):
            ended = trial.attempt(mutant.module, code, tests, seconds * factor, profile, self._root)
            if ended.noticed:
                otherwise = TIMED_OUT if ended.timed_out else f"exit {ended.status}"
                return self._result(TestOutcome.KILLED, ended.said or otherwise, mutant)
        return self._result(TestOutcome.SURVIVED, "", mutant)

    def _result(self, outcome: TestOutcome, said: str, mutant: Mutant) -> WorkResult:
        diff = "\n".join(changed_lines(mutant, self._root))
        return WorkResult(WorkerOutcome.NORMAL, said, outcome, diff)

    def _state(self) -> str:
        folders = (*self._room.sources, *self._room.tests)
        files = sorted(file for each in folders for file in (self._root / each).rglob("*.py"))
        files.append(_REACH)
        return digest(*(part for file in files for part in (file, file.read_bytes())))
