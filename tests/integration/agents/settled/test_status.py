"""`soltape status`: against a broker and a Redis that run, and where nothing does."""

import asyncio
import json
import os
import subprocess
import sys
import time

from confluent_kafka import Producer

from infra.kafka import client, topics
from infra.local.process import free_port
from infra.settings import Settings
from schemas import redis_keys
from schemas.proto.tape_pb2 import LiveBatch, SlotBatch
from schemas.topics import ALL, LIVE, SETTLED, SETTLED_ACCOUNTS


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
        timeout=240,
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


async def test_a_group_that_is_behind_is_reported_by_partition(lane, workers, tmp_path, broker):
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


async def test_accounts_are_behind_the_end_of_their_own_lane(lane, workers, tmp_path, broker):
    await topics.create(broker.settings, ALL)
    lane.send(10)
    end = lane.slot - 4  # their ingest is a process of its own
    batch = SlotBatch(slot=end, block_time_ms=end * 400).SerializeToString()
    for partition in range(SETTLED_ACCOUNTS.partitions):
        lane.producer.produce(SETTLED_ACCOUNTS.name, batch, None, partition)
        tag = redis_keys.tag_of_partition(SETTLED_ACCOUNTS, partition)
        key = redis_keys.WATERMARK.make(tag=tag, group="accounts")
        values = {"slot": end - (3 if partition == 5 else 0), "time_ms": 1000, "at_ms": 1000}
        await workers.redis.hset(key, mapping=values)
    lane.producer.flush()
    report = json.loads(status(workers.settings, tmp_path, "--json").stdout)
    accounts = report["groups"]["accounts"]
    assert accounts["lag_slots"] == 3
    assert [one["lag_slots"] for one in accounts["partitions"]] == [0, 0, 0, 0, 0, 3, 0, 0]
    ends = [await topics.last_records(broker.settings, each) for each in SETTLED]
    slots = [SlotBatch.FromString(each.value).slot for found in ends for each in found.values()]
    assert report["ingest"]["slot"] == min(slots), "of the lanes that `soltape ingest` writes"
    assert {"ingest_accounts", "watch"} <= {*report["processes"]}


async def test_live_is_reported_by_partition_in_batches(lane, workers, tmp_path, broker):
    await topics.create(broker.settings, ALL)
    now_ms = int(time.time() * 1000)
    batch = LiveBatch(sent_ms=now_ms).SerializeToString()
    for partition in range(LIVE.partitions):
        for _ in range(3):
            lane.producer.produce(LIVE.name, batch, None, partition)
    lane.producer.flush()
    ends = await topics.end_offsets(broker.settings, LIVE)
    fences = {
        partition: f"{end - (3 if partition == 5 else 1)} "
        f"{now_ms - {5: 90_000, 6: 600_000}.get(partition, 1000)}"
        for partition, end in ends.items()
    }
    lane.send(1)
    table = status(workers.settings, tmp_path).stdout.splitlines()
    assert [line.split() for line in table if line.startswith("live")] == [
        ["live", "has", "not", "begun"]
    ]
    await workers.redis.hset(redis_keys.LIVE_FENCE.make(), mapping=fences)
    said = status(workers.settings, tmp_path, "--json")
    assert said.stderr == ""
    live = json.loads(said.stdout)["groups"]["live"]
    assert live["lag_batches"] == 2
    passed_s = time.time() - now_ms / 1000
    assert 90 <= live["age_s"] <= 90 + passed_s, "6 is quiet, 5 is behind"
    assert live["batches_per_s"] == 0
    assert [one["lag_batches"] for one in live["partitions"]] == [0, 0, 0, 0, 0, 2, 0, 0]
    assert [one["batch"] for one in live["partitions"]] == [
        end - (3 if partition == 5 else 1) for partition, end in ends.items()
    ]
    table = [line.split() for line in status(workers.settings, tmp_path).stdout.splitlines()]
    (at,) = (number for number, line in enumerate(table) if line[:2] == ["live", "-"])
    assert table[at - 1] == ["batch", "lag", "age", "batches/s"]
    assert table[at][2] == "2"
    assert [line[0] for line in table[at + 1 : at + 9]] == list("01234567")
    assert table[at + 6][1:3] == [f"{ends[5] - 3:,}", "2"]


def test_a_tape_of_another_count_is_named(fresh_embedded, tmp_path):
    """Of the former count lanes stay, which nobody writes any more."""
    settings = fresh_embedded.settings
    raised = [lane.with_partitions(16) for lane in SETTLED]
    for lanes in (SETTLED, raised):
        asyncio.run(topics.create(settings, lanes))
        producer = Producer(client.confluent_producer(settings))
        for lane in lanes:
            for partition in range(lane.partitions):
                producer.produce(lane.name, SlotBatch(slot=7).SerializeToString(), None, partition)
        assert producer.flush(60) == 0
    redis_url = f"redis://127.0.0.1:{free_port()}/0"
    said = status(settings.model_copy(update={"redis_url": redis_url}), tmp_path)
    assert said.returncode == 1
    assert "SETTLED_PARTITIONS is 8, but the tape on " in said.stdout
    assert "has 16 settled partitions: set SETTLED_PARTITIONS=16" in said.stdout
