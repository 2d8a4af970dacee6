"""Accounts that are asked for at once share a call, and nobody is refused for another's sake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from infra.solana_rpc import client
from infra.solana_rpc.client import NotNow, RpcRefused
from pipeline.ingest.accounts import shared_calls
from pipeline.ingest.accounts.asked import AnswerQueue
from pipeline.ingest.accounts.asking import Asking, Ended
from pipeline.ingest.accounts.rpc import MOST_A_CALL, AccountsRpc
from pipeline.ingest.accounts.shared_calls import SharedCalls
from pipeline.ingest.accounts.tracked import Tracked
from schemas.solana.addresses import SYSTEM_PROGRAM, text
from tests.support.rpc_server import serving

SLOT = 9
MANY = [bytes([n, 7]) * 16 for n in range(150)]
BAD = b"\xdd" * 32


class Node:
    """Has an account of as many lamports as its address begins with; some it does not answer."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.bad: Any = None  # what is answered to calls for BAD

    async def __call__(self, method: str, params: list[Any]) -> Any:
        if method != "getMultipleAccounts":
            return []
        self.calls.append(params[0])
        if text(BAD) in params[0] and self.bad is not None:
            return await self.bad()
        lamports = {text(each): each[0] for each in (*MANY, BAD)}
        owner = text(SYSTEM_PROGRAM)
        return [
            {"data": ["", "base64"], "owner": owner, "lamports": lamports[each]}
            for each in params[0]
        ]


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
async def rpc(node: Node) -> AsyncIterator[AccountsRpc]:
    async with serving(node, SLOT) as url, client.session() as session:
        yield AccountsRpc(session, url, client.Pace(5_000))


async def test_each_gets_its_own_of_a_shared_call(rpc: AccountsRpc, node: Node) -> None:
    shared = SharedCalls(rpc)
    pairs = [MANY[at : at + 2] for at in range(0, len(MANY), 2)]
    answers = await asyncio.gather(*(shared.multiple(pair, 0) for pair in pairs))
    for pair, (slot, found) in zip(pairs, answers, strict=True):
        assert slot == SLOT
        assert [(each.address, each.lamports) for each in found] == [(a, a[0]) for a in pair]
    assert [len(call) for call in node.calls] == [MOST_A_CALL, len(MANY) - MOST_A_CALL]


async def test_a_lone_request_does_not_wait_for_others(
    rpc: AccountsRpc, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_calls, "SHARED_EVERY_S", 3_600.0)
    async with asyncio.timeout(60):
        await SharedCalls(rpc).multiple(MANY[:1], 0)
    assert node.calls == [[text(MANY[0])]]


@pytest.mark.parametrize("fails", ["refused", "unreadable", "too large"])
async def test_a_subject_that_spoils_a_shared_call_spoils_no_other(
    rpc: AccountsRpc, node: Node, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    monkeypatch.setattr(shared_calls, "SHARED_ANSWER_BYTES", 1 << 14)

    async def bad() -> Any:
        if fails == "refused":
            return web.json_response({"error": {"code": -32602, "message": "no"}})
        if fails == "unreadable":
            return [{"data": 5}] * len(node.calls[-1])
        data = ["A" * (1 << 15), "base64"]
        return [{"data": data, "owner": text(SYSTEM_PROGRAM), "lamports": 5}] * len(node.calls[-1])

    node.bad = bad
    shared = SharedCalls(rpc)
    asked = [[each] for each in (*MANY[:3], BAD)]
    *good, spoilt = await asyncio.gather(
        *(shared.multiple(each, 0) for each in asked), return_exceptions=True
    )
    assert [each[1][0].lamports for each in good if isinstance(each, tuple)] == [0, 1, 2]
    if fails == "too large":
        assert isinstance(spoilt, tuple)  # alone it has the whole limit
        assert spoilt[1][0].lamports == 5
    else:
        assert isinstance(spoilt, Exception)
    if fails == "refused":
        assert isinstance(spoilt, RpcRefused)
    assert len(node.calls) == 1 + len(asked)


async def test_an_account_that_hangs_holds_up_those_of_its_call_for_a_moment(
    rpc: AccountsRpc, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_calls, "SHARED_MOST_S", 0.2)
    hanging = asyncio.Event()
    node.bad = hanging.wait
    shared = SharedCalls(rpc)
    both = (shared.multiple([each], 0) for each in (MANY[0], BAD))
    found = await asyncio.gather(*both, return_exceptions=True)
    assert [type(each) for each in found] == [NotNow, NotNow], "then each asks alone"


async def test_a_subject_that_is_let_go_takes_no_others_answer_along(rpc: AccountsRpc) -> None:
    shared = SharedCalls(rpc)
    first, second = (asyncio.create_task(shared.multiple([each], 0)) for each in MANY[:2])
    await asyncio.sleep(0)
    first.cancel()
    assert (await second)[1][0].address == MANY[1]


async def test_wallets_that_are_asked_for_at_once_share_the_call_for_their_lamports(
    rpc: AccountsRpc, node: Node
) -> None:
    async def settled() -> int:
        return 7

    answers = AnswerQueue()
    asking = Asking(rpc, answers, settled, Tracked(100))
    ended = await asyncio.gather(*(asking.wallet(each) for each in MANY[:50]))
    assert set(ended) == {Ended.ANSWERED}
    assert sum(map(len, node.calls)) == 50
    assert len(node.calls) <= 3
    found = answers.take(SLOT, 1 << 20)
    assert {each.covered[0].address for each in found} == {*MANY[:50]}
    assert all(each.updates[0][1].address == each.subject for each in found)
