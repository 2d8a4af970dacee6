"""`soltape bench market`: a line a seed, and no seed twice."""

from __future__ import annotations

from pathlib import Path

import orjson
from click.testing import CliRunner

from infra.chain.soak import market


def test_finished_seeds_are_left_out(tmp_path: Path) -> None:
    out = tmp_path / "seeds.jsonl"
    options = ["--hours", "0.004", "--rate", "40", "--bytes-every", "9", "--out", str(out)]
    first = CliRunner().invoke(market, [*options, "--seed", "3", "--seeds", "1"])
    assert first.exit_code == 0, first.output
    again = CliRunner().invoke(market, [*options, "--seed", "3", "--seeds", "2"])
    assert again.exit_code == 0, again.output
    lines = out.read_bytes().splitlines()
    assert [orjson.loads(line)["seed"] for line in lines] == [3, 4]
    assert again.stdout_bytes.splitlines() == lines
    found = orjson.loads(lines[0])
    assert found["within_bounds"] is True
    assert found["transactions"] > 500
    assert found["transactions_per_cpu_s"] > 0


def test_other_options_are_another_run(tmp_path: Path) -> None:
    out = tmp_path / "seeds.jsonl"
    for rate in ("20", "30"):
        options = ["--hours", "0.002", "--rate", rate, "--bytes-every", "9", "--out", str(out)]
        assert CliRunner().invoke(market, options).exit_code == 0
    assert [orjson.loads(line)["rate"] for line in out.read_bytes().splitlines()] == [20, 30]
