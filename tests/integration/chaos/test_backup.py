"""ClickHouse is lost and comes from a backup, keys from an export: nothing is missing then."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from infra.clickhouse.client import connect as connect_clickhouse
from infra.kafka.client import confluent_producer
from infra.redis.client import connect as connect_redis
from pipeline.chaos import stores, truth
from pipeline.chaos.compare import Oracle, compare
from pipeline.chaos.differences import Differences
from pipeline.chaos.fleet import Chain, Fleet, Plan, plan
from pipeline.chaos.watch import SETTLED_GROUPS, Watch, last_settled
from schemas.proto.tape_pb2 import SlotGap
from schemas.topics import GAPS

WITHIN_S = 240.0
GAP = SlotGap(first_slot=3, last_slot=4, reason="lost in a test", detected_ms=1_763_700_000_123)


class Drill:
    """A fleet on which commands of `soltape` are run as well."""

    def __init__(self, planned: Plan) -> None:
        self.plan = planned
        self.fleet, self.watch = Fleet(planned), Watch(planned)
        self.books = [name for name, group in planned.workers.items() if group in SETTLED_GROUPS]

    async def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "infra.cli", *words],
            env=os.environ | dict(self.plan.processes["pnl"].env),
            cwd=self.plan.settings.soltape_data,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    async def command(self, *words: str, fails: str = "") -> str:
        """Return what a command says; with `fails` it must fail, and say that."""
        done = await self.run(*words)
        said = done.stdout + done.stderr
        assert bool(done.returncode) == bool(fails), said
        assert fails in said
        return said

    async def slots(self, count: int) -> None:
        """Wait until so many more slots are in all stores."""
        first = {group: await self.watch.watermark(group) or 0 for group in SETTLED_GROUPS}

        async def there() -> bool:
            return all(
                [
                    (await self.watch.watermark(each) or 0) >= at + count
                    for each, at in first.items()
                ]
            )

        await self.watch.until(there, WITHIN_S, f"{count} more slots")

    async def until_all_there(self, last: int) -> None:
        """Wait until a slot and the gap are in all stores."""

        async def there() -> bool:
            marks = [await self.watch.watermark(group) for group in SETTLED_GROUPS]
            return all(mark == last for mark in marks) and self.gaps() == [
                (3, 4, 1_763_700_000_123)
            ]

        await self.watch.until(there, WITHIN_S, f"slot {last} in all stores")

    def gaps(self) -> list[tuple[int, int, int]]:
        client = connect_clickhouse(self.plan.settings)
        try:
            return [
                tuple(row)
                for row in client.query(
                    "SELECT first_slot, last_slot, toUnixTimestamp64Milli(detected_at) FROM gaps"
                ).result_rows
            ]
        finally:
            client.close()


@pytest.mark.slow
@pytest.mark.timeout(960)
async def test_clickhouse_from_a_backup_and_keys_from_an_export_are_as_they_were(
    tmp_path: Path,
) -> None:
    folder, backup = tmp_path / "data", tmp_path / "backups" / "today"
    planned = plan(folder, Chain(seed=21, rate=25.0, minutes=1.0), "embedded")
    settings = planned.settings
    drill = Drill(planned)
    fleet, watch = drill.fleet, drill.watch
    try:
        await fleet.start("kafka", "clickhouse", "redis")
        await fleet.start(*drill.books, "ingest", "chain")
        await drill.command("keys", "create", "--name", "kept")
        await drill.slots(8)
        await drill.command("clickhouse", "backup", str(backup), fails="is in use by process")
        await fleet.end(*drill.books, "clickhouse")
        await drill.command("clickhouse", "backup", str(backup))
        await drill.command("keys", "export", str(tmp_path / "keys.jsonl"))
        await drill.command("clickhouse", "restore", str(backup), fails="move this folder away")

        await fleet.start("clickhouse")
        await fleet.start(*drill.books)
        await drill.slots(8)
        producer = Producer(confluent_producer(settings))
        producer.produce(GAPS.name, GAP.SerializeToString(), b"3", 0)
        producer.flush()
        confirmed = await watch.metric("chain", "soltape_chain_slot", commitment="confirmed") or 0

        async def published() -> bool:
            return (await watch.progress("ingest") or 0) >= confirmed

        await watch.until(published, WITHIN_S, f"slot {confirmed} on the settled lanes")
        await fleet.end("ingest", "chain")
        last = await last_settled(planned)
        await drill.until_all_there(last)

        await fleet.end(*drill.books)
        await fleet.kill("clickhouse")
        shutil.rmtree(folder / "clickhouse")
        redis = connect_redis(settings)
        async for name in redis.scan_iter("access:*"):
            await redis.unlink(name)
        await redis.aclose()

        await drill.command("clickhouse", "restore", str(backup))
        await drill.command("keys", "import", str(tmp_path / "keys.jsonl"))
        assert "kept" in await drill.command("keys", "list")
        await fleet.start("clickhouse")
        assert drill.gaps() == []  # it was written after the backup
        await watch.until(lambda: _rebuilt(drill), WITHIN_S, "the groups' books at rest")
        await fleet.start(*drill.books)
        await drill.until_all_there(last)

        stored = await stores.read(settings)
        first = min(row["slot"] for row in stored.rows["slots"])
        slots = [slot for slot in truth.read(planned.truth) if first <= slot.slot <= last]
        found = Differences()
        compare(Oracle(slots), stored, found)
        assert not found.total, [str(each) for each in found.examples[:10]]
        assert found.compared["swap"] > 200
        assert not fleet.crashes, fleet.crashes
    finally:
        await watch.close()
        await fleet.close()


async def _rebuilt(drill: Drill) -> bool:
    """Go back to the checkpoints in the backup; refused while books were written just now."""
    said = await drill.run("rebuild", "--from-checkpoint")
    assert not said.returncode or "was written less than" in said.stderr, said.stderr
    return not said.returncode
