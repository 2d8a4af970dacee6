"""What users ask for, from the stream of asks to the calls that RPC gets and the answers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from redis.asyncio import Redis

from infra.redis.client import connect
from infra.settings import Settings
from infra.solana_rpc import client
from pipeline.ingest.accounts import requests
from pipeline.ingest.accounts.asked import Answer as QueuedAnswer
from pipeline.ingest.accounts.asked import AnswerQueue
from pipeline.ingest.accounts.asking import Asking
from pipeline.ingest.accounts.requests import (
    AGAIN_AT_ONCE,
    LAMPORTS_AFTER_S,
    LOOK_S,
    TOO_LARGE_FOR_S,
    Requests,
)
from pipeline.ingest.accounts.rpc import WALLET_ANSWER_BYTES, AccountsRpc
from pipeline.ingest.accounts.tracked import Tracked
from schemas.accounts import MOST_OF_WALLET, TOO_MANY_ACCOUNTS, mint_account_of
from schemas.proto.tape_pb2 import Covered
from schemas.redis_keys import (
    ASKED_ACCOUNTS,
    COVERED,
    FOUND_BY,
    TRACKED_MINTS,
    TRACKED_WALLETS,
    account_tags,
)
from schemas.solana.addresses import STAKE_PROGRAM, text
from tests.support.rpc_server import Answer, serving
from tests.support.systems import running_valkey
from tests.support.waiting import eventually_async

WALLET, OTHER, MINT = (bytes([n]) * 32 for n in (1, 2, 3))


@dataclass
class Lane:
    """Requests that run, without a lane that takes the answers."""

    redis: Redis
    settings: Settings
    tracked: Tracked
    answers: AnswerQueue
    requests: Requests

    async def ask(self, *wallets: bytes) -> None:
        for wallet in wallets:
            await self.redis.xadd(ASKED_ACCOUNTS.make(), {"wallet": wallet})


Running = Callable[[Answer], AbstractAsyncContextManager[Lane]]


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    with running_valkey(tmp_path) as port:
        yield Settings(_env_file=None, redis_url=f"redis://127.0.0.1:{port}/0")


@pytest.fixture
async def running(settings: Settings) -> AsyncIterator[Running]:
    redis = connect(settings)

    @asynccontextmanager
    async def run(answer: Answer) -> AsyncIterator[Lane]:
        tracked = await requests.read_tracked(settings)
        answers = AnswerQueue()

        async def settled() -> int:
            return 7

        async with serving(answer) as url, client.session() as session:
            rpc = AccountsRpc(session, url, client.Pace(5_000))
            asking = Asking(rpc, answers, settled, tracked)
            made = Requests(
                settings,
                tracked,
                answers,
                asking,
                bootstrap=lambda _: False,
                load=lambda _: None,
                rewards=lambda _: None,
            )
            task = asyncio.create_task(made.run())
            try:
                yield Lane(redis, settings, tracked, answers, made)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    yield run
    await redis.aclose()


async def test_what_rpc_did_not_answer_is_asked_again_with_a_growing_pause(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "FAILED_PAUSE_S", (0.2, 0.8))
    monkeypatch.setattr(requests, "LOOK_S", 0.05)
    is_down = True
    asked_s: list[float] = []

    async def answer(method: str, params: list[Any]) -> Any:
        if method == "getMultipleAccounts":
            return [None] * len(params[0])
        if is_down:
            asked_s.append(asyncio.get_running_loop().time())
            return web.Response(status=504, body=b"{}")
        return []

    async with running(answer) as lane:
        await lane.ask(WALLET)
        reasons: list[str] = []

        def failed(times: int) -> bool:
            reasons.extend(each.reason for each in lane.answers.withdrawn())
            return len(reasons) >= times

        await eventually_async(lambda: failed(4))
        assert asked_s[-1] - asked_s[0] > 0.2 + 0.4 + 0.8 - 0.1
        assert "does not answer" in reasons[0]
        assert not len(lane.answers)
        is_down = False
        await eventually_async(lambda: len(lane.answers))
        [found] = lane.answers.take(9, 1 << 20)
        assert [(each.address, each.slot) for each in found.covered] == [(WALLET, 9)]


async def test_a_wallet_with_too_many_accounts_is_let_go_and_not_asked_for_an_hour(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "LOOK_S", 0.05)
    calls: list[str] = []

    async def answer(method: str, params: list[Any]) -> Any:
        if method == "getMultipleAccounts":
            return [None] * len(params[0])
        calls.append(params[0])
        if params[0] != text(WALLET):
            return []
        return web.Response(body=b'{"result":"' + b" " * (WALLET_ANSWER_BYTES + 1) + b'"}')

    async with running(answer) as lane:
        await lane.ask(WALLET)
        await eventually_async(lambda: lane.tracked.wallets or calls)
        await eventually_async(lambda: calls and WALLET not in lane.tracked.wallets)
        own, gone, why = lane.answers.withdrawn()
        assert (own.kind, own.address) == (Covered.HOLDERS, WALLET), "its account goes"
        assert (gone.address, gone.reason) == (WALLET, ""), "what is stored of it goes"
        assert (why.address, why.reason) == (WALLET, TOO_MANY_ACCOUNTS)
        assert await lane.redis.zscore(TRACKED_WALLETS.make(), WALLET)
        await lane.requests.withdrawn([gone, why])
        assert await lane.redis.zscore(TRACKED_WALLETS.make(), WALLET) is None
        asked = calls.count(text(WALLET))
        await lane.ask(WALLET, OTHER)
        await eventually_async(lambda: len(lane.answers))
        assert calls.count(text(WALLET)) == asked
        assert WALLET not in lane.tracked.wallets
        # One that grows by the stream goes the same way.
        lane.tracked.outgrew(OTHER)
        await eventually_async(lambda: OTHER not in lane.tracked.wallets)
        assert [each.reason for each in lane.answers.withdrawn()] == ["", "", TOO_MANY_ACCOUNTS]
        # After the hour both may be asked for again.
        later = time.monotonic() + TOO_LARGE_FOR_S
        monkeypatch.setattr(requests, "time", Clock(later))
        left: list[Covered] = []
        await eventually_async(lambda: left.extend(lane.answers.withdrawn()) or len(left) == 2)
        assert [(each.address, each.reason) for each in left] == [(WALLET, ""), (OTHER, "")]
        await lane.ask(WALLET)
        await eventually_async(lambda: calls.count(text(WALLET)) > asked)


@dataclass
class Clock:
    """A clock that does not move."""

    at_s: float

    def monotonic(self) -> float:
        return self.at_s


async def test_new_asks_are_read_while_everything_is_asked_again(
    running: Running, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MOST_UNDER_WAY", 300)
    monkeypatch.setattr("pipeline.ingest.accounts.rpc.CALL_MOST_S", 600.0)
    redis = connect(settings)
    many = [bytes([9]) + n.to_bytes(31, "big") for n in range(1_000)]
    await redis.zadd(TRACKED_WALLETS.make(), dict.fromkeys(many, 1))
    await redis.aclose()

    async def answer(method: str, params: list[Any]) -> Any:
        await asyncio.Event().wait()

    async with running(answer) as lane:
        lane.requests.again(many)
        await eventually_async(lambda: len(lane.requests.under_way) >= AGAIN_AT_ONCE)
        await lane.ask(WALLET)
        await lane.ask(OTHER)
        await eventually_async(lambda: {WALLET, OTHER} <= lane.requests.under_way)
        assert len(lane.requests.under_way) == AGAIN_AT_ONCE + 2


async def test_a_takeover_does_not_read_a_wallet_with_too_many_accounts(
    running: Running, settings: Settings
) -> None:
    redis = connect(settings)
    now_ms = int(time.time() * 1000)
    await redis.zadd(TRACKED_WALLETS.make(), {WALLET: now_ms, OTHER: now_ms})
    for wallet, count in ((WALLET, MOST_OF_WALLET + 1), (OTHER, 9)):
        for number in range(count):
            name = FOUND_BY.make(tag=account_tags()[number % 8], address=text(wallet))
            await redis.sadd(name, wallet[:16] + number.to_bytes(16, "big"))
    tracked = await requests.read_tracked(settings)
    assert tracked.take_overgrown() == [WALLET]
    assert tracked.follows(OTHER[:16] + (8).to_bytes(16, "big"))
    assert not tracked.follows(WALLET[:16] + bytes(16))
    called = await redis.info("commandstats")
    assert called["cmdstat_smembers"]["calls"] == 8
    await redis.aclose()


async def test_lamports_of_a_tracked_wallet_are_asked_for_and_track_nothing(
    running: Running, settings: Settings
) -> None:
    redis = connect(settings)
    await redis.zadd(TRACKED_WALLETS.make(), {WALLET: 1})
    asked: list[str] = []

    async def answer(method: str, params: list[Any]) -> Any:
        asked.append(method)
        assert params[0] == [text(WALLET)]
        return [None]

    async with running(answer) as lane:
        for wallet in (OTHER, WALLET, WALLET):
            await redis.xadd(ASKED_ACCOUNTS.make(), {"lamports": wallet})
        # The last came too soon after the one before, and is asked for when its second is over.
        await eventually_async(lambda: len(asked) == 2)
        await eventually_async(lambda: len(lane.answers))
        for found in lane.answers.take(9, 1 << 20):
            assert [update.address for _, update in found.updates] == [WALLET]
            assert found.covered == ()
        assert asked == ["getMultipleAccounts"] * 2
        assert OTHER not in lane.tracked.wallets
    assert await redis.zrange(TRACKED_WALLETS.make(), 0, -1, withscores=True) == [(WALLET, 1.0)]
    await redis.aclose()


async def test_the_lamports_of_a_wallet_are_not_older_than_its_token_accounts(
    running: Running,
) -> None:
    slots = [9, 10, 12]  # of the wallet's own account, from call to call

    async def answer(method: str, params: list[Any]) -> Any:
        is_own = method == "getMultipleAccounts"
        slot, value = (slots.pop(0), [None]) if is_own else (11, [])
        return web.json_response({"result": {"context": {"slot": slot}, "value": value}})

    async with running(answer) as lane:
        await lane.ask(WALLET)
        await eventually_async(lambda: len(lane.answers))
        [found] = lane.answers.take(20, 1 << 20)
        assert [(slot, update.address) for slot, update in found.updates] == [(12, WALLET)]
        assert [each.slot for each in found.covered] == [11]


class Node:
    """Answers that nothing exists, and counts the calls."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.wallets: Counter[str] = Counter()

    async def __call__(self, method: str, params: list[Any]) -> Any:
        self.calls[method] += 1
        if method == "getMultipleAccounts":
            return [None] * len(params[0])
        self.wallets[params[0]] += 1
        return []


