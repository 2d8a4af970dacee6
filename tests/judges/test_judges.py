"""`make judges` itself: it knows every judge, and says what each was asked."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.judges.__main__ import ROOT, ask, said
from tests.judges.judges import FOLDER, JUDGES, Judge
from tests.support.judging import FILE, judged

BY_EXAMPLES = "test_jupiter_perps.py"
"""Its judge is no package of a registry, but a folder that a variable names."""


def files() -> dict[str, str]:
    return {each.name: each.read_text() for each in (ROOT / FOLDER).glob("test_*.py")}


def test_every_test_that_needs_node_has_a_judge() -> None:
    of_judges = {each.partition("::")[0] for judge in JUDGES.values() for each in judge.tests}
    need_node = {name for name, code in files().items() if "pytest.mark.node" in code}
    assert need_node == of_judges | {BY_EXAMPLES}


def test_a_judge_names_tests_that_exist_and_the_variable_that_they_ask_for() -> None:
    codes = files()
    for name, judge in JUDGES.items():
        for each in judge.tests:
            file, _, test = each.partition("::")
            assert f"def {test}(" in codes[file] or not test, (name, each)
            asked_for = set(re.findall(r"environ.*?\b(\w+_SDK)\b", codes[file]))
            assert asked_for == ({judge.variable} if judge.variable else set()), (name, each)


def test_a_line_has_what_was_asked_and_what_differs() -> None:
    asked = Counter(worlds=200, accounts=3)
    assert said(asked, True) == "200 worlds, 3 real accounts, 0 differences"
    assert said(asked | Counter(differences=2), True).endswith("2 explained differences")
    assert said(asked, False) == "FAILED after 200 worlds, 3 real accounts"


def test_counts_are_kept_in_the_file_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FILE, raising=False)
    judged(worlds=1)
    monkeypatch.setenv(FILE, str(tmp_path / "counts"))
    judged(worlds=200, differences=3)
    judged(accounts=7)
    lines = (tmp_path / "counts").read_text().splitlines()
    assert lines == [
        '{"worlds": 200, "accounts": 0, "differences": 3}',
        '{"worlds": 0, "accounts": 7, "differences": 0}',
    ]


@pytest.mark.processes
def test_a_judge_whose_tests_did_not_run_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert not ask("nobody", Judge(("test_token.py",)))
    assert capsys.readouterr().out.startswith("nobody: FAILED after 0 worlds, 0 real accounts, ")
