"""How growth is computed, and which part of a stack a process is."""

from pathlib import Path

import pytest

# private `_folder_bytes`, `_redis_growth`: pure arithmetic; the command around it runs for minutes.
from infra.bench.memory import Moment, _folder_bytes, _redis_growth, slope_mib_per_minute
from infra.bench.roles import part_of
from infra.redis.families import Family
from schemas.redis_keys import MARKET, POSITIONS

MIB = 1 << 20


def test_a_slope_is_that_of_the_line_through_all_points():
    flat = [(10.0 * n, 100 * MIB) for n in range(10)]
    assert slope_mib_per_minute(flat) == pytest.approx(0)
    rising = [(10.0 * n, 100 * MIB + n * MIB // 2) for n in range(60)]
    assert slope_mib_per_minute(rising) == pytest.approx(3)
    one_jump = [(10.0 * n, 100 * MIB if n != 30 else 110 * MIB) for n in range(60)]
    assert abs(slope_mib_per_minute(one_jump)) < 0.1


def test_redis_growth_is_reported_beside_that_of_its_keys():
    positions, markets = POSITIONS.pattern, MARKET.pattern
    before = Moment(0.0, 100 * MIB, {positions: Family(10, 1_000, 10 * MIB)}, {})
    later = {positions: Family(15, 1_600, 16 * MIB), markets: Family(4, 40, 3 * MIB)}
    growth = _redis_growth(before, Moment(180.0, 112 * MIB, later, {}))
    assert growth["mib_per_minute"] == 4
    assert growth["keys_mib_per_minute"] == 3
    assert growth["explained_by_keys"] == 0.75
    assert (growth["new_positions"], growth["new_wallets"], growth["new_tokens"]) == (600, 5, 4)
    assert growth["families"][positions]["bytes_of_entry"] == round(16 * MIB / 1_600)


def test_a_folder_is_measured_by_part(tmp_path: Path):
    (tmp_path / "kafka" / "topic").mkdir(parents=True)
    for name, size in (("kafka/a", 3), ("kafka/topic/b", 4), ("demo-key", 5)):
        (tmp_path / name).write_bytes(bytes(size))
    assert _folder_bytes(tmp_path) == {"kafka": 7, "demo-key": 5}


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["/venv/bin/python", "-m", "infra.cli", "ingest"], "ingest"),
        (["python3.11", "-m", "infra.cli", "agents", "pnl", "store"], "agents pnl store"),
        (["python", "-m", "infra.cli", "chain", "simulated", "--rate", "3"], "chain"),
        (["/venv/bin/python", "/venv/bin/soltape", "up", "--rate", "3"], "up"),
        (["/packages/valkey-server 127.0.0.1:6379"], "valkey-server"),
        (["java", "-Xmx512m", "kafka.Kafka"], "java"),
        ([], "?"),
    ],
)
def test_a_command_line_names_its_part(words, part):
    assert part_of(words) == part