def covered_by(lane: Lane) -> list[tuple[int, bytes]]:
    answers = lane.answers.take(99, 1 << 20)
    return [(each.kind, each.address) for found in answers for each in found.covered]


@pytest.mark.parametrize("kinds", [("mint", "wallet"), ("wallet", "mint")])
async def test_an_address_is_asked_for_as_a_mint_and_as_a_wallet(
    running: Running, kinds: tuple[str, str]
) -> None:
    node = Node()
    found: list[tuple[int, bytes]] = []
    async with running(node) as lane:
        for number, kind in enumerate(kinds, 1):
            await lane.redis.xadd(ASKED_ACCOUNTS.make(), {kind: MINT})
            await eventually_async(
                lambda n=number: found.extend(covered_by(lane)) or len(found) == n
            )
        assert {*found} == {(Covered.MINT, MINT), (Covered.WALLET, MINT)}
        assert node.wallets[text(MINT)] == 2, "of both token programs"


async def test_a_wallet_that_leaves_leaves_its_address_to_the_mint(running: Running) -> None:
    async with running(Node()) as lane:
        await lane.redis.xadd(ASKED_ACCOUNTS.make(), {"mint": MINT})
        await lane.ask(MINT)
        found: list[tuple[int, bytes]] = []
        await eventually_async(lambda: found.extend(covered_by(lane)) or len(found) == 2)
        lane.tracked.outgrew(MINT)
        await eventually_async(lambda: MINT not in lane.tracked.wallets)
        assert {each.kind for each in lane.answers.withdrawn()} == {Covered.WALLET}
        assert MINT in lane.tracked.mints
        lane.requests.again([mint_account_of(MINT)])
        await eventually_async(lambda: covered_by(lane) == [(Covered.MINT, MINT)])


