"""What is read of a request whose key was refused: little, at once, and few at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.access import refused_bodies
from api.access.refused_bodies import AT_ONCE, MOST_BYTES, RefusedBodies


def _scope(*sizes: bytes) -> dict[str, Any]:
    return {"headers": [(b"content-length", size) for size in sizes]}


async def _at_once() -> dict[str, Any]:
    return {"type": "http.request", "body": b"{}", "more_body": False}


async def _never() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def _left() -> dict[str, Any]:
    return {"type": "http.disconnect"}


async def test_a_short_body_is_read_and_given_again() -> None:
    again = await RefusedBodies().read(_scope(b"2"), _at_once)
    assert again is not None
    assert await again() == {"type": "http.request", "body": b"{}", "more_body": False}


@pytest.mark.parametrize(
    "sizes",
    [(), (b"0",), (b"%d" % (MOST_BYTES + 1),), (b"9" * 5000,), (b"-1",), (b"x",), (b"2", b"2")],
)
async def test_none_is_read_that_does_not_say_that_it_is_short(sizes: tuple[bytes, ...]) -> None:
    assert await RefusedBodies().read(_scope(*sizes), _never) is None


async def test_a_caller_who_leaves_is_not_answered() -> None:
    assert await RefusedBodies().read(_scope(b"2"), _left) is None


async def test_few_are_waited_for_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    found = RefusedBodies()
    slow = [asyncio.create_task(found.read(_scope(b"2"), _never)) for _ in range(AT_ONCE)]
    await asyncio.sleep(0)  # all of them begin
    assert await found.read(_scope(b"2"), _at_once) is None
    slow[0].cancel()
    await asyncio.gather(slow[0], return_exceptions=True)
    assert await found.read(_scope(b"2"), _at_once) is not None
    for task in slow[1:]:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    monkeypatch.setattr(refused_bodies, "WITHIN_S", 0.01)
    assert await found.read(_scope(b"2"), _never) is None
    assert await found.read(_scope(b"2"), _at_once) is not None
