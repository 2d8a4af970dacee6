"""Two `soltape ingest` on one broker: one writes, the other takes over, nothing comes twice."""

from __future__ import annotations

import asyncio
import re
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from infra.settings import Settings
from pipeline.ingest.standby import LOOK_S
from schemas.proto import tape_pb2
from schemas.topics import LIVE
from tests.integration.ingest.test_ingest import check_lanes, gaps, until_settled
from tests.support.topics import values_of
from tests.support.waiting import eventually_async

MakeNode = Callable[..., Any]
MakeRole = Callable[[dict[str, str]], Any]
STANDBY = "standby: another ingest has the lane"
TAKEOVER_BAR_S = 10.0
# What a takeover costs beside the silence: the next epoch from the broker, the log's tail, and the
# first slot until Kafka has it. `.env.example` promises "another second or two".
ITSELF_S = 2.0


async def readiness(role: Any) -> tuple[int, dict[str, str]]:
    """Return the status of a role's /ready and what it lacks."""
    url = f"http://127.0.0.1:{role.metrics_port}/ready"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, (await answer.json(content_type=None))["lacking"]


def head(node: Any) -> int:
    """The highest slot that the node has sent something of."""
    return max(slot for slot, _ in node.log)


async def live_swaps(kafka: str) -> Counter[tuple[int, str]]:
    """How often each (slot, signature) is on the live lane."""
    return Counter(
        (event.swap.slot, event.swap.signature)
        for values in (await values_of(kafka, LIVE)).values()
        for value in values
        for event in tape_pb2.LiveBatch.FromString(value).events
        if event.HasField("swap")
    )


def test_a_takeover_fits_into_ten_seconds_by_the_settings() -> None:
    """The lane grows with each slot; a look sees that late, and so it sees the silence's end."""
    silence_s = float(Settings.model_fields["ingest_takeover_s"].default)
    assert 2 * LOOK_S + silence_s + ITSELF_S <= TAKEOVER_BAR_S


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
async def test_the_standby_takes_over(
    kafka: str, make_node: MakeNode, make_role: MakeRole, number: signal.Signals
) -> None:
    node = make_node(seed=8, slots=400, held_slots=40, replay_slots=0, rpc_serves=False)
    async with node.serve() as environment:
        first, second = (make_role(environment | {"KAFKA_BOOTSTRAP": kafka}) for _ in range(2))
        live = asyncio.create_task(node.live())
        first.start()
        await until_settled(kafka, node.chain[10].slot)
        second.start()
        await eventually_async(lambda: second.has_said("stream open"))
        assert second.has_said(STANDBY)
        assert await readiness(second) == (503, {"transactions": STANDBY})
        assert (await readiness(first))[0] == 200
        await until_settled(kafka, head(node) + 16)  # of which it has seen some whole
        first.process.send_signal(number)
        reached = head(node)
        await eventually_async(lambda: second.has_said("active "), lambda: second.log)
        if number is signal.SIGSTOP:
            first.process.send_signal(signal.SIGCONT)
            await eventually_async(lambda: first.has_said("the lane is lost: standby"))
            await eventually_async(lambda: first.has_said(STANDBY))
            assert "old epoch" in first.log
        node.go_on.set()
        await live
        await until_settled(kafka, node.canonical[-1].slot)
        for role in (first, second):
            if role.process.poll() is None:
                assert await asyncio.to_thread(role.stop, signal.SIGTERM) == 0
    assert "stream_was_warm=True" in second.log
    await check_lanes(kafka, node)
    assert await gaps(kafka) == []
    # The live lane has what was not settled yet twice, as after a restart, and nothing else.
    continued = int(re.findall(r"active .*settled_slot=(\d+)", second.log)[-1])
    swaps = await live_swaps(kafka)
    again = {slot for (slot, _), times in swaps.items() if times > 1}
    assert all(continued < slot <= reached + 1 for slot in again), (again, reached)
    assert max(swaps.values()) <= 2
    begun = min(slot for slot, _ in swaps)
    expected = {(slot, signature) for slot, some in node.expected(begun) for signature, _ in some}
    assert expected <= set(swaps)


async def test_a_lone_ingest_waits_for_nobody(
    kafka: str, make_node: MakeNode, make_role: MakeRole
) -> None:
    node = make_node(seed=9, slots=60)
    async with node.serve() as environment:
        role = make_role(environment | {"KAFKA_BOOTSTRAP": kafka, "INGEST_TAKEOVER_S": "60"})
        live = asyncio.create_task(node.live())
        role.start()
        await live
        await until_settled(kafka, node.canonical[-1].slot)
        assert await asyncio.to_thread(role.stop, signal.SIGTERM) == 0
    assert "standby" not in role.log
    await check_lanes(kafka, node)


@pytest.mark.slow
async def test_two_that_start_together_come_to_one_producer(
    kafka: str, make_node: MakeNode, make_role: MakeRole
) -> None:
    node = make_node(seed=10, slots=200, held_slots=40)
    async with node.serve() as environment:
        environment |= {"KAFKA_BOOTSTRAP": kafka, "INGEST_TAKEOVER_S": "20"}
        roles = [make_role(environment) for _ in range(2)]
        live = asyncio.create_task(node.live())
        for role in roles:
            role.start()
        await eventually_async(lambda: any(role.has_said(STANDBY) for role in roles))
        node.go_on.set()
        await live
        await until_settled(kafka, node.canonical[-1].slot)
        for role in roles:
            assert await asyncio.to_thread(role.stop, signal.SIGTERM) == 0
    assert sum(role.log.count("the lane is lost") for role in roles) <= 1
    await check_lanes(kafka, node)
    assert await gaps(kafka) == []
