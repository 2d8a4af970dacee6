"""When takeovers are late, and what that makes of a run."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pipeline.chaos.command import chaos
from pipeline.chaos.report import Report
from pipeline.chaos.takeovers import BAR_S, judge

TOOK_S = [7.8, 10.04, 9.96]


def test_figures_are_rounded_and_the_limit_is_not():
    assert judge(TOOK_S, 10.0) == {
        "count": 3,
        "median": 10.0,
        "max": 10.0,
        "bar": BAR_S,
        "limit": 10.0,
        "late": 1,
    }
    assert judge(TOOK_S, 10.04)["late"] == 0
    assert judge(TOOK_S, 5.0)["late"] == 3


def test_without_a_limit_nothing_is_late():
    found = judge([99.0], None)
    assert (found["limit"], found["late"], found["max"]) == (None, None, 99.0)


def test_none_at_all_have_figures_too():
    assert judge([], 10.0) == {
        "count": 0,
        "median": 0.0,
        "max": 0.0,
        "bar": BAR_S,
        "limit": 10.0,
        "late": 0,
    }


@pytest.mark.parametrize(
    ("took_s", "limit_s", "passed"),
    [
        ([9.9], 10.0, True),
        ([9.9, 10.1], 10.0, False),
        ([], 10.0, False),  # nothing was judged
        ([99.0], None, True),
        ([], None, True),
    ],
)
def test_a_run_with_a_late_takeover_fails(took_s, limit_s, passed):
    report = Report(1, 2.0, "embedded", 150, 1, swaps=1)
    assert report.passed
    report.takeover_s = judge(took_s, limit_s)
    assert report.passed is passed


def test_a_late_takeover_is_not_all_that_fails_a_run():
    report = Report(1, 2.0, "embedded", 150, 1, swaps=1, differences=1)
    report.takeover_s = judge([1.0], 10.0)
    assert not report.passed


def test_a_limit_is_one_of_a_standby():
    run = CliRunner().invoke(chaos, ["--takeover-limit", "10"])
    assert run.exit_code == 2
    assert "--takeover-limit needs --standby" in run.stderr
    run = CliRunner().invoke(chaos, ["--standby", "--takeover-limit", "0"])
    assert run.exit_code == 2
