"""What requests share: one reading for many, answers within so many bytes."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from api.readers.shared import Kept, Remembered, Shared


class Told(NamedTuple):
    json: bytes


def test_answers_are_kept_within_so_many_bytes() -> None:
    kept: Kept[Told] = Kept(10)
    for key in "abc":
        kept.put(key, Told(b"1234"))
    assert [key for key in "abc" if kept.get(key)] == ["b", "c"]
    kept.put("b", Told(b"12"))  # now the last to have come
    kept.put("d", Told(b"1234"))
    assert [key for key in "abcd" if kept.get(key)] == ["b", "c", "d"]
    kept.put("e", Told(b"1"))
    assert [key for key in "bcde" if kept.get(key)] == ["b", "d", "e"]
    kept.put("f", Told(b"more than there is room for"))
    assert not any(kept.get(key) for key in "bcdef")


def test_as_much_is_remembered_as_there_is_room_for() -> None:
    remembered: Remembered[str, int] = Remembered(3)
    for value, key in enumerate("abacd"):
        remembered.put(key, value)
    assert remembered.kept == {"a": 2, "c": 3, "d": 4}


async def test_a_reading_is_begun_anew_when_the_last_is_old_or_failed() -> None:
    readings = iter([1, ValueError("no"), 3])

    async def read() -> int:
        await asyncio.sleep(0)
        found = next(readings)
        if isinstance(found, Exception):
            raise found
        return found

    shared = Shared(read, fresh_for_s=-1.0)
    assert await asyncio.gather(*(shared.get() for _ in range(3))) == [1, 1, 1]
    with pytest.raises(ValueError, match="no"):
        await shared.get()
    assert await shared.get() == 3
