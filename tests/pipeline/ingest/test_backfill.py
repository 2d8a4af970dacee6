"""Backfill against a JSON-RPC server that answers as Agave does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from infra.local.process import free_port
from infra.settings import Settings
from pipeline.ingest import backfill
from pipeline.ingest.backfill import Backfill, Block
from pipeline.ingest.ledger import Missing
from tests.support.waiting import eventually_async

Answer = dict[str, Any] | int  # result, error code, or HTTP status from 400 on
ERRORS = {-32007: "skipped", -32004: "not available", -32001: "cleaned up", -32005: "behind"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "BACKOFF_S", (0.02, 10.0))


class Recorder:
    def __init__(self) -> None:
        self.answers: list[tuple[int, int, str]] = []
        self.settled = 0
        self.last = asyncio.Event()

    def is_wanted(self, slot: int) -> bool:
        return slot > self.settled

    async def fetched(self, block: Block) -> None:
        self.answers.append((block.slot, block.slot, f"parent {block.parent}"))

    def unavailable(self, first: int, last: int, reason: str) -> None:
        self.answers.append((first, last, reason))


def block(slot: int) -> dict[str, Any]:
    return {"blockhash": "h", "parentSlot": slot - 1, "blockTime": 1, "transactions": []}


@asynccontextmanager
async def rpc(answer: Callable[[int], Answer], first_available: int = 0) -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.Response:
        call = await request.json()
        if call["method"] == "getFirstAvailableBlock":
            return web.json_response({"result": first_available})
        said = answer(call["params"][0])
        if isinstance(said, dict):
            return web.json_response({"result": said})
        if said > 0:
            return web.Response(status=said, text="<html>")
        return web.json_response({"error": {"code": said, "message": ERRORS[said]}})

    app = web.Application()
    app.router.add_post("/", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def fill(endpoint: str, missing: Missing, recorder: Recorder, until: int) -> None:
    filling = Backfill(Settings(rpc_endpoint=endpoint), recorder)
    task = asyncio.create_task(filling.run())
    filling.ask(missing)
    try:
        await eventually_async(lambda: recorder.answers and recorder.answers[-1][1] >= until)
    finally:
        task.cancel()


async def test_answers_ascend_whatever_their_kind() -> None:
    said: dict[int, Answer] = {10: block(10), 11: -32007, 12: block(12), 13: -32001, 14: block(14)}
    recorder = Recorder()
    async with rpc(lambda slot: said[slot]) as endpoint:
        await fill(endpoint, Missing(10, 14), recorder, 14)
    assert [first for first, _, _ in recorder.answers] == [10, 11, 12, 13, 14]
    assert recorder.answers[1][2] == "RPC says the slot was skipped"
    assert recorder.answers[3][2] == "RPC getBlock: error -32001", "no text of the provider's"


async def test_what_fails_now_is_asked_again() -> None:
    tries: dict[int, int] = {}

    def answer(slot: int) -> Answer:
        tries[slot] = tries.get(slot, 0) + 1
        failures: list[Answer] = [503, 429, -32005, -32004]
        return failures[tries[slot] - 1] if tries[slot] <= len(failures) else block(slot)

    recorder = Recorder()
    async with rpc(answer) as endpoint:
        await fill(endpoint, Missing(10, 11), recorder, 11)
    assert recorder.answers == [(10, 10, "parent 9"), (11, 11, "parent 10")]


async def test_what_was_pruned_is_given_up_at_once() -> None:
    recorder = Recorder()
    async with rpc(block, first_available=1_000_000) as endpoint:
        await fill(endpoint, Missing(10, 1_000_001), recorder, 1_000_001)
    assert recorder.answers[0][:2] == (10, 999_999)
    assert [first for first, _, _ in recorder.answers[1:]] == [1_000_000, 1_000_001]


async def test_a_block_that_never_comes_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "NOT_YET_TRIES", 2)
    recorder = Recorder()
    async with rpc(lambda _: -32004) as endpoint:
        await fill(endpoint, Missing(10, 10), recorder, 10)
    assert recorder.answers == [(10, 10, "RPC says the block is not available")]


async def test_garbage_is_unavailable_and_said() -> None:
    recorder = Recorder()
    async with rpc(lambda _: {"transactions": [{"transaction": 5}]}) as endpoint:
        await fill(endpoint, Missing(10, 10), recorder, 10)
    assert recorder.answers[0][2] == "RPC's block can not be read (TypeError)"


def test_without_an_endpoint_it_says_so() -> None:
    recorder = Recorder()
    Backfill(Settings(rpc_endpoint=None), recorder).ask(Missing(3, 9))
    assert recorder.answers == [(3, 9, "missed by the stream, and no RPC_ENDPOINT is set")]
