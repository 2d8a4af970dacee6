from __future__ import annotations

import asyncio

from pipeline.ingest.intake import Connected, Intake


async def test_order_is_kept_and_the_reader_waits_when_full() -> None:
    intake = Intake(max_updates=3)
    items: list[bytes | Connected] = [Connected(5), *(bytes([n]) * 10 for n in range(20))]

    async def read() -> None:
        for item in items:
            await intake.put(item)

    reader = asyncio.create_task(read())
    await asyncio.sleep(0)
    assert intake.full
    assert len(intake) == 3
    taken: list[bytes | Connected] = []
    while len(taken) < len(items):
        taken += await asyncio.wait_for(intake.take(2), 120)
        assert len(intake) <= 3
    await reader
    assert taken == items
    assert intake.stalls > 0
    assert intake.bytes == 0


async def test_bytes_are_bounded_too() -> None:
    intake = Intake(max_updates=100, max_bytes=1000)
    await intake.put(bytes(600))
    await intake.put(bytes(600))
    assert intake.full
    await intake.take(1)
    assert not intake.full


async def test_take_waits_for_the_first() -> None:
    intake = Intake(max_updates=3)
    taker = asyncio.create_task(intake.take(10))
    await asyncio.sleep(0)
    assert not taker.done()
    await intake.put(b"x")
    assert await asyncio.wait_for(taker, 120) == [b"x"]
