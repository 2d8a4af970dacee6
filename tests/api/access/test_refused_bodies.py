"""What is read of a request whose key was refused: little, at once, and few at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Receive

from api.access import refused_bodies
from api.access.refused_bodies import AT_ONCE, OF_ONE, WITHIN_S, RefusedBodies
from api.http.errors import BODY_TOO_LARGE, Problem

MANY = 8 * AT_ONCE  # requests of one holder in flight


def _scope(*sizes: bytes, method: str = "POST") -> dict[str, Any]:
    return {"method": method, "headers": [(b"content-length", size) for size in sizes]}


async def _at_once() -> dict[str, Any]:
    return {"type": "http.request", "body": b"{}", "more_body": False}


async def _never() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def _not_asked() -> dict[str, Any]:
    raise AssertionError("asked for the body")


async def _too_large() -> dict[str, Any]:
    raise Problem(BODY_TOO_LARGE, "as asked")


async def _left() -> dict[str, Any]:
    return {"type": "http.disconnect"}


async def test_a_short_body_is_read_and_given_again() -> None:
    again = await RefusedBodies(MANY).read(_scope(b"2"), _at_once, "a")
    assert again is not None
    assert await again() == {"type": "http.request", "body": b"{}", "more_body": False}


@pytest.mark.parametrize(
    "sizes",
    [(), (b"0",), (b"16385",), (b"9" * 5000,), (b"000000002",), (b"-1",), (b"x",), (b"2", b"2")],
)
async def test_none_is_read_that_does_not_say_that_it_is_short(sizes: tuple[bytes, ...]) -> None:
    assert await RefusedBodies(MANY).read(_scope(*sizes), _not_asked, "a") is None


@pytest.mark.parametrize("size", [b"1", b"16384", b"00000002"])
async def test_one_is_read_that_says_that_it_is_short(size: bytes) -> None:
    assert await RefusedBodies(MANY).read(_scope(size), _at_once, "a") is not None


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
async def test_only_what_may_be_a_call_is_waited_for(method: str) -> None:
    assert await RefusedBodies(MANY).read(_scope(b"2", method=method), _not_asked, "a") is None


@pytest.mark.parametrize("receive", [_left, _too_large])
async def test_a_body_that_does_not_come_whole_is_none(receive: Receive) -> None:
    assert await RefusedBodies(MANY).read(_scope(b"2"), receive, "a") is None


async def _blocked(found: RefusedBodies, holders: list[str]) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(found.read(_scope(b"2"), _never, each)) for each in holders]
    await asyncio.sleep(0)  # all of them begin
    return tasks


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("most_in_flight", "at_once"), [(1, 1), (8, 1), (16, 2), (64, 8), (MANY, AT_ONCE), (10**6, 16)]
)
async def test_few_are_waited_for(most_in_flight: int, at_once: int) -> None:
    found = RefusedBodies(most_in_flight)
    slow = await _blocked(found, [str(number) for number in range(at_once)])
    assert await found.read(_scope(b"2"), _at_once, "another") is None
    await _end(slow[:1])
    assert await found.read(_scope(b"2"), _at_once, "another") is not None
    await _end(slow)


async def test_one_holder_is_waited_for_less() -> None:
    found = RefusedBodies(MANY)
    slow = await _blocked(found, ["a"] * OF_ONE)
    assert await found.read(_scope(b"2"), _at_once, "a") is None
    assert await found.read(_scope(b"2"), _at_once, "b") is not None
    await _end(slow)
    assert await found.read(_scope(b"2"), _at_once, "a") is not None


def test_one_is_waited_for_a_second() -> None:
    assert WITHIN_S == 1.0


async def test_none_is_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_bodies, "WITHIN_S", 0.01)
    found = RefusedBodies(8)
    assert await found.read(_scope(b"2"), _never, "a") is None
    assert await found.read(_scope(b"2"), _at_once, "a") is not None
