"""The whole way: the simulated market, badly delivered, through a killed ingest, to its truth."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from infra.kafka.topics import end_offsets
from infra.local.process import free_port
from infra.settings import Settings
from schemas.proto import tape_pb2
from schemas.topics import GAPS, SETTLED_BY_MINT, SETTLED_BY_WALLET, Topic
from tests.support.systems import bound
from tests.support.topics import values_of
from tests.support.waiting import eventually_async

KILLS = 4
LEAST_SLOTS = 150
FAULTS = (
    "--forks=0.1",
    "--skipped=0.05",
    "--duplicates=0.1",
    "--reorder=8",
    "--missing-statuses=0.1",
    "--disconnect-every=2000",
    "--lag-every=5000",
    "--damaged=0.01",
    "--malformed=0.01",
    "--failed=0.05",
)

Identity = tuple[str, int]  # signature, event_index


def start_chain(directory: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "infra.cli", "chain", "--seed=11", "--rate=200"]
    command += ["--slot-ms=100", f"--truth={directory / 'truth.jsonl'}", *FAULTS]
    return subprocess.Popen(bound(command), cwd=directory, env=os.environ | environment)


def read_truth(file: Path) -> tuple[dict[int, set[Identity]], set[str]]:
    """Canonical events by slot, and signatures of damaged transactions."""
    events: dict[int, set[Identity]] = defaultdict(set)
    damaged = set()
    for line in file.read_bytes().splitlines()[:-1]:  # the last may be cut by the stop
        record = orjson.loads(line)
        if record["kind"] == "malformed":
            damaged.add(record["signature"])
        elif record["kind"] in ("swap", "creation", "migration") and record["canonical"]:
            events[record["slot"]].add((record["signature"], record["event_index"]))
    return events, damaged


async def batches(kafka: str, topic: Topic) -> dict[int, list[tape_pb2.SlotBatch]]:
    return {
        number: [tape_pb2.SlotBatch.FromString(value) for value in found]
        for number, found in (await values_of(kafka, topic)).items()
    }


async def slots_settled(kafka: str) -> int:
    """Return how many slots every partition holds."""
    settings = Settings(kafka_bootstrap=kafka)
    ends = [await end_offsets(settings, topic) for topic in (SETTLED_BY_MINT, SETTLED_BY_WALLET)]
    return min(end for topic in ends for end in topic.values())


@pytest.mark.slow
async def test_settled_lanes_are_the_markets_canonical_chain(
    kafka: str, make_role: Callable[[dict[str, str]], Any], tmp_path: Path
) -> None:
    random = Random(5)
    environment = {
        "KAFKA_BOOTSTRAP": kafka,
        "GEYSER_ENDPOINT": f"http://127.0.0.1:{free_port()}",
        "RPC_ENDPOINT": f"http://127.0.0.1:{free_port()}",
        "GEYSER_BACKOFF_MAX_S": "0.5",
        "METRICS_PORT_CHAIN": str(free_port()),
    }
    chain = start_chain(tmp_path, environment)
    role = make_role(environment)
    try:
        role.start()
        for _ in range(KILLS):
            await eventually_async(lambda: role.has_said("stream open"), lambda: role.log)
            await asyncio.sleep(random.uniform(1.5, 4))
            await asyncio.to_thread(role.stop, signal.SIGKILL)
            before = await slots_settled(kafka)
            role.start()
        wanted_slots = max(LEAST_SLOTS, before + 20)

        async def settled_enough() -> bool:
            return await slots_settled(kafka) >= wanted_slots

        await eventually_async(settled_enough, lambda: role.log)
        assert await asyncio.to_thread(role.stop, signal.SIGTERM) == 0
    finally:
        chain.terminate()
        chain.wait(60)

    truth, damaged = read_truth(tmp_path / "truth.jsonl")
    assert damaged, "the market sent damaged swaps"
    assert await values_of(kafka, GAPS) == {0: []}, role.log
    prices: dict[int, set[tuple[Any, ...]]] = defaultdict(set)
    for topic in (SETTLED_BY_MINT, SETTLED_BY_WALLET):
        lane = await batches(kafka, topic)
        slots = [batch.slot for batch in lane[0]]
        assert len(slots) > 100
        assert sum(len(truth[slot]) for slot in slots) > 1000
        settled: dict[int, list[Identity]] = defaultdict(list)
        for partition in lane.values():
            assert [batch.slot for batch in partition] == slots
            for batch in partition:
                assert batch.complete
                prices[batch.slot].add((batch.sol_usd, *map(str, batch.quotes)))
                for event in batch.events:
                    of = getattr(event, event.WhichOneof("event"))
                    settled[batch.slot].append((of.signature, of.event_index))
        wanted = {slot for slot in truth if slots[0] <= slot <= slots[-1]}
        assert wanted <= set(slots), "a canonical slot is missing"
        for slot in slots:
            swaps = [each for each in settled[slot] if each[0] not in damaged]
            assert len(swaps) == len(set(swaps)), slot
            expected = truth[slot]
            if topic is SETTLED_BY_WALLET:
                assert set(swaps) <= expected
            else:
                assert set(swaps) == expected, slot
    # Whichever process wrote a partition's batch, it went on from the same prices.
    assert {len(swaps) for swaps in prices.values()} == {1}
    assert len(set.union(*prices.values())) > 10
    assert any(len(swaps) > 1 for swaps in set.union(*prices.values())), "some token is a quote"
