"""`soltape bench attacks`, short: what is refused is refused, and other users are answered."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stream_gateway.bench.attacks.command import attacks
from stream_gateway.bench.attacks.kinds import ATTACKS

NAMES = ("forged-keys", "withheld-bodies", "forged-upgrades", "silent-gateway")


@pytest.mark.slow
def test_what_is_refused_is_refused_and_others_are_answered() -> None:
    options = [option for name in NAMES for option in ("--attack", name)]
    run = CliRunner().invoke(attacks, ["--seconds", "1", *options], catch_exceptions=False)
    assert run.exit_code == 0, run.output
    line = json.loads(run.stdout)
    assert line["unanswered"] == 0
    kinds = {each.name: each for each in ATTACKS}
    for name, found in line["attacks"].items():
        assert {int(status) for status in found["statuses"]} <= {*kinds[name].refused, 503}
        assert found["opened"] >= found["connections"] == kinds[name].connections
        assert all(each["answered"] for each in found["others"].values())
    assert set(line["attacks"]) == set(NAMES)
