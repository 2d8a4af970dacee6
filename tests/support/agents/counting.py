"""A worker with one settled group whose books are easily checked: run as a process by the tests.

State of a partition: how many slots were applied, and a digest over all of them in their order.
A slot applied twice, left out or out of turn gives another digest. COUNTING_ROWS=1 writes each
slot to ClickHouse as well. A batch with blockhash "bad" has content that cannot be read, one with
"bug <group>" makes the books of that group fail.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence

import faust

from infra.settings import load
from infra.telemetry import configure_logging
from pipeline.agents import library_logs, worker
from pipeline.agents.context import Context
from pipeline.agents.settled import lane
from pipeline.agents.settled.books import Writes
from schemas import redis_keys
from schemas.codec import CodecError
from schemas.proto.tape_pb2 import SlotBatch
from schemas.topics import SETTLED_BY_MINT

GROUP = os.environ["COUNTING_GROUP"]
ROWS = os.environ.get("COUNTING_ROWS") == "1"


class Counting:
    def __init__(self, key: str, count: int, digest: bytes) -> None:
        self.key, self.count, self.digest = key, count, digest
        self.rows: list[tuple[object, ...]] = []

    async def load(self, batches: Sequence[SlotBatch]) -> None:
        await asyncio.sleep(0)

    def apply(self, batch: SlotBatch) -> None:
        self.count += 1
        if batch.blockhash == "bad":
            raise CodecError("blockhash: bad")
        if batch.blockhash == f"bug {GROUP}":
            raise ZeroDivisionError("a bug")
        self.digest = hashlib.sha256(self.digest + batch.slot.to_bytes(8, "big")).digest()
        row = (batch.slot, None, "", batch.block_time_ms, 0, 0, 0, 0, True, None)
        self.rows.append(row)

    def take(self) -> Writes:
        rows, self.rows = self.rows, []
        return Writes(
            {"slots": rows} if ROWS else {},
            [("HSET", self.key, "count", self.count, "digest", self.digest)],
        )

    def written(self) -> None:
        pass


def attach(app: faust.App, context: Context) -> None:
    async def open_books(partition: int) -> Counting:
        key = f"{GROUP}:{redis_keys.tag_of_mints(partition)}"
        count, digest = await context.redis.hmget(key, ["count", "digest"])
        return Counting(key, int(count or 0), digest or b"")

    lane.attach(app, context, GROUP, SETTLED_BY_MINT, open_books)


if __name__ == "__main__":
    settings = load()
    configure_logging(settings, "agents")
    library_logs.quieten()
    asyncio.run(worker.run(settings, {GROUP: attach}))
