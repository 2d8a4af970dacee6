"""When the client resumes, when it stops trying to, and what a closed stream leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from infra.local.process import free_port
from infra.settings import Settings
from pipeline.chaos.balancer import Balancer

# private `_Checkpoint`: where to resume, without a node that breaks at the given slot.
from pipeline.ingest.geyser import _Checkpoint
from pipeline.ingest.stream import Stream
from schemas.proto.geyser_pb2 import SubscribeUpdate
from tests.support.waiting import eventually_async


def test_a_refused_slot_is_given_up_after_the_limit() -> None:
    checkpoint = _Checkpoint(limit=2)
    assert checkpoint.choose(100) == 100
    checkpoint.refused()
    assert checkpoint.choose(100) == 100
    checkpoint.refused()
    assert checkpoint.choose(100) is None
    assert checkpoint.choose(101) == 101, "progress makes a new checkpoint"


def test_an_outage_is_no_refusal() -> None:
    checkpoint = _Checkpoint(limit=1)
    for _ in range(10):
        assert checkpoint.choose(100) == 100


def test_after_going_live_the_next_stream_resumes_from_there() -> None:
    checkpoint = _Checkpoint(limit=1)
    checkpoint.choose(100)
    checkpoint.refused()
    assert checkpoint.choose(100) is None
    checkpoint.floor = 500  # first slot of the live stream
    assert checkpoint.choose(100) == 500
    assert checkpoint.choose(501) == 501


def test_a_new_tape_goes_live() -> None:
    assert _Checkpoint(limit=1).choose(None) is None


async def _updates(_: AsyncIterator[bytes], context: Any) -> None:
    update = SubscribeUpdate()
    update.account.slot = 1
    while True:
        await context.write(update.SerializeToString())
        await asyncio.sleep(0.001)


async def test_a_stream_that_is_closed_leaves_no_connection() -> None:
    """Nor where its task is known on: a standby that takes over opens others beside."""
    subscribe = grpc.stream_stream_rpc_method_handler(_updates)
    node = grpc.aio.server()
    node.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("geyser.Geyser", {"Subscribe": subscribe}),)
    )
    node_port = node.add_insecure_port("127.0.0.1:0")
    await node.start()
    port = free_port()
    try:
        async with Balancer(port, [node_port]) as balancer:
            settings = Settings(geyser_endpoint=f"http://127.0.0.1:{port}", geyser_queue_size=100)
            streams = [Stream(settings) for _ in range(2)]
            tasks = [stream.start() for stream in streams]
            await eventually_async(lambda: all(stream.intake.full for stream in streams))
            assert balancer.connections == len(streams)
            for stream in streams:
                await stream.close()
            await eventually_async(lambda: balancer.connections == 0)
            assert all(task.cancelled() for task in tasks)
    finally:
        await node.stop(None)
