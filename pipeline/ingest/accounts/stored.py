"""What agent `accounts` stored of coverage: read at a takeover, watched from then on.

The lane says what is covered, and the agent stores it. Where the agent loses slots (a record that
it cannot read, a lane that is shorter than its lag), it voids all that was given before. The lane
does not show that: nobody else would ask for it again.

A process that takes over reads of the lane the last slots alone. What an earlier one withdrew
before them is unknown to it until the agent, which may be behind, has applied that.
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
from schemas.account_reading import (
    GROUP,
    coverage,
    floor_question,
    has_revision,
    program_coverage,
    program_questions,
)
from schemas.proto.tape_pb2 import Covered
from schemas.protocols.programs import ADDRESSES
from schemas.redis_keys import COVERED, WATERMARK, account_tags
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
    """Calls `lost` with the floor where the agent lost slots that `coverage` rests on.

    Has programs bootstrapped again that `coverage` has and the agent, no longer behind, has not.
    """

    def __init__(self, settings: Settings, coverage: Coverage, lost: Callable[[int], None]) -> None:
        self._client: Redis = connect(settings)
        self._coverage = coverage
        self._lost = lost
        self._is_away = False  # Redis, as the log has it
        # What the agent said of programs, and the programs that it was compared of.
        self._compared: tuple[list[bytes | None], list[bytes]] = [], []

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
        tags = account_tags()
        watermarks = [("HGET", WATERMARK.make(tag=tag, group=GROUP), "slot") for tag in tags]
        said = await ask(self._client, [*map(floor_question, tags), *watermarks])
        floors, slots = said[: len(tags)], said[len(tags) :]
        floor = _highest(floors)
        if floor > self._coverage.floor:
            self._lost(floor)
        await self._compare(floors, min(-1 if slot is None else int(slot) for slot in slots))

    async def _compare(self, floors: list[list[bytes | None]], applied: int) -> None:
        """Compare the programs that all partitions, which applied the lane so far, must have."""
        programs = self._coverage.stored_with(applied)
        compared = [floor[2] for floor in floors], programs
        if not programs or (compared == self._compared and all(map(has_revision, floors))):
            return
        of_all = [program_questions(tag, tuple(programs)) for tag in account_tags()]
        answers = await ask(self._client, [each for of_one in of_all for each in of_one])
        lacking: set[bytes] = set()
        for at, (lost, *_) in enumerate(floors):
            of_partition = answers[at * len(programs) : (at + 1) * len(programs)]
            found = program_coverage(programs, (lost, None), of_partition)  # a hole voids nothing
            lacking.update(program for program, each in found.items() if each.slot is None)
        # What ingest withdrew meanwhile is on its way to the agent.
        for program in lacking.intersection(self._coverage.stored_with(applied)):
            log.error("the agent has no coverage of a program: again", program=text(program))
            self._coverage.bootstrap_again(program)
        self._compared = compared
