"""The end of what takes too long."""

import asyncio

import pytest

from api.http.deadlines import Deadlines
from tests.support.waiting import eventually_async


def never():
    return asyncio.get_running_loop().create_future()


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
    deadlines = Deadlines(30)
    assert await within(deadlines, asyncio.sleep(0)) == ("done", False)
    assert asyncio.current_task().cancelling() == 0


async def test_nothing_is_late_before_its_time():
    deadlines = Deadlines(0.2)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    assert await within(deadlines, never()) == ("cancelled", True)
    assert loop.time() - began_s >= 0.2


async def test_what_is_late_may_go_on_with_something_else():
    deadlines = Deadlines(0.1)
    assert await within(deadlines, never()) == ("cancelled", True)
    assert asyncio.current_task().cancelling() == 0
    assert await within(deadlines, asyncio.sleep(0)) == ("done", False)


async def test_each_has_its_own_time():
    deadlines = Deadlines(0.4)
    ends = {}

    async def one(name, work):
        ends[name] = await within(deadlines, work)

    first = asyncio.create_task(one("first", never()))
    await asyncio.sleep(0.1)
    second = asyncio.create_task(one("second", never()))
    await one("quick", asyncio.sleep(0))
    await first
    assert ends == {"quick": ("done", False), "first": ("cancelled", True)}
    await second
    assert ends["second"] == ("cancelled", True)


async def test_a_cancelling_from_elsewhere_is_not_called_late():
    deadlines = Deadlines(60)
    task = asyncio.create_task(within(deadlines, never()))
    await asyncio.sleep(0)  # it has begun
    task.cancel()
    assert await task == ("cancelled", False)


async def test_nothing_looks_while_nothing_runs():
    deadlines = Deadlines(0.1)
    await within(deadlines, asyncio.sleep(0))
    # private `_look`: no answer shows whether the timer still runs.
    await eventually_async(lambda: deadlines._look is None)


async def test_work_that_answers_a_cancelling_with_an_error_is_late():
    deadlines = Deadlines(0.1)

    async def stubborn():
        try:
            await never()
        except asyncio.CancelledError:
            raise LookupError from None

    task = deadlines.enter(asyncio.get_running_loop())
    with pytest.raises(LookupError):
        await stubborn()
    assert deadlines.leave(task)


async def test_time_that_begins_again_is_whole():
    deadlines = Deadlines(0.4)
    loop = asyncio.get_running_loop()
    ends_s = {}

    async def again():
        await asyncio.sleep(0.2)
        deadlines.begin_again(asyncio.current_task(), loop)
        ends_s["least"] = loop.time() + 0.4
        await never()

    other = asyncio.create_task(within(deadlines, never()))
    assert await within(deadlines, again()) == ("cancelled", True)
    assert loop.time() >= ends_s["least"]
    assert await other == ("cancelled", True)


async def test_what_is_late_or_has_ended_begins_no_more():
    deadlines = Deadlines(0.1)
    loop = asyncio.get_running_loop()
    task = deadlines.enter(loop)
    with pytest.raises(asyncio.CancelledError):
        await never()
    deadlines.begin_again(task, loop)
    assert deadlines.leave(task)
    deadlines.begin_again(task, loop)
    assert await within(deadlines, asyncio.sleep(0)) == ("done", False)
