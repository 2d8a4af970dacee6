"""Readers of a gRPC stream stop when they are cancelled, also while a call fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio
import uvloop

from infra.cancellation import raise_if_cancelled
from infra.chain.recorder import Recorder, recording_request
from infra.chain.recording import RecordingWriter
from infra.local.process import free_port
from infra.settings import Settings
from pipeline.ingest.geyser import GeyserClient
from pipeline.ingest.intake import Intake

# 1 to 10 % of the readers that are stopped within 20 ms are stopped as their first call fails. On
# uvloop, which the product uses, there are more of them than on asyncio's own loop.
TRIES, AT_ONCE, LATEST_S = 600, 20, 0.02
STOPPED_WITHIN_S = 30  # a reader that lost its cancellation retries without end


async def test_a_cancellation_that_was_caught_is_raised_again() -> None:
    raised = False

    async def catches() -> None:
        nonlocal raised
        raise_if_cancelled()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            try:
                raise_if_cancelled()
            except asyncio.CancelledError:
                raised = True

    task = asyncio.create_task(catches())
    await asyncio.sleep(0)
    task.cancel()
    await task
    assert raised


async def _stop_at_any_moment(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def until_stopped() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(random.uniform(0, LATEST_S)):
                await run()

    for _ in range(TRIES // AT_ONCE):
        tasks = [asyncio.create_task(until_stopped()) for _ in range(AT_ONCE)]
        _, running = await asyncio.wait(tasks, timeout=STOPPED_WITHIN_S)
        for task in running:
            task.cancel()
        assert not running, "it goes on after it was cancelled"


def test_a_recorder_stops_while_its_endpoint_refuses_connections(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    request = recording_request((), votes=False, failed=False)
    with RecordingWriter(tmp_path / "tape.zst") as writer:
        uvloop.run(_stop_at_any_moment(lambda: Recorder(url, None, request, writer).run()))


async def _busy(_: object, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNAVAILABLE, "busy")


async def _stop_clients_of_a_busy_node() -> None:
    methods = {
        "Subscribe": grpc.stream_stream_rpc_method_handler(_busy),
        "GetVersion": grpc.unary_unary_rpc_method_handler(_busy),
    }
    node = grpc.aio.server()
    node.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("geyser.Geyser", methods),))
    port = node.add_insecure_port("127.0.0.1:0")
    await node.start()
    settings = Settings(geyser_endpoint=f"http://127.0.0.1:{port}")
    try:
        await _stop_at_any_moment(
            lambda: GeyserClient(settings, Intake(100), lambda: None, lambda _: None).run()
        )
    finally:
        await node.stop(None)


def test_a_client_stops_while_its_node_ends_every_stream() -> None:
    uvloop.run(_stop_clients_of_a_busy_node())
