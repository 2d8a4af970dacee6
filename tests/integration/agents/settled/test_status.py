"""`soltape status`: against a broker and a Redis that run, and where nothing does."""

import json
import os
import subprocess
import sys

from infra.kafka import topics
from infra.process import free_port
from infra.settings import Settings
from schemas import redis_keys
from schemas.topics import ALL


def status(settings, folder, *options):
    return subprocess.run(
        [sys.executable, "-m", "infra.cli", "status", *options],
        env=os.environ
        | {
            "KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
            "REDIS_URL": settings.redis_url,
            "CLICKHOUSE_URL": f"http://127.0.0.1:{free_port()}",
            "METRICS_PORT_AGENTS": str(free_port()),
            "METRICS_PORT_BOOKS": str(free_port()),
        },
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        check=False,
    )


def test_where_nothing_runs_it_says_so(tmp_path):
    settings = Settings(
        _env_file=None,
        kafka_bootstrap=f"127.0.0.1:{free_port()}",
        redis_url=f"redis://127.0.0.1:{free_port()}/0",
    )
    said = status(settings, tmp_path)
    assert said.returncode == 1
    assert [line[:6] for line in said.stdout.splitlines()[:3]] == ["failed"] * 3
    assert "is `soltape up` running?" in said.stdout
    assert said.stderr == ""


async def test_a_group_that_is_behind_is_told_by_partition(lane, workers, tmp_path, broker):
    await topics.create(broker.settings, ALL)
    lane.send(10)
    for partition in range(8):
        behind = 7 if partition == 2 else 0
        key = redis_keys.WATERMARK.make(tag=redis_keys.tag_of_mints(partition), group="market")
        values = {"slot": lane.slot - behind, "offset": 5, "time_ms": 1000, "at_ms": 1000}
        await workers.redis.hset(key, mapping=values)
    said = status(workers.settings, tmp_path, "--json")
    assert said.stderr == ""
    report = json.loads(said.stdout)
    assert report["ingest"] is None or report["ingest"]["slot"] <= lane.slot
    assert report["systems"]["kafka"]["reachable"]
    assert not report["systems"]["clickhouse"]["reachable"]
    market = report["groups"]["market"]
    assert market["lag_slots"] == 7
    assert market["slot"] == lane.slot - 7
    assert [one["lag_slots"] for one in market["partitions"]] == [0, 0, 7, 0, 0, 0, 0, 0]
    assert report["groups"]["pnl"] is None
    table = status(workers.settings, tmp_path).stdout
    assert [line.split()[0] for line in table.splitlines() if line.startswith("  ")][1:] == [
        "0-1",
        "2",
        "3-7",
    ]
    assert "has not begun" in table
