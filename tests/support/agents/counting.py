"""A worker with one settled group whose books are easily checked: run as a process by the tests.

State of a partition: how many slots were applied, and a digest over all of them in their order.
A slot applied twice, left out or out of turn gives another digest. COUNTING_ROWS=1 writes each
slot to ClickHouse as well. A batch with blockhash "bad" has content that cannot be read, one with
"bug <group>" makes the books of that group fail. The first with "moved <group>" is loaded when
Redis has another state than these books wrote, and fails as books do that load half of what they
know from one state and half from another.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence

import faust
from redis.asyncio import Redis

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
seen_moved: set[str] = set()  # keys of state


class Counting:
    def __init__(self, redis: Redis, key: str, count: int, digest: bytes) -> None:
        self.redis, self.key, self.count, self.digest = redis, key, count, digest
        self.rows: list[tuple[object, ...]] = []
        self.is_mixed = False

    async def load(self, batches: Sequence[SlotBatch]) -> None:
        await asyncio.sleep(0)
        moved = any(batch.blockhash == f"moved {GROUP}" for batch in batches)
        if moved and self.key not in seen_moved:
            seen_moved.add(self.key)
            while int(await self.redis.hget(self.key, "count")) >= self.count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            self.is_mixed = True

    def apply(self, batch: SlotBatch) -> None:
        self.count += 1
        if self.is_mixed:
            raise ZeroDivisionError("half of another state")
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
        return Counting(context.redis, key, int(count or 0), digest or b"")

    lane.attach(app, context, GROUP, SETTLED_BY_MINT, open_books)


if __name__ == "__main__":
    settings = load()
    configure_logging(settings, "agents")
    library_logs.quieten()
    asyncio.run(worker.run(settings, {GROUP: attach}))
