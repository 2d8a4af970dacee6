"""What epochs paid to stake accounts: asked of a node, kept in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from redis.asyncio import Redis

from infra.settings import Settings
from infra.solana_rpc import client
from pipeline.ingest.accounts.rewards import Rewards
from pipeline.ingest.accounts.rpc import AccountsRpc
from schemas.redis_keys import STAKE_REWARDS, account_tag
from schemas.solana.addresses import text
from schemas.stake_rewards import EPOCHS, EpochReward, unpack_rewards
from tests.support.systems import running_valkey
from tests.support.waiting import eventually_async

PAID, UNPAID = b"p" * 32, b"u" * 32
EPOCH = 100
CLEANED_UP = 96


class Node:
    """A node that has what the last epochs paid, but for one."""

    def __init__(self) -> None:
        self.epoch = EPOCH
        self.busy = 1  # answers that it refuses first
        self.calls: list[str] = []

    async def rpc(self, request: web.Request) -> web.Response:
        call = await request.json()
        self.calls.append(call["method"])
        if self.busy:
            self.busy -= 1
            return web.Response(status=429)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": 1}
        if call["method"] == "getEpochInfo":
            answer["result"] = {"epoch": self.epoch}
        else:
            addresses, options = call["params"]
            epoch = options["epoch"]
            if epoch == CLEANED_UP:
                answer["error"] = {"code": -32001, "message": f"Block {epoch} cleaned up"}
            else:
                paid = {
                    "amount": 1_000 + epoch,
                    "postBalance": 10**9 + epoch,
                    "commission": 5,
                    "effectiveSlot": 432_000 * (epoch + 1),
                    "epoch": epoch,
                }
                answer["result"] = [paid if each == text(PAID) else None for each in addresses]
        return web.json_response(answer)


@pytest.fixture
async def node() -> AsyncIterator[tuple[Node, str]]:
    made = Node()
    app = web.Application()
    app.router.add_post("/", made.rpc)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield made, f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    with running_valkey(tmp_path) as port:
        yield f"redis://127.0.0.1:{port}/0"


async def test_the_last_epochs_are_asked_for_and_kept(
    node: tuple[Node, str], redis_url: str
) -> None:
    made, endpoint = node
    settings = Settings(_env_file=None, redis_url=redis_url)
    async with client.session() as session, Redis.from_url(redis_url) as redis:
        rewards = Rewards(settings, AccountsRpc(session, endpoint, client.Pace(1_000)))
        running = asyncio.create_task(rewards.run())

        async def kept(account: bytes) -> Any:
            name = STAKE_REWARDS.make(tag=account_tag(text(account)), address=text(account))
            stored = await redis.get(name)
            assert stored is None or 0 < await redis.ttl(name) <= 86_400
            return stored and unpack_rewards(stored)

        for account in (PAID, UNPAID, PAID):
            rewards.ask(account)
        found = await eventually_async(lambda: kept(PAID))
        expected = [
            EpochReward(each, 1_000 + each, 10**9 + each, 5, 432_000 * (each + 1))
            for each in range(EPOCH - 1, EPOCH - 1 - EPOCHS, -1)
        ]
        expected[EPOCH - 1 - CLEANED_UP] = EpochReward(
            CLEANED_UP, reason="RPC refuses it (error -32001)"
        )
        assert list(found.rewards) == expected
        assert found.last_epoch == EPOCH - 1
        unpaid = await kept(UNPAID)
        assert [each.lamports for each in unpaid.rewards] == [None] * EPOCHS
        assert [bool(each.reason) for each in unpaid.rewards].count(True) == 1
        assert made.calls.count("getInflationReward") == EPOCHS, "once for both accounts"
        made.epoch = 2  # there are no more
        rewards.ask(PAID)

        async def is_new() -> bool:
            return (await kept(PAID)).last_epoch == 1

        await eventually_async(is_new)
        assert [each.epoch for each in (await kept(PAID)).rewards] == [1, 0]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
