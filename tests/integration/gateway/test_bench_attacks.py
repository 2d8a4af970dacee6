"""`soltape bench attacks`, short: what is refused is refused, and other users are answered.

One run attacks with every kind in turn, each from a process of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stream_gateway.bench.attacks import bars, others
from stream_gateway.bench.attacks.command import attacks
from stream_gateway.bench.attacks.kinds import ATTACKS, Attack

# On a busy machine its run, which the first test waits for, takes ten minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def run() -> Iterator[Result]:
    """A run whose bar of p99 nothing can keep, and whose users have patience.

    How fast a busy machine is proves nothing.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bars, "MAX_P99_MS", -1.0)
        patch.setattr(others, "GIVEN_UP_S", 60.0)
        yield CliRunner().invoke(attacks, ["--seconds", "1"])


def test_a_broken_bar_fails_the_run_and_is_named(run: Result) -> None:
    assert run.exit_code == 1, run.output
    for kind in ATTACKS:
        assert f"{kind.name}: p99 of others at api " in run.stderr


@pytest.mark.parametrize("kind", ATTACKS, ids=lambda kind: kind.name)
def test_what_is_refused_is_refused_and_others_are_answered(run: Result, kind: Attack) -> None:
    found: dict[str, Any] = json.loads(run.stdout)["attacks"][kind.name]
    assert bars.broken(kind, found, is_timed=False) == []
    assert found["opened"] >= found["connections"] == kind.connections
    assert all(each["answered"] for each in found["others"].values())
    refused = sum(found["statuses"].get(str(status), 0) for status in kind.refused)
    assert refused if kind.refused else found["closed"]
