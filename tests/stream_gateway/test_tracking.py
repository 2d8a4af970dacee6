"""Wallets that are asked for: what is remembered as asked was asked."""

from __future__ import annotations

import asyncio

import pytest

from infra.settings import Settings
from schemas.redis_keys import ASKED_ACCOUNTS
from stream_gateway.messages import Refused
from stream_gateway.tracking import Tracking
from tests.support.waiting import eventually_async

WALLETS = (
    "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1",
    "So11111111111111111111111111111111111111112",
)


class Slow:
    """A Redis to which the way may be blocked for what is written; it follows nobody."""

    def __init__(self) -> None:
        self.way = asyncio.Event()
        self.waiting = 0
        self.asked: list[bytes] = []

    async def ask(self, commands):
        if commands[0][0] != "XADD":
            return [None for _ in commands]
        self.waiting += 1
        await self.way.wait()
        assert {command[1] for command in commands} == {ASKED_ACCOUNTS.make()}
        self.asked += [command[-1] for command in commands]
        return [b"1-0" for _ in commands]


async def test_a_client_that_leaves_before_its_wallet_is_asked_for_does_not_hide_it_from_others():
    redis = Slow()
    tracking = Tracking(redis, Settings(), lambda: WALLETS)
    leaving = asyncio.create_task(tracking.follow(WALLETS, "a"))
    await eventually_async(lambda: redis.waiting)
    leaving.cancel()
    await asyncio.wait([leaving])
    redis.way.set()
    await tracking.follow(WALLETS, "b")
    assert len(redis.asked) == len(WALLETS)
    await tracking.follow(WALLETS, "c")  # they were asked for a moment ago
    assert len(redis.asked) == len(WALLETS)


async def test_wallets_beyond_those_of_a_minute_are_not_asked_for():
    redis = Slow()
    redis.way.set()
    settings = Settings(api_new_accounts_per_key=1)
    tracking = Tracking(redis, settings, lambda: ())
    for _ in range(3):
        with pytest.raises(Refused, match="are not followed yet"):
            await tracking.follow(WALLETS, "a")
    assert redis.asked == []
    await tracking.follow(WALLETS[:1], "a")
    with pytest.raises(Refused):
        await tracking.follow(WALLETS[1:], "a")
    await tracking.follow(WALLETS[1:], "b")
    assert len(redis.asked) == len(WALLETS)
