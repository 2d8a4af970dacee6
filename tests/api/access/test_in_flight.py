"""Turns of requests that take long, by holder."""

from __future__ import annotations

import asyncio

from api.access.in_flight import Turns
from tests.support.waiting import eventually_async


class Request:
    """A request that takes a turn, and ends when a test says so."""

    def __init__(self, turns: Turns, holder: str) -> None:
        self.is_running = False
        self._end = asyncio.Event()
        self.task = asyncio.create_task(self._run(turns, holder))

    async def _run(self, turns: Turns, holder: str) -> None:
        async with turns.take(holder):
            self.is_running = True
            await self._end.wait()

    async def runs(self) -> None:
        await eventually_async(lambda: self.is_running)

    async def ends(self) -> None:
        self._end.set()
        await self.task


async def test_whoever_asks_after_others_left_waits_for_those_who_did_not() -> None:
    turns = Turns(1)
    first, second = Request(turns, "a"), Request(turns, "a")
    await first.runs()
    await first.ends()
    await second.runs()
    third, other = Request(turns, "a"), Request(turns, "b")
    await other.runs()  # it asked last, and had to wait for nobody
    assert not third.is_running
    await second.ends()
    await third.runs()
    await third.ends()
    await other.ends()


async def test_nothing_is_kept_of_a_holder_whose_requests_have_ended() -> None:
    turns = Turns(1)
    requests = [Request(turns, "a") for _ in range(3)]
    await requests[0].runs()
    requests[1].task.cancel()
    await requests[0].ends()
    await requests[2].ends()
    await asyncio.wait([each.task for each in requests])
    # private `_turns`: what is kept of holders that are gone fills the memory only after days.
    assert turns._turns == {}
