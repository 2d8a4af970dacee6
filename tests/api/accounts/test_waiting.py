"""Requests that wait share one look, and each waits no longer than it asked to."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from api.access.refusals import store_unavailable
from api.accounts.waiting import Waited, Waiting
from tests.support.waiting import eventually_async

FAST_S = 0.005
LONG_S = 60.0
KEY = "k"


class Looks:
    """A store that has some of what is waited for."""

    def __init__(self) -> None:
        self.complete: set[str] = set()
        self.asked: list[list[str]] = []
        self.fails = 0

    async def __call__(self, wanted: Collection[str]) -> Collection[str]:
        self.asked.append(sorted(wanted))
        if self.fails:
            self.fails -= 1
            raise store_unavailable("redis")
        return self.complete & {*wanted}


@pytest.fixture
def looks() -> Looks:
    return Looks()


async def test_two_hundred_waiters_cost_one_look(looks: Looks) -> None:
    waiting = Waiting(looks, 200, 200, FAST_S)
    looks.complete = {f"w{n % 50}" for n in range(200)}
    ended = await asyncio.gather(
        *(waiting.until_complete(f"w{n % 50}", LONG_S, KEY) for n in range(200))
    )
    assert ended == [Waited.COMPLETE] * 200
    assert looks.asked == [sorted(looks.complete)]


async def test_each_is_looked_for_until_it_is_complete(looks: Looks) -> None:
    waiting = Waiting(looks, 10, 10, FAST_S)
    first = asyncio.create_task(waiting.until_complete("a", LONG_S, KEY))
    second = asyncio.create_task(waiting.until_complete("b", LONG_S, KEY))
    await eventually_async(lambda: looks.asked)
    looks.complete.add("b")
    assert await second is Waited.COMPLETE
    assert not first.done()
    looks.complete.add("a")
    assert await first is Waited.COMPLETE
    assert looks.asked[0] == ["a", "b"]
    assert looks.asked[-1] == ["a"]


async def test_a_wait_ends_in_time_and_the_looks_with_it(looks: Looks) -> None:
    waiting = Waiting(looks, 10, 10, FAST_S)
    assert await waiting.until_complete("a", 0.05, KEY) is Waited.TIMED_OUT
    for _ in range(3):
        await asyncio.sleep(2 * FAST_S)
    seen = len(looks.asked)
    await asyncio.sleep(10 * FAST_S)
    assert len(looks.asked) == seen, "nobody waits, so nobody looks"
    looks.complete.add("a")
    assert await waiting.until_complete("a", LONG_S, KEY) is Waited.COMPLETE


async def test_no_more_wait_than_may(looks: Looks) -> None:
    waiting = Waiting(looks, 2, 2, FAST_S)
    held = [asyncio.create_task(waiting.until_complete("a", LONG_S, KEY)) for _ in range(2)]
    await asyncio.sleep(0)
    assert await waiting.until_complete("a", LONG_S, KEY) is Waited.NO_ROOM
    held[0].cancel()
    await asyncio.gather(held[0], return_exceptions=True)
    looks.complete.add("a")
    assert await waiting.until_complete("a", LONG_S, KEY) is Waited.COMPLETE
    assert await held[1] is Waited.COMPLETE


async def test_one_key_does_not_take_the_places_of_all(looks: Looks) -> None:
    waiting = Waiting(looks, 8, 2, FAST_S)
    held = [asyncio.create_task(waiting.until_complete("a", LONG_S, KEY)) for _ in range(2)]
    await asyncio.sleep(0)
    assert await waiting.until_complete("a", LONG_S, KEY) is Waited.NO_ROOM
    other = asyncio.create_task(waiting.until_complete("b", LONG_S, "other"))
    looks.complete = {"b"}
    assert await other is Waited.COMPLETE
    looks.complete = {"a"}
    assert await asyncio.gather(*held) == [Waited.COMPLETE] * 2
    assert await waiting.until_complete("a", LONG_S, KEY) is Waited.COMPLETE


async def test_a_store_that_fails_is_looked_at_again(looks: Looks) -> None:
    waiting = Waiting(looks, 2, 2, FAST_S)
    looks.complete, looks.fails = {"a"}, 3
    assert await waiting.until_complete("a", LONG_S, KEY) is Waited.COMPLETE
    assert len(looks.asked) == 4
    await waiting.aclose()
