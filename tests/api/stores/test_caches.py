"""What requests share: one reading for many, answers within so many bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from api.http.encoding import Encoded
from api.stores.caches import AnswerCache, BoundedCache, CachedAnswers, SharedReading, SingleFlight


class Sized(NamedTuple):
    json: bytes


def test_answers_are_kept_within_so_many_bytes() -> None:
    kept: AnswerCache[Sized] = AnswerCache(10)
    for key in "abc":
        kept.put(key, Sized(b"1234"))
    assert [key for key in "abc" if kept.get(key)] == ["b", "c"]
    kept.put("b", Sized(b"12"))  # now the last to have come
    kept.put("d", Sized(b"1234"))
    assert [key for key in "abcd" if kept.get(key)] == ["b", "c", "d"]
    kept.put("e", Sized(b"1"))
    assert [key for key in "bcde" if kept.get(key)] == ["b", "d", "e"]
    kept.put("f", Sized(b"more than there is room for"))
    assert [key for key in "bcdef" if kept.get(key)] == ["b", "d", "e"]


def test_as_much_is_remembered_as_there_is_room_for() -> None:
    remembered: BoundedCache[str, int] = BoundedCache(3)
    for value, key in enumerate("abacd"):
        remembered.put(key, value)
    assert remembered.kept == {"a": 2, "c": 3, "d": 4}


async def test_a_reading_is_begun_anew_when_the_last_is_old_or_failed() -> None:
    readings: Iterator[Any] = iter([1, ValueError("no"), 3])

    async def read() -> int:
        await asyncio.sleep(0)
        found = next(readings)
        if isinstance(found, Exception):
            raise found
        return int(found)

    shared = SharedReading(read, fresh_for_s=-1.0)
    assert await asyncio.gather(*(shared.get() for _ in range(3))) == [1, 1, 1]
    with pytest.raises(ValueError, match="no"):
        await shared.get()
    assert await shared.get() == 3


class Reader:
    """Counts its reads; each waits until it is let go."""

    def __init__(self) -> None:
        self.reads = 0
        self.goes_on = asyncio.Event()
        self.error: Exception | None = None

    async def read(self, asked: str) -> dict[str, int]:
        self.reads += 1
        number = self.reads
        await self.goes_on.wait()
        if self.error is not None:
            raise self.error
        return {asked: number}


async def begun(
    count: int, answers: SingleFlight | CachedAnswers, reader: Reader
) -> list[asyncio.Task[Encoded]]:
    tasks = [asyncio.create_task(answers.get(reader.read, "a")) for _ in range(count)]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


@pytest.mark.parametrize("make", [SingleFlight, lambda: CachedAnswers(1_000)])
async def test_identical_reads_under_way_are_read_once(make: Any) -> None:
    reader, answers = Reader(), make()
    tasks = await begun(5, answers, reader)
    other = asyncio.create_task(answers.get(reader.read, "b"))
    await asyncio.sleep(0)
    assert reader.reads == 2
    reader.goes_on.set()
    assert {(await task).body for task in tasks} == {b'{"a":1}'}
    assert (await other).body == b'{"b":2}'


@pytest.mark.parametrize("make", [SingleFlight, lambda: CachedAnswers(1_000)])
async def test_a_caller_that_leaves_takes_the_answer_from_nobody(make: Any) -> None:
    reader, answers = Reader(), make()
    first, second, third = await begun(3, answers, reader)
    third.cancel()
    first.cancel()  # it was reading: another one reads now
    with pytest.raises(asyncio.CancelledError):
        await first
    for _ in range(5):
        await asyncio.sleep(0)
    assert reader.reads == 2
    reader.goes_on.set()
    assert (await second).body == b'{"a":2}'


async def test_an_error_reaches_all_who_waited_and_is_not_kept() -> None:
    reader, answers = Reader(), CachedAnswers(1_000)
    tasks = await begun(3, answers, reader)
    reader.error = ValueError("no")
    reader.goes_on.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(each) for each in found] == ["no"] * 3
    reader.error = None
    assert (await answers.get(reader.read, "a")).body == b'{"a":2}'
    assert (await answers.get(reader.read, "a")).body == b'{"a":2}'
    assert reader.reads == 2
