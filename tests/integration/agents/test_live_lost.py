"""What tape-live no longer had when `live` was ready for it is on record, once, with its slots."""

from __future__ import annotations

import asyncio
from typing import Any

from confluent_kafka import TopicPartition

from infra.kafka import client, topics
from pipeline.agents.live.lost import LOST, SINCE_UNKNOWN
from schemas.events import Swap
from schemas.proto.tape_pb2 import SlotGap
from schemas.topics import GAPS, LIVE, SWAPS
from tests.support.agents.committing import until_committed

GROUP = "soltape-live"


async def forget(lane: Any) -> None:
    """Have the log lose all that the lane holds, as its retention would."""
    ends = await topics.end_offsets(lane.settings, LIVE)
    admin = client.admin(lane.settings)
    asked = [TopicPartition(LIVE.name, number, end) for number, end in ends.items()]
    for answer in admin.delete_records(asked).values():
        await asyncio.to_thread(answer.result)


async def send(lane: Any, count: int) -> list[Swap]:
    """Put swaps on the lane, each a batch of its own."""
    async with lane.publisher() as publisher:
        for _ in range(count):
            publisher.event(lane.swap())
            publisher.flush_live()
    return list(lane.sent[-count:])


async def arrived(lane: Any, swaps: list[Swap]) -> None:
    last = {swap.signature.encode() for swap in swaps}
    await lane.until(
        lambda: all(
            any(signature in record.value for record in lane.got[SWAPS.name]) for signature in last
        )
    )


async def gaps_of_live(lane: Any) -> list[SlotGap]:
    """All gaps of the group so far, oldest first."""
    found = [
        SlotGap.FromString(record.value)
        async for record in topics.records_so_far(lane.settings, GAPS)
    ]
    return [gap for gap in found if gap.lost_by.startswith("live ")]


async def test_what_the_lane_no_longer_has_is_on_record(lane, make_agent):
    await topics.create(lane.settings, [GAPS])
    before = len(await gaps_of_live(lane))
    agent = make_agent(lane.settings)
    agent.start()
    await agent.until_working()
    read = await send(lane, 120)
    await arrived(lane, read)
    await until_committed(lane.settings, GROUP, LIVE)
    agent.leave()

    lost = await send(lane, 120)
    await forget(lane)
    after = await send(lane, 120)
    agent.start()
    await arrived(lane, after)
    await until_committed(lane.settings, GROUP, LIVE)

    found = (await gaps_of_live(lane))[before:]
    reached = {LIVE.partition(swap.mint): swap.slot for swap in read}
    goes_on = {LIVE.partition(swap.mint): swap.slot for swap in reversed(after)}
    holed = {LIVE.partition(swap.mint) for swap in lost}
    assert {gap.lost_by for gap in found} == {f"live {partition}" for partition in holed}
    assert len(found) == len(holed)
    for gap in found:
        partition = int(gap.lost_by.removeprefix("live "))
        assert (gap.first_slot, gap.last_slot) == (reached[partition], goes_on[partition])
        assert gap.reason == LOST
    slots = sum(gap.last_slot - gap.first_slot + 1 for gap in found)
    await agent.until_metric(
        "soltape_agents_lost_slots_total", lambda count: count == slots, topic=LIVE.name
    )
    assert "going on without" in agent.new_log
    published = [record.value for record in lane.got[SWAPS.name]]
    assert not any(swap.signature.encode() in value for swap in lost for value in published)

    agent.leave()
    agent.start()
    await arrived(lane, await send(lane, 40))
    assert len(await gaps_of_live(lane)) == before + len(found), "once"


async def test_after_a_commit_without_a_slot_the_gap_says_that_its_beginning_is_unknown(
    lane, make_agent
):
    await topics.create(lane.settings, [GAPS])
    before = len(await gaps_of_live(lane))
    lost = await send(lane, 80)  # the commit is the fixture's, without a text
    await forget(lane)
    after = await send(lane, 80)
    agent = make_agent(lane.settings)
    agent.start()
    await arrived(lane, after)
    found = (await gaps_of_live(lane))[before:]
    goes_on = {f"live {LIVE.partition(swap.mint)}": swap.slot for swap in reversed(after)}
    assert {gap.lost_by for gap in found} == {f"live {LIVE.partition(s.mint)}" for s in lost}
    for gap in found:
        assert gap.first_slot == gap.last_slot == goes_on[gap.lost_by]
        assert gap.reason == SINCE_UNKNOWN
