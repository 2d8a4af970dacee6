"""How many bodies of paid requests are awaited at once, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from api.http.errors import BUSY, CONCURRENCY_EXCEEDED, REQUEST_TIMED_OUT, Problem
from api.pay import awaited_bodies
from api.pay.awaited_bodies import (
    AT_ONCE,
    OF_ONE,
    TURNS,
    WITHIN_S,
    AwaitedBodies,
    NoPlace,
    read,
)

MANY = 100 * AT_ONCE  # payments at once


async def never() -> Any:
    await asyncio.Event().wait()


async def begun(found: AwaitedBodies, caller: str) -> asyncio.Task[tuple[bytes, bool]]:
    """Return the reading of a body that does not come, once it waits or was refused."""
    reading = asyncio.create_task(found.read(caller, never))
    for _ in range(2 * TURNS):
        await asyncio.sleep(0)
    return reading


async def ended(*readings: asyncio.Task[Any]) -> None:
    for each in readings:
        each.cancel()
    await asyncio.wait(readings)


def refused(reading: asyncio.Task[Any]) -> Any:
    assert reading.done()
    with pytest.raises(NoPlace) as caught:
        reading.result()
    return caught.value.kind


@pytest.mark.parametrize(
    ("most_in_flight", "at_once"), [(1, 1), (8, 2), (128, AT_ONCE), (MANY, AT_ONCE)]
)
async def test_few_are_awaited_by_a_process(most_in_flight: int, at_once: int) -> None:
    found = AwaitedBodies(most_in_flight)
    waiting = [await begun(found, str(number)) for number in range(at_once)]
    assert not any(each.done() for each in waiting)
    assert refused(await begun(found, "another")) is BUSY
    await ended(waiting.pop())
    waiting.append(await begun(found, "another"))
    assert not waiting[-1].done()
    await ended(*waiting)


async def test_fewer_are_awaited_of_one_address() -> None:
    found = AwaitedBodies(MANY)
    waiting = [await begun(found, "a") for _ in range(OF_ONE)]
    assert refused(await begun(found, "a")) is CONCURRENCY_EXCEEDED
    waiting.append(await begun(found, "b"))
    await ended(waiting.pop(0))
    waiting.append(await begun(found, "a"))
    assert not any(each.done() for each in waiting)
    await ended(*waiting)
    assert OF_ONE < AT_ONCE


async def test_one_that_finds_no_place_in_the_process_takes_none_of_its_address() -> None:
    found = AwaitedBodies(1)
    first = await begun(found, "a")
    for _ in range(2 * OF_ONE):
        assert refused(await begun(found, "b")) is BUSY
    await ended(first)
    second = await begun(found, "b")
    assert not second.done()
    await ended(second)


async def test_what_is_here_with_its_head_needs_no_place() -> None:
    found = AwaitedBodies(1)
    waiting = await begun(found, "a")

    async def whole() -> Any:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    for _ in range(2 * AT_ONCE):
        assert await found.read("a", whole) == (b"{}", False)
    assert not waiting.done()
    await ended(waiting)


async def test_what_comes_later_was_awaited_and_gives_its_place_back() -> None:
    found, come = AwaitedBodies(1), asyncio.Event()

    async def later() -> Any:
        await come.wait()
        return {"type": "http.request", "body": b"{}", "more_body": False}

    for _ in range(2):  # a place that is not given back would be missing
        come.clear()
        reading = asyncio.create_task(found.read("a", later))
        for _ in range(2 * TURNS):
            await asyncio.sleep(0)
        come.set()
        assert await reading == (b"{}", True)


async def test_a_body_that_is_whole_is_read_and_one_that_is_cut_off_is_not() -> None:
    messages = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.request", "body": b"}", "more_body": False},
    ]

    async def whole() -> Any:
        return messages.pop(0)

    async def left() -> Any:
        return {"type": "http.disconnect"}

    assert await read(whole) == b"{}"
    with pytest.raises(ClientDisconnect):
        await read(left)


async def test_none_is_awaited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert WITHIN_S == 2.0
    monkeypatch.setattr(awaited_bodies, "WITHIN_S", 0.01)

    with pytest.raises(Problem) as caught:
        await read(never)
    assert caught.value.kind is REQUEST_TIMED_OUT
