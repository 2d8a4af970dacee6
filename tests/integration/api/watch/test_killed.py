"""Processes that are killed: one watches at a time, and no alert is lost or comes twice."""

# ruff: noqa: F401, F811 - the fixtures are of another file

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from infra.settings import Settings
from schemas.redis_keys import WATCH_LEASE
from tests.api.watch.test_crossings import THRESHOLDS, Trigger
from tests.integration.api.positions.test_aggregates import Stocked, _protocols, chain
from tests.integration.api.watch.watching import Borrower, Process, alerts_of, events
from tests.support.waiting import eventually_async

pytestmark = [pytest.mark.slow, pytest.mark.processes]

LEVELS = (3_000, 1_040, 1_300, 1_090, 1_500, 990, 1_200, 1_005)
KILLED_AT = (1_040, 1_500, 990)  # a start takes seconds

Start = Callable[[], Process]


@pytest.fixture
def start(settings: Settings, tmp_path: Path) -> Iterator[Start]:
    """Start a process that watches; all are ended at the end."""
    started: list[Process] = []

    def one() -> Process:
        process = Process(settings, tmp_path)
        process.start()
        started.append(process)
        return process

    yield one
    for process in started:
        process.kill()


async def holder(chain: Stocked) -> bytes | None:
    found: bytes | None = await chain.redis.get(WATCH_LEASE.make())
    return found


async def test_a_process_that_is_killed_is_replaced_and_nothing_alerts_twice(
    chain: Stocked, start: Start
) -> None:
    borrower = await Borrower.begin(chain, 3_000)
    first, second = start(), start()
    await borrower.seen(3.0)

    async def both_began() -> bool:
        return all("watching" in each.said() or "standby" in each.said() for each in both)

    both = (first, second)
    await eventually_async(both_began)
    token = await holder(chain)
    active = next(each for each in both if "watching" in each.said())
    active.kill()

    async def is_another() -> bool:
        return await holder(chain) not in (None, token)

    await eventually_async(is_another)
    await borrower.owes(1_050)
    await borrower.seen(1.05)
    assert len(await alerts_of(chain.redis, borrower.name, 1.1)) == 1
    # One that is asked to end gives the lease back.
    other = next(each for each in both if each is not active)
    assert other.stop() == 0, other.said()

    async def is_free() -> bool:
        return await holder(chain) is None

    await eventually_async(is_free)


async def test_killed_at_any_moment_each_crossing_alerts_once(chain: Stocked, start: Start) -> None:
    random = Random(5)
    borrower = await Borrower.begin(chain, LEVELS[0])
    triggers = [Trigger(each) for each in THRESHOLDS]
    running = start()
    for supplied in LEVELS:
        await borrower.owes(supplied)
        if supplied in KILLED_AT:
            # Before, within or after the reading that sees it.
            await asyncio.sleep(random.uniform(0.0, 1.5))
            running.kill()
            # Nobody else waits: the lease would only take time.
            await chain.redis.delete(WATCH_LEASE.make())
            running = start()
        for trigger in triggers:
            trigger.look(supplied / 1_000)
        before = await borrower.level()

        async def is_seen(supplied: int = supplied, before: float | None = before) -> bool:
            level = await borrower.level()
            wanted = supplied / 1_000
            return level is not None and wanted / 1.02 <= level <= wanted

        await eventually_async(is_seen, running.said)
    counts = [len(await alerts_of(chain.redis, borrower.name, each.threshold)) for each in triggers]
    assert counts == [each.count for each in triggers]
    assert max(counts) == 4
    ids = [event.frame for event in await events(chain.redis)]
    assert len(ids) == len(set(ids))
