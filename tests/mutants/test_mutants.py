"""Mutation testing itself: what is drawn, what a run says, what a report counts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants import trial
from tests.mutants.__main__ import EQUAL, Count
from tests.mutants.rooms import ROOMS, ROOT, Room
from tests.mutants.sample import Mutant, changed_lines, sample
from tests.mutants.session import NO_TESTS, Session

pytestmark = pytest.mark.processes  # a fork a mutant

COUNTING = '''"""Counts down."""

from __future__ import annotations

STEP: int | None = 1


def steps(start: int | None, *, least: int = 0) -> int:
    """Count the steps to `least`."""
    count = 0
    at = start or 0
    while at > least:
        at -= STEP
        count += 1
    return count


def unused(a: int) -> int:
    """No test calls it."""
    return a * 2
'''
TESTS = """from mutated.counting import steps


def test_steps():
    assert steps(7) == 7


def test_none():
    assert steps(None) == 0
"""
ROOM = Room(("mutated",), ("checks",))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one module."""
    for folder, name, text in (
        ("mutated", "counting.py", COUNTING),
        ("checks", "test_counting.py", TESTS),
        (".", "pytest.ini", "[pytest]\nmarkers =\n  node\n  apache\n  browser\n  slow\n"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def session(root: Path) -> Iterator[Session]:
    opened = Session("mutated", ROOM, root)
    yield opened
    opened.close()


@pytest.fixture
def mutants(root: Path) -> list[Mutant]:
    return sample(ROOM.modules(root), 100, 1, root)


def _of(mutants: list[Mutant], root: Path, old: str, new: str) -> Mutant:
    return next(each for each in mutants if changed_lines(each, root) == (old, new))


def test_a_sample_is_the_same_every_time_and_a_larger_one_contains_it(root: Path) -> None:
    few, many = (sample(ROOM.modules(root), size, 7, root) for size in (3, 6))
    assert [each.key for each in few] == [each.key for each in many][:3]
    assert few != sample(ROOM.modules(root), 3, 8, root)


def test_a_place_has_one_mutant(mutants: list[Mutant]) -> None:
    places = [(each.module, each.spec.start_pos, each.spec.end_pos) for each in mutants]
    assert len(places) == len(set(places)) > 5


def test_annotations_and_stars_of_parameters_are_left_alone(
    mutants: list[Mutant], root: Path
) -> None:
    for mutant in mutants:
        compile(mutant.code(root), "mutant", "exec")
        assert "int | None" in mutant.code(root).replace("\n", "")
        assert mutant.code(root).count("int | None") == 2


def test_what_differs_is_shown(mutants: list[Mutant], root: Path) -> None:
    shown = {changed_lines(each, root)[0] for each in mutants}
    assert {"count = 0", "while at > least:", "at = start or 0", "return a * 2"} <= shown
    assert "at = start and 0" in {changed_lines(each, root)[1] for each in mutants}


def test_killed_and_survived(session: Session, mutants: list[Mutant], root: Path) -> None:
    session.add(mutants)
    reach = session.reach()
    noticed = session.run(_of(mutants, root, "at = start or 0", "at = start and 0"), reach)
    assert noticed.is_killed
    assert str(noticed.output).startswith("checks/test_counting.py::test_")
    unreached = next(each for each in mutants if changed_lines(each, root)[0] == "return a * 2")
    survived = session.run(unreached, reach)
    assert (survived.is_killed, survived.output) == (False, NO_TESTS)


def test_a_test_that_only_builds_a_dataclass_is_tried_on_its_defaults(
    root: Path, session: Session
) -> None:
    module = root / "mutated/counting.py"
    module.write_text(
        "from dataclasses import dataclass\n"
        + COUNTING.partition("import annotations\n")[2]
        + "\n\n@dataclass\nclass Found:\n    count: int = 0\n"
    )
    checks = root / "checks/test_counting.py"
    checks.write_text(
        TESTS.replace("import steps", "import Found, steps")
        + "\n\ndef test_nothing_is_found_at_first():\n    assert Found().count == 0\n"
    )
    of_default = next(
        each
        for each in sample(ROOM.modules(root), 100, 1, root)
        if changed_lines(each, root)[0] == "count: int = 0"
    )
    session.add([of_default])
    found = session.run(of_default, session.reach())
    assert found.output == "checks/test_counting.py::test_nothing_is_found_at_first"


def test_a_test_that_only_reads_a_constant_is_tried_on_it(root: Path, session: Session) -> None:
    checks = root / "checks/test_constants.py"
    checks.write_text(
        "from mutated import counting\n\n\ndef test_one():\n    assert counting.STEP == 1\n"
    )
    of_step = next(
        each
        for each in sample(ROOM.modules(root), 100, 1, root)
        if changed_lines(each, root)[0] == "STEP: int | None = 1"
    )
    session.add([of_step])
    reach = session.reach()
    tried = reach.tests_of(of_step.module, of_step.line, COUNTING)
    assert "checks/test_constants.py::test_one" in tried
    assert session.run(of_step, reach).is_killed


def test_an_endless_loop_is_ended_by_the_bound_of_cpu(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "STARTING_S", 1)
    code = COUNTING.replace("at -= STEP", "at -= 0")
    test = "checks/test_counting.py::test_steps"
    ended = trial.attempt("mutated/counting.py", code, [test], 0.0, "fast", root)
    assert ended.timed_out


def test_a_module_that_cannot_be_imported_is_noticed(root: Path) -> None:
    test = "checks/test_counting.py::test_steps"
    ended = trial.attempt("mutated/counting.py", "1 / 0", [test], 1.0, "fast", root)
    assert (ended.status, ended.said) == (2, "importing checks/test_counting.py")
    assert (root / "mutated/counting.py").read_text() == COUNTING


def test_a_session_goes_on_where_it_was_stopped(root: Path, mutants: list[Mutant]) -> None:
    first = Session("mutated", ROOM, root)
    first.add(mutants)
    first.run(mutants[0], first.reach())
    first.close()
    second = Session("mutated", ROOM, root)
    second.add(mutants)
    assert list(second.results()) == [mutants[0].key]
    second.close()


def test_tests_that_fail_without_a_mutant_are_reported(root: Path, session: Session) -> None:
    (root / "checks/test_counting.py").write_text("def test(): assert False")
    with pytest.raises(trial.BaselineFailed, match="fail without a mutant"):
        session.reach()


def test_a_room_passes_with_nine_in_ten_of_those_that_differ() -> None:
    assert Count(sampled=11, killed=9, timed_out=2, equal=1, survived=1).passed
    assert not Count(sampled=11, killed=8, timed_out=0, equal=1, survived=2).passed
    assert not Count(sampled=12, killed=9, timed_out=0, equal=1, survived=1).passed
    assert "1 not run; killed of those that differ: 90.0 %" in str(Count(12, 9, 0, 1, 1))


def test_rooms_have_modules_and_tests() -> None:
    for room in ROOMS.values():
        assert list(room.modules())
        assert all((ROOT / each).is_dir() for each in room.tests)


def test_each_listed_mutant_is_one_of_its_module_and_has_a_reason() -> None:
    for each in tomllib.loads(EQUAL.read_text()).get("equal", []):
        lines = [line.strip() for line in (ROOT / each["module"]).read_text().splitlines()]
        for line in each["old"].splitlines():
            assert line in lines, each
        assert each["new"] != each["old"]
        assert each["why"].strip()