async def test_what_slots_that_are_lost_ask_for_again_is_asked_for_once(
    running: Running, settings: Settings
) -> None:
    many = [bytes([9]) + n.to_bytes(31, "big") for n in range(600)]
    redis = connect(settings)
    await redis.zadd(TRACKED_WALLETS.make(), dict.fromkeys(many, 1))
    await redis.aclose()
    node = Node()
    async with running(node) as lane:
        for _ in range(10):
            lane.requests.again(many)
        found: list[QueuedAnswer] = []

        def is_answered() -> bool:
            found.extend(lane.answers.take(99, 1 << 20))
            return len({answer.subject for answer in found if answer.covered}) == len(many)

        await eventually_async(is_answered)
        await asyncio.sleep(LAMPORTS_AFTER_S + 2 * LOOK_S)  # what comes too soon waits for that
        is_answered()
        assert [answer.subject for answer in found if not answer.covered] == [], "lamports alone"
        assert len(found) == len(many)
        assert {*node.wallets.values()} == {2}, "of both token programs"
        # Answered once more, as slots were lost again.
        lane.requests.again(many[:1])
        await eventually_async(lambda: covered_by(lane) == [(Covered.WALLET, many[0])])


async def test_a_program_is_not_followed_as_a_wallet(running: Running) -> None:
    """Under its address is the coverage of its accounts."""
    node = Node()
    async with running(node) as lane:
        await lane.ask(STAKE_PROGRAM, WALLET)
        await eventually_async(lambda: covered_by(lane) == [(Covered.WALLET, WALLET)])
        assert STAKE_PROGRAM not in lane.tracked.wallets


async def test_mints_that_an_earlier_version_covered_are_asked_for_again(
    running: Running, settings: Settings
) -> None:
    """It kept their coverage under their own addresses, where wallets have theirs."""
    redis = connect(settings)
    tag = account_tags()[0]
    known, earlier, both = WALLET, MINT, OTHER
    await redis.zadd(TRACKED_MINTS.make(), dict.fromkeys((known, earlier, both), 1))
    await redis.zadd(TRACKED_WALLETS.make(), {both: 1, known: 1})
    for subject in (earlier, both, known, mint_account_of(known)):
        await redis.hset(COVERED.make(tag=tag, address=text(subject)), mapping={"slot": 1})
    await redis.aclose()
    async with running(Node()) as lane:
        found: list[tuple[int, bytes]] = []
        await eventually_async(lambda: found.extend(covered_by(lane)) or len(found) == 3)
        mints = [(Covered.MINT, earlier), (Covered.MINT, both)]
        assert sorted(found) == sorted([*mints, (Covered.WALLET, both)])
        left = {(each.kind, each.address): each.reason for each in lane.answers.withdrawn()}
        assert left == {
            (Covered.WALLET, earlier): "",
            (Covered.WALLET, both): "it is asked for again",
        }
