"""Looking at the pipeline from outside: how far each role has come, and when all is done."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from redis.exceptions import RedisError

from infra.bench.roles import scrape, value
from infra.kafka import topics
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.chaos.fleet import ACCOUNTS, GROUPS, Plan, is_system
from schemas.proto.tape_pb2 import SlotBatch
from schemas.redis_keys import WATERMARK, account_tags, mint_tags, wallet_tags
from schemas.topics import SETTLED_BY_MINT, SETTLED_BY_WALLET, Topic

LOOK_EVERY_S: Final = 0.2
SETTLE_S: Final = 360.0
FINAL_SLOTS: Final = 60  # after so many a slot is final, skipped ones and forks counted
SETTLED_GROUPS: Final = tuple(group for group in GROUPS if group != "live")
_TAGS: Final = {
    "pnl": wallet_tags,
    "store": mint_tags,
    "market": mint_tags,
    "accounts": account_tags,
}


class Watch:
    """Reads watermarks and metrics; what does not answer counts as not begun."""

    def __init__(self, planned: Plan) -> None:
        self._plan = planned
        self._redis = connect(planned.settings, answer_timeout_s=2.0, retries=0)

    async def close(self) -> None:
        """Close the connection."""
        await self._redis.aclose()

    async def watermark(self, group: str) -> int | None:
        """Return the lowest slot that a settled group has applied; None: not known."""
        pipe = self._redis.pipeline(transaction=False)
        for tag in _TAGS[group]():
            pipe.hget(WATERMARK.make(tag=tag, group=group), "slot")
        try:
            slots = await pipe.execute()
        except (RedisError, OSError, TimeoutError):
            return None
        return min((int(slot) for slot in slots if slot), default=0) if all(slots) else 0

    async def metric(self, role: str, name: str, **labels: str) -> int | None:
        """Return a metric of a role; None: it does not answer."""
        found = await asyncio.to_thread(scrape, self._plan.metrics[role])
        return int(value(found, name, **labels)) if found else None

    async def progress(self, role: str) -> int | None:
        """Return how far a role has come: a slot that only rises."""
        if role == "ingest-accounts":
            return await self.metric(role, "soltape_ingest_published_slot")
        if role == "ingest":
            name = "soltape_ingest_published_slot"
            found = [await self.metric(each, name) for each in self._plan.ingests]
            return max((slot for slot in found if slot is not None), default=None)
        if role == "live":
            return await self.metric("live", "soltape_agents_last_slot", group="live")
        return await self.watermark(role)

    def movers(self, role: str) -> tuple[str, ...]:
        """Return the roles that must move again after one was killed."""
        accounts = ACCOUNTS if self._plan.accounts else ()
        if role == "kafka":
            return ("ingest", *GROUPS, *accounts)
        if is_system(role):
            return (*SETTLED_GROUPS, *accounts)
        if role in self._plan.ingests:
            return ("ingest",)
        return (self._plan.workers.get(role, role),)

    async def reached(self, role: str) -> dict[str, int]:
        """Return the slots of the roles that a kill of this one would hold up."""
        return {name: await self.progress(name) or 0 for name in self.movers(role)}

    async def recovered(self, before: dict[str, int], within_s: float) -> None:
        """Wait until all roles are further than they were.

        Raises TimeoutError, which names those that do not move.
        """
        waiting = dict(before)

        async def moved() -> bool:
            for name, slot in list(waiting.items()):
                now = await self.progress(name)
                if now is not None and now > slot:
                    del waiting[name]
            return not waiting

        try:
            await self.until(moved, within_s, "")
        except TimeoutError:
            raise TimeoutError(f"no progress of {', '.join(waiting)}") from None

    async def all_applied(self, last: int) -> None:
        """Wait until all settled groups have applied a slot; raises TimeoutError."""

        async def all_there() -> bool:
            return all([await self.watermark(group) == last for group in SETTLED_GROUPS])

        await self.until(all_there, SETTLE_S, f"slot {last} in all stores")

    async def until(self, done: Callable[[], Awaitable[bool]], within_s: float, what: str) -> None:
        """Wait for something; raises TimeoutError, which says what for."""
        deadline = time.monotonic() + within_s
        while not await done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {within_s:.0f} s")
            await asyncio.sleep(LOOK_EVERY_S)


async def torn_slots(settings: Settings, slots: Collection[int]) -> set[int]:
    """Return which of these slots some partitions of the settled lanes have, and others not.

    So a slot is left by a process that was killed while it wrote it, where nobody has it any more.
    """
    if not slots:
        return set()
    places: Counter[int] = Counter()
    for topic in (SETTLED_BY_MINT, SETTLED_BY_WALLET):
        async for record in topics.records_so_far(settings, topic):
            slot = SlotBatch.FromString(record.value).slot
            if slot in slots:
                places[slot] += 1
    partitions = SETTLED_BY_MINT.partitions + SETTLED_BY_WALLET.partitions
    return {slot for slot, count in places.items() if count < partitions}


async def last_settled(planned: Plan, *lanes: Topic) -> int:
    """Return the last slot that all partitions of lanes have, which are else those of swaps."""
    slots = []
    for topic in lanes or (SETTLED_BY_MINT, SETTLED_BY_WALLET):
        records = await topics.last_records(planned.settings, topic)
        if len(records) < topic.partitions:
            return 0
        slots += [SlotBatch.FromString(record.value).slot for record in records.values()]
    return min(slots)
