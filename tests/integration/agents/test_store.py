"""`soltape agents store` between a real broker, Valkey and ClickHouse."""

import asyncio
import os
import subprocess
import sys
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from infra.clickhouse.client import ClickHouseError, connect
from infra.clickhouse.embedded import server
from infra.kafka import client, topics
from infra.local.process import free_port
from infra.redis.embedded import valkey
from pipeline.agents.settled.lost import UNREADABLE, because
from schemas.proto.tape_pb2 import BUY, SlotBatch, SlotGap
from schemas.topics import GAPS, SETTLED_BY_MINT, UNDECODED
from tests.support.systems import bound, running
from tests.support.waiting import eventually

SLOTS = 30
SOL = "So11111111111111111111111111111111111111112"


@pytest.fixture
def store(fresh_embedded, tmp_path):
    """Settings of a running agent; ends it and its stores."""
    ports = [free_port() for _ in range(4)]
    stores = [valkey(tmp_path / "redis", "127.0.0.1", ports[0]), server(tmp_path / "ch", ports[1])]
    settings = fresh_embedded.settings.model_copy(
        update={
            "redis_url": f"redis://127.0.0.1:{ports[0]}/0",
            "clickhouse_url": f"http://127.0.0.1:{ports[1]}",
        }
    )
    env = os.environ | {
        "KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "REDIS_URL": settings.redis_url,
        "CLICKHOUSE_URL": settings.clickhouse_url,
        "METRICS_PORT_AGENTS": str(ports[2]),
        "METRICS_PORT_BOOKS": str(ports[3]),
        "SOLTAPE_DATA": str(tmp_path / "data"),
    }
    asyncio.run(topics.create(settings))
    log = tmp_path / "agents.log"
    with ExitStack() as ending, log.open("wb") as output:
        for process in stores:
            ending.enter_context(running(process, tmp_path))
        command = bound([sys.executable, "-m", "infra.cli", "agents", "store"])
        child = subprocess.Popen(command, env=env, stdout=output, stderr=output)
        try:
            yield settings, log
        finally:
            child.terminate()
            child.wait(60)


def until(settings, log, sql, wanted):
    found = None

    def holds():
        nonlocal found
        try:
            with connect(settings) as client:
                found = client.query(sql).result_rows
        except ClickHouseError as error:  # the agent has not made the tables yet
            found = error
        return found == wanted

    eventually(holds, lambda: (found, log.read_text()[-3000:]))


def slot(number, partition):
    batch = SlotBatch(slot=number, parent=number - 1, complete=True, sol_usd="150")
    batch.block_time_ms = 1_785_500_000_000 + number * 400
    batch.events.add(swap={
        "signature": f"{partition}-{number}", "slot": number, "event_index": 1, "side": BUY,
        "block_time_ms": batch.block_time_ms, "mint": f"m{partition}", "quote_mint": SOL,
        "amount_raw": 10, "quote_amount_raw": 20, "wallet_amount_raw": 11, "wallet": "w",
    })  # fmt: skip
    return batch.SerializeToString()


def test_swaps_slots_and_gaps_are_stored_and_what_is_none_is_put_aside(store):
    settings, log = store
    producer = Producer(client.confluent_producer(settings))
    bad = SlotBatch(slot=SLOTS, complete=True)
    bad.events.add().swap.side = 0
    gap = SlotGap(first_slot=40, last_slot=44, reason="gone", detected_ms=1_785_500_000_000)
    wrong = SlotGap(first_slot=9, last_slot=8)
    for partition in range(SETTLED_BY_MINT.partitions):
        for number in range(1, SLOTS):
            producer.produce(SETTLED_BY_MINT.name, slot(number, partition), None, partition)
        producer.produce(SETTLED_BY_MINT.name, bad.SerializeToString(), None, partition)
        producer.produce(SETTLED_BY_MINT.name, slot(SLOTS + 1, partition), None, partition)
    for value in (gap, wrong, gap):
        producer.produce(GAPS.name, value.SerializeToString(), None, 0)
    assert producer.flush(60) == 0
    each = SETTLED_BY_MINT.partitions
    until(settings, log, "SELECT count(), uniqExact(signature), sum(wallet_amount_raw) "
          "FROM swaps FINAL", [(each * SLOTS, each * SLOTS, each * SLOTS * 11)])  # fmt: skip
    until(settings, log, "SELECT count(), max(slot), countIf(sol_usd = 150) FROM slots FINAL",
          [(SLOTS, SLOTS + 1, SLOTS)])  # fmt: skip
    lost = (SLOTS, SLOTS, because([UNREADABLE]))
    until(settings, log, "SELECT first_slot, last_slot, reason FROM gaps FINAL ORDER BY first_slot",
          [lost] * each + [(40, 44, "gone")])  # fmt: skip
    ends = asyncio.run(topics.end_offsets(settings, UNDECODED))
    assert sum(ends.values()) == each + 1, log.read_text()[-2000:]
