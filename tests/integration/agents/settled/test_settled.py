"""Every slot once: whatever is killed, put back in time, or sent that is no slot."""

import asyncio


def some(count):
    """Whether all partitions have come so far."""
    return lambda state: all(applied >= count for applied, _ in state.values())


async def test_killed_at_any_moment_each_slot_is_applied_once(lane, workers):
    lane.send(200)
    for after_s in (0.0, 0.35, 0.8):
        child = workers.start()
        before = min(count for count, _ in (await workers.state()).values())
        await workers.until(some(before + 1))
        lane.send(100)
        await asyncio.sleep(after_s)
        child.kill()
        child.wait()
    workers.start()
    lane.send(5)
    await workers.until_applied(lane)
