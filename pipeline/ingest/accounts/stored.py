"""What agent `accounts` stored of coverage: read at a takeover, watched from then on.

The lane says what is covered, and the agent stores it. Where the agent loses slots (a record that
it cannot read, a lane that is shorter than its lag), it voids all that was given before. The lane
does not show that: nobody else would ask for it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog
from redis.asyncio import Redis

from infra.redis.client import RedisError, ask, connect
from infra.settings import Settings
from pipeline.ingest.accounts.coverage import Coverage
from schemas.account_reading import coverage, floor_question
from schemas.proto.tape_pb2 import Covered
from schemas.protocols.programs import ADDRESSES
from schemas.redis_keys import COVERED, account_tags
from schemas.solana.addresses import text

log = structlog.get_logger(__name__)

LOOK_S: Final = 5.0


class Stored(NamedTuple):
    """What all partitions have."""

    floor: int  # the highest of them: what was given before it is void; -1: nothing is
    covered: list[Covered]  # programs


async def read_stored(settings: Settings) -> Stored:
    """Return what Redis says is covered; raises RedisError."""
    client = connect(settings)
    try:
        floors = await ask(client, [floor_question(tag) for tag in account_tags()])
        found = []
        for program in ADDRESSES.values():
            names = [COVERED.make(tag=tag, address=text(program)) for tag in account_tags()]
            said = await ask(client, [("HMGET", name, "slot", "given", "reason") for name in names])
            slots = [
                coverage(values, floor).slot for values, floor in zip(said, floors, strict=True)
            ]
            known = [slot for slot in slots if slot is not None]
            if len(known) == len(slots):
                found.append(Covered(kind=Covered.PROGRAM, address=program, slot=max(known)))
        return Stored(_highest(floors), found)
    finally:
        await client.aclose()


def _highest(floors: list[list[bytes | None]]) -> int:
    """Return the highest floor of the answers to `floor_question`."""
    return max((int(floor[0]) for floor in floors if floor[0] is not None), default=-1)


class StoredWatch:
    """Calls `lost` with the floor where the agent lost slots that `coverage` rests on."""

    def __init__(self, settings: Settings, coverage: Coverage, lost: Callable[[int], None]) -> None:
        self._client: Redis = connect(settings)
        self._coverage = coverage
        self._lost = lost
        self._is_away = False  # Redis, as the log has it

    async def run(self) -> None:
        """Look until cancelled. While Redis does not answer, what is known stays."""
        try:
            while True:
                try:
                    await self.look()
                except RedisError as error:
                    if not self._is_away:
                        log.warning("Redis does not answer: coverage is unwatched", why=str(error))
                    self._is_away = True
                else:
                    self._is_away = False
                await asyncio.sleep(LOOK_S)
        finally:
            await self._client.aclose()

    async def look(self) -> None:
        """Look once; raises RedisError."""
        floor = _highest(await ask(self._client, [floor_question(tag) for tag in account_tags()]))
        if floor > self._coverage.floor:
            self._lost(floor)
