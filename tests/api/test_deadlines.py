"""The end of what takes too long."""

import asyncio
import time

import pytest

from api.deadlines import Deadlines


async def within(deadlines, work):
    """Return how it ended and whether it was late."""
    task = deadlines.enter(asyncio.get_running_loop())
    how = "done"
    try:
        await work
    except asyncio.CancelledError:
        how = "cancelled"
    return how, deadlines.leave(task)


async def test_what_is_in_time_is_left_alone():
    deadlines = Deadlines(0.5)
    assert await within(deadlines, asyncio.sleep(0.3)) == ("done", False)
    await asyncio.sleep(0.4)  # nothing comes later


async def test_what_is_late_is_cancelled_and_may_go_on_with_something_else():
    deadlines = Deadlines(0.2)
    began_s = time.monotonic()
    assert await within(deadlines, asyncio.sleep(10)) == ("cancelled", True)
    assert 0.19 < time.monotonic() - began_s < 0.5
    assert asyncio.current_task().cancelling() == 0
    await asyncio.sleep(0.05)
    assert await within(deadlines, asyncio.sleep(0.1)) == ("done", False)


async def test_each_has_its_own_time():
    deadlines = Deadlines(0.4)
    ends = []

    async def one(after_s, takes_s):
        await asyncio.sleep(after_s)
        ends.append((after_s, *await within(deadlines, asyncio.sleep(takes_s))))

    await asyncio.gather(one(0, 5), one(0.1, 0.2), one(0.2, 5), one(0.3, 0.05))
    assert ends == [
        (0.1, "done", False),
        (0.3, "done", False),
        (0, "cancelled", True),
        (0.2, "cancelled", True),
    ]


async def test_a_cancelling_from_elsewhere_is_not_called_late():
    deadlines = Deadlines(5)
    task = asyncio.create_task(within(deadlines, asyncio.sleep(10)))
    await asyncio.sleep(0.05)
    task.cancel()
    assert await task == ("cancelled", False)


async def test_nothing_looks_while_nothing_runs():
    deadlines = Deadlines(0.1)
    await within(deadlines, asyncio.sleep(0))
    await asyncio.sleep(0.2)
    assert deadlines._look is None


async def test_work_that_answers_a_cancelling_with_an_error_is_late():
    deadlines = Deadlines(0.1)

    async def stubborn():
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            raise LookupError from None

    task = deadlines.enter(asyncio.get_running_loop())
    with pytest.raises(LookupError):
        await stubborn()
    assert deadlines.leave(task)
    await asyncio.sleep(0.05)
