"""Wallets that are asked for: what is remembered as asked was asked."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from infra.settings import Settings
from schemas.redis_keys import ASKED_ACCOUNTS
from schemas.solana.addresses import key, text
from stream_gateway.messages import Refused
from stream_gateway.tracking import (
    LATE_MS,
    RENEWED_AFTER_S,
    REPEATED_AFTER_S,
    Tracking,
    Watched,
    watched,
)
from tests.support.waiting import eventually_async

WALLETS = (
    "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1",
    "So11111111111111111111111111111111111111112",
)


def nobody(state: Watched) -> None:
    """Nobody is subscribed."""


class Slow:
    """A Redis to which the way may be blocked for what is written; it follows nobody at first."""

    def __init__(self) -> None:
        self.way = asyncio.Event()
        self.waiting = 0
        self.looks = 0
        self.state = Watched.YES
        self.asked: list[bytes] = []
        self.followed: set[bytes] = set()

    async def ask(self, commands):
        if commands[0][0] != "XADD":
            self.looks += commands[0][0] == "ZSCORE"
            return [self.answer(command) for command in commands]
        self.waiting += 1
        await self.way.wait()
        assert {command[1] for command in commands} == {ASKED_ACCOUNTS.make()}
        self.asked += [command[-1] for command in commands]
        return [b"1-0" for _ in commands]

    def answer(self, command):
        """Answer whether a process watches, a partition moved, or a wallet is followed."""
        if command[0] == "EXISTS":
            return int(self.state is not Watched.NO)
        if command[0] == "HGET":
            late_s = (LATE_MS + 1_000) / 1_000 if self.state is Watched.LATE else 0
            return b"%d" % ((time.time() - late_s) * 1000)
        return b"1" if command[-1] in self.followed else None


async def test_a_client_that_leaves_before_its_wallet_is_asked_for_does_not_hide_it_from_others():
    redis = Slow()
    tracking = Tracking(redis, Settings(), lambda: WALLETS, nobody)
    leaving = asyncio.create_task(tracking.follow(WALLETS, "a"))
    await eventually_async(lambda: redis.waiting)
    leaving.cancel()
    await asyncio.wait([leaving])
    redis.way.set()
    await tracking.follow(WALLETS, "b")
    assert len(redis.asked) == len(WALLETS)
    await tracking.follow(WALLETS, "c")  # they were asked for a moment ago
    assert len(redis.asked) == len(WALLETS)


async def test_of_more_wallets_than_a_minute_has_as_many_are_asked_for_and_the_next_has_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    clock = SimpleNamespace(monotonic=lambda: now_s, time=time.time)
    monkeypatch.setattr("stream_gateway.tracking.time", clock)
    redis = Slow()
    redis.way.set()
    wallets = sorted(text(bytes([number]) * 32) for number in range(100))
    tracking = Tracking(redis, Settings(), lambda: (), nobody)
    key_may = r"of these .* this key may ask for 60 new ones a minute"
    with pytest.raises(Refused, match=rf"100 {key_may}: 60 of them now"):
        await tracking.follow(wallets, "a")
    assert len(redis.asked) == 60
    for _ in range(3):
        with pytest.raises(Refused, match=rf"40 {key_may}: 0 of them now"):
            await tracking.follow(wallets, "a")
    assert len(redis.asked) == 60
    await tracking.follow(wallets[60:], "b")  # another key
    assert redis.asked == [*map(key, wallets)]
    now_s = 60.0
    more = [text(bytes([number]) * 31 + b"x") for number in range(100)]
    with pytest.raises(Refused):
        await tracking.follow(more, "a")
    now_s = 120.0
    await tracking.follow(more, "a")
    assert len(redis.asked) == 200


async def test_all_keys_together_have_a_bound_and_the_refusal_names_it() -> None:
    redis = Slow()
    redis.way.set()
    tracking = Tracking(redis, Settings(api_new_accounts=3), lambda: (), nobody)
    await tracking.follow(WALLETS, "a")
    others = [text(bytes([number]) * 32) for number in range(1, 3)]
    with pytest.raises(Refused, match=r"2 of these .* together may ask for 3 .*: 1 of them now"):
        await tracking.follow(others, "b")
    assert redis.asked == [*map(key, (*WALLETS, others[0]))]


async def test_what_ingest_did_not_hear_of_is_asked_for_again_and_what_it_follows_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It reads no asks from before its start, and lets wallets go that others push out."""
    now_s = 0.0
    monkeypatch.setattr(
        "stream_gateway.tracking.time", SimpleNamespace(monotonic=lambda: now_s, time=time.time)
    )
    monkeypatch.setattr("stream_gateway.tracking.LOOK_EVERY_S", 0)
    redis = Slow()
    redis.way.set()
    heard, unheard = map(key, WALLETS)
    tracking = Tracking(redis, Settings(), lambda: WALLETS, nobody)
    await tracking.follow(WALLETS, "a")
    redis.followed = {heard}
    running = asyncio.create_task(tracking.run())

    async def look() -> None:
        looks = redis.looks
        await eventually_async(lambda: redis.looks > looks + 1)

    try:
        await look()
        assert sorted(redis.asked) == sorted([heard, unheard]), "a moment ago"
        now_s = REPEATED_AFTER_S
        await look()
        assert redis.asked[2:] == [unheard]
        redis.followed = {heard, unheard}
        now_s = RENEWED_AFTER_S
        await look()
        assert redis.asked[3:] == [heard]
        redis.followed = {heard}
        await look()
        assert redis.asked[4:] == [unheard]
    finally:
        running.cancel()


async def test_clients_hear_when_nobody_watches_any_more_and_when_somebody_does_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stream_gateway.tracking.LOOK_EVERY_S", 0)
    redis, heard = Slow(), []
    redis.way.set()
    wanted = WALLETS
    tracking = Tracking(redis, Settings(), lambda: wanted, heard.append)
    assert await tracking.follow(WALLETS, "a") is Watched.YES
    running = asyncio.create_task(tracking.run())
    try:
        for state in (Watched.NO, Watched.LATE, Watched.YES):
            redis.state = state
            await eventually_async(lambda: redis.looks and heard[-1:] == [redis.state])
        assert heard == [Watched.NO, Watched.LATE, Watched.YES]
        wanted = ()  # the last client leaves, and another comes while nobody watches
        # private `_watched`: that it has seen that nobody is subscribed.
        await eventually_async(lambda: tracking._watched is None)
        redis.state = Watched.NO
        assert await tracking.follow(WALLETS, "b") is Watched.NO, "it has a notice of its own"
        wanted = WALLETS
        looks = redis.looks
        await eventually_async(lambda: redis.looks > looks + 1)
        assert len(heard) == 3
        redis.state = Watched.YES
        assert await tracking.follow(WALLETS, "c") is Watched.YES
        assert heard[3:] == [Watched.YES], "the others hear of it at once"
    finally:
        running.cancel()


def test_alerts_are_late_while_a_partition_of_accounts_rests_or_has_not_begun():
    moved, rests = [b"100000"] * 3, [b"100000", b"39999", b"100000"]
    assert watched([1, *moved], 100_000) is Watched.YES
    assert watched([1, *rests], 99_999) is Watched.YES
    assert watched([1, *rests], 100_000) is Watched.LATE
    assert watched([1, *moved, None], 100_000) is Watched.LATE
    assert watched([0, *moved], 100_000) is Watched.NO
