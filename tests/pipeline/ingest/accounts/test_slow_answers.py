"""Owners that a node does not answer for keep nobody else waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from infra.solana_rpc import client
from pipeline.ingest.accounts import rpc
from pipeline.ingest.accounts.asked import AnswerQueue
from pipeline.ingest.accounts.asking import CONCURRENCY, SLOW, Asking, Ended
from pipeline.ingest.accounts.rpc import AccountsRpc
from pipeline.ingest.accounts.tracked import Tracked
from schemas.solana.addresses import text
from tests.support.rpc_server import serving
from tests.support.waiting import eventually_async

HEAVY = [bytes([n]) * 32 for n in range(1, CONCURRENCY + SLOW + 9)]
ORDINARY, ACCOUNT = b"\xee" * 32, b"\xdd" * 32


class Node:
    """Answers 504 for heavy owners, or nothing at all."""

    def __init__(self) -> None:
        self.hangs = False
        self.calls: list[str] = []

    async def __call__(self, method: str, params: list[Any]) -> Any:
        if method == "getMultipleAccounts":
            return [None] * len(params[0])
        self.calls.append(params[0])
        if params[0] != text(ORDINARY):
            if self.hangs:
                await asyncio.Event().wait()
            return web.Response(status=504, body=b"{}")
        return []


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def queue() -> AnswerQueue:
    return AnswerQueue()


@pytest.fixture
async def asking(node: Node, queue: AnswerQueue) -> AsyncIterator[Asking]:
    async def settled() -> int:
        return 7

    async with serving(node) as url, client.session() as session:
        yield Asking(AccountsRpc(session, url, client.Pace(5_000)), queue, settled, Tracked(10))


@pytest.mark.parametrize("hangs", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_heavy_owners_stop_neither_others_nor_the_mending_of_holes(
    asking: Asking, node: Node, queue: AnswerQueue, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    """A node that hangs is waited for at each of three tries: some five seconds."""
    monkeypatch.setattr(rpc, "CALL_MOST_S", 0.4)
    node.hangs = hangs
    heavy = [asyncio.create_task(asking.wallet(each)) for each in HEAVY]
    await eventually_async(lambda: node.calls)
    async with asyncio.timeout(60):
        assert await asking.accounts([ACCOUNT], 5)
        assert await asking.wallet(ORDINARY) is Ended.ANSWERED
        assert set(await asyncio.gather(*heavy)) == {Ended.FAILED}
    withdrawn = {each.address: each.reason for each in queue.withdrawn()}
    assert withdrawn == dict.fromkeys(
        HEAVY, "getTokenAccountsByOwner: RPC does not answer; it is asked again"
    )
    assert all(node.calls.count(text(each)) <= 6 for each in HEAVY), "three tries of two programs"


async def test_a_hole_is_mended_for_as_long_as_it_takes(queue: AnswerQueue) -> None:
    failures = 5

    async def answer(method: str, params: list[Any]) -> Any:
        nonlocal failures
        failures -= 1
        return web.Response(status=429, body=b"{}") if failures >= 0 else [None]

    async def settled() -> int:
        return 7

    async with serving(answer) as url, client.session() as session:
        asking = Asking(AccountsRpc(session, url, client.Pace(5_000)), queue, settled, Tracked(10))
        assert await asking.accounts([ACCOUNT], 5)
    assert failures < 0
    assert not queue.withdrawn()


async def test_a_node_that_stays_behind_is_not_waited_for(
    queue: AnswerQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "LAG_MOST_S", 0.3)

    async def answer(method: str, params: list[Any]) -> Any:
        return []

    async def settled() -> int:
        return 100

    async with serving(answer, slot=99) as url, client.session() as session:
        asking = Asking(AccountsRpc(session, url, client.Pace(5_000)), queue, settled, Tracked(10))
        assert await asking.holders(ORDINARY) is Ended.FAILED
    [covered] = queue.withdrawn()
    assert covered.reason == "getTokenLargestAccounts: RPC does not answer; it is asked again"


async def test_what_no_stream_follows_is_not_covered(queue: AnswerQueue) -> None:
    async def settled() -> int:
        return 7

    async with serving(Node()) as url, client.session() as session:
        asked = AccountsRpc(session, url, client.Pace(5_000))
        asking = Asking(asked, queue, settled, Tracked(10), is_streamed=False)
        assert await asking.wallet(ORDINARY) is Ended.ANSWERED
        assert await asking.mint(ACCOUNT) is Ended.ANSWERED
    answers = queue.take(99, 1 << 20)
    assert sum(len(each.updates) for each in answers) >= 2
    assert [each for answer in answers for each in answer.covered] == []
    said = queue.withdrawn()
    assert {each.address for each in said} == {ORDINARY, ACCOUNT}
    assert all("ACCOUNT_GROUPS lacks `tokens`" in each.reason for each in said)
