"""The rules of the house: retired words, private members in tests, tests that assert nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.rules import asserts, privates, words


@pytest.mark.slow
def test_no_clean_room_has_a_retired_word() -> None:
    assert list(words.problems()) == []


@pytest.mark.slow
def test_uses_of_private_members_have_a_reason() -> None:
    assert list(privates.problems()) == []


@pytest.mark.slow
def test_every_test_asserts() -> None:
    assert list(asserts.problems()) == []


@pytest.mark.parametrize(
    "line",
    ["what the client is told", "def test_it_Tells_all", "isTold = 1", "x.told()", "_tell(who)",
     "where it stands", "of what he wants", "Who comes first", "is to be read", "to who asks",
     "again_and_again", "class Kept:", "untold"],
)  # fmt: skip
def test_retired(line: str) -> None:
    assert list(words.retired(line))


@pytest.mark.parametrize(
    "line",
    ["this chest", "a stand-in", "standard", "we understand", "the rest", "outstanding",
     "intellect", "Position.stands_for", "9XheX", "those who read", "class KeptRows"],
)  # fmt: skip
def test_not_retired(line: str) -> None:
    assert not list(words.retired(line))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("thing._held", ["_held"]),
        ("self._held", []),
        ("thing.__class__", []),
        ("from api.room import _hidden", ["_hidden"]),
        ("from tests.room import _hidden", []),
        ("monkeypatch.setattr(room, '_WAIT_S', 0)", ["_WAIT_S"]),
        ("monkeypatch.setattr('api.room._WAIT_S', 0)", ["_WAIT_S"]),
        ("monkeypatch.setattr(room, 'WAIT_S', 0)", []),
    ],
)
def test_private(source: str, names: list[str]) -> None:
    assert [name for _, name in privates.touched(ast.parse(source))] == names


def test_a_reason_covers_its_names() -> None:
    assert privates.reasons("    # private `_a`, `_b`: the bound on memory.\n") == {"_a", "_b"}
    assert privates.reasons("# private `_a`\n") == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def test_a():\n    run()", ["test_a"]),
        ("def test_a():\n    assert run()", []),
        ("def test_a():\n    with pytest.raises(Oops):\n        run()", []),
        ("def test_a():\n    check(5)", []),
        ("def run():\n    assert 1\ndef go():\n    run()\ndef test_a():\n    go()", []),
        ("@fixture\ndef world():\n    yield\n    assert 1\ndef test_a(world):\n    run()", []),
    ],
)
def test_asserting(tmp_path: Path, source: str, names: list[str]) -> None:
    file = tmp_path / "test_file.py"
    file.write_text(source)
    assert [each.name for each in asserts.without(file)] == names
