"""How many bodies of paid requests are awaited at once, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from api.http.errors import BUSY, CONCURRENCY_EXCEEDED, REQUEST_TIMED_OUT, Problem
from api.pay import awaited_bodies
from api.pay.awaited_bodies import AT_ONCE, OF_ONE, WITHIN_S, AwaitedBodies, read

MANY = 100 * AT_ONCE  # payments at once


def refused(found: AwaitedBodies, caller: str) -> Any:
    with pytest.raises(Problem) as caught:
        found.enter(caller)
    return caught.value.kind


@pytest.mark.parametrize(
    ("most_in_flight", "at_once"), [(1, 1), (8, 2), (128, AT_ONCE), (MANY, AT_ONCE)]
)
def test_few_are_awaited_by_a_process(most_in_flight: int, at_once: int) -> None:
    found = AwaitedBodies(most_in_flight)
    for number in range(at_once):
        found.enter(str(number))
    assert refused(found, "another") is BUSY
    found.leave("0")
    found.enter("another")


def test_fewer_are_awaited_of_one_address() -> None:
    found = AwaitedBodies(MANY)
    for _ in range(OF_ONE):
        found.enter("a")
    assert refused(found, "a") is CONCURRENCY_EXCEEDED
    found.enter("b")
    found.leave("a")
    found.enter("a")
    assert OF_ONE < AT_ONCE


def test_one_that_finds_no_place_in_the_process_takes_none_of_its_address() -> None:
    found = AwaitedBodies(1)
    found.enter("a")
    for _ in range(2 * OF_ONE):
        assert refused(found, "b") is BUSY
    found.leave("a")
    found.enter("b")


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

    async def never() -> Any:
        await asyncio.Event().wait()

    with pytest.raises(Problem) as caught:
        await read(never)
    assert caught.value.kind is REQUEST_TIMED_OUT
