"""Wallets that are asked for: asked of ingest, waited for, refused, complete, withdrawn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from api.accounts import asks
from api.accounts.following import Following, FollowState
from api.accounts.lamports import LamportsOf
from api.accounts.waiting import LOOK_EVERY_S
from schemas.accounts import TOO_MANY_ACCOUNTS
from schemas.redis_keys import TRACKED_ACCOUNTS, TRACKED_MINTS
from tests.support.api.accounts_lane import TAGS, AccountsLane
from tests.support.waiting import eventually_async

Follow = Callable[..., Following]
LONG_S = 200.0
KEY = "k"
WALLET = b"w" * 32


def wallets(count: int) -> list[bytes]:
    return [bytes([n]) * 32 for n in range(1, count + 1)]


async def test_without_a_lane_nothing_is_asked_or_waited_for(
    lane: AccountsLane, follow: Follow
) -> None:
    began = time.monotonic()
    assert await follow().follow("wallet", WALLET, KEY, LONG_S) is FollowState.NOT_INGESTED
    assert time.monotonic() - began < LONG_S / 2
    assert await lane.asked() == []


async def test_a_lane_that_stalled_is_asked_and_not_waited_for(
    lane: AccountsLane, follow: Follow
) -> None:
    await lane.advance(at_ms=int(time.time() * 1000) - 60_000)
    assert await follow().follow("wallet", WALLET, KEY, LONG_S) is FollowState.LANE_STALLED
    assert await lane.asked() == [(b"wallet", WALLET)]


async def test_the_first_request_waits_until_the_coverage_is_everywhere(
    lane: AccountsLane, follow: Follow
) -> None:
    await lane.advance()
    following = follow(api_timeout_s=300.0)
    waiting = asyncio.create_task(following.follow("wallet", WALLET, KEY, LONG_S))
    await eventually_async(lane.asked)
    await lane.cover(WALLET, tags=TAGS[:-1])
    await asyncio.sleep(0.2)
    assert not waiting.done(), "one partition does not have it yet"
    await lane.cover(WALLET, tags=TAGS[-1:])
    assert await waiting is FollowState.COMPLETE
    assert await lane.asked() == [(b"wallet", WALLET)]


async def test_a_wait_ends_when_its_time_is_up(lane: AccountsLane, follow: Follow) -> None:
    await lane.advance()
    following = follow()
    assert await following.follow("wallet", WALLET, KEY, 0.1) is FollowState.PENDING
    assert await following.follow("wallet", WALLET, KEY, 0) is FollowState.PENDING
    assert await lane.asked() == [(b"wallet", WALLET)], "renewed once a minute at most"


async def test_no_wait_is_longer_than_a_request_may_take(
    lane: AccountsLane, follow: Follow
) -> None:
    await lane.advance()
    following = follow(api_timeout_s=2.1)
    assert await following.follow("wallet", WALLET, KEY, LONG_S) is FollowState.PENDING


async def test_new_wallets_are_bounded_by_key_and_in_all(
    lane: AccountsLane, follow: Follow
) -> None:
    await lane.advance()
    following = follow(api_new_accounts=3, api_new_accounts_per_key=2)
    *new, tracked, covered = wallets(7)
    ended = [
        await following.follow("wallet", wallet, key, 0)
        for wallet, key in zip(new, ("a", "a", "a", "b", "c"), strict=True)
    ]
    assert ended == [
        FollowState.PENDING,
        FollowState.PENDING,
        FollowState.KEY_LIMIT,
        FollowState.PENDING,
        FollowState.LIMIT,
    ]
    await lane.track(tracked)
    await lane.cover(covered)
    assert await following.follow("wallet", tracked, "a", 0) is FollowState.PENDING
    assert await following.follow("wallet", covered, "c", 0) is FollowState.COMPLETE
    asked = [address for _, address in await lane.asked()]
    assert asked == [new[0], new[1], new[3], tracked, covered]
    assert await following.follow("wallet", new[0], "c", 0) is FollowState.PENDING, (
        "it is no new one"
    )


async def test_the_next_minute_has_room_again(
    lane: AccountsLane, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lane.advance()
    following = follow(api_new_accounts=1)
    first, second = wallets(2)
    assert await following.follow("wallet", first, KEY, 0) is FollowState.PENDING
    assert await following.follow("wallet", second, KEY, 0) is FollowState.LIMIT
    later = asks.now_s() + 61
    monkeypatch.setattr(asks, "now_s", lambda: later)
    assert await following.follow("wallet", second, KEY, 0) is FollowState.PENDING
    await lane.track(first)
    assert await following.follow("wallet", first, KEY, 0) is FollowState.PENDING
    assert [address for _, address in await lane.asked()] == [first, second, first]


async def test_a_wallet_that_is_followed_no_more_counts_as_a_new_one(
    lane: AccountsLane, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lane.advance()
    following = follow(api_new_accounts_per_key=1)
    gone, other = wallets(2)
    assert await following.follow("wallet", gone, KEY, 0) is FollowState.PENDING
    later = asks.now_s() + 61  # it was followed meanwhile, and let go
    monkeypatch.setattr(asks, "now_s", lambda: later)
    assert await following.follow("wallet", gone, KEY, 0) is FollowState.PENDING
    assert await following.follow("wallet", other, KEY, 0) is FollowState.KEY_LIMIT


async def test_tokens_that_an_answer_needs_are_charged_to_the_key_that_asked(
    lane: AccountsLane, follow: Follow
) -> None:
    await lane.advance()
    following = follow(api_new_accounts_per_key=2)
    *mints, followed, wallet = wallets(7)
    await lane.redis.zadd(TRACKED_MINTS.make(), {followed: 1})
    await following.ask_mints([followed, *mints], "a")
    asked = [address for _, address in await lane.asked()]
    assert asked == [followed, *mints[:2]], "what is followed costs nothing"
    assert await following.follow("wallet", wallet, "a", 0) is FollowState.PENDING
    await following.ask_mints(mints, "b")
    asked = [address for _, address in await lane.asked()]
    assert asked == [followed, *mints[:2], wallet, *mints[2:4]], "one key does not use up another's"


async def test_a_wallet_that_is_too_large_is_not_waited_for(
    lane: AccountsLane, follow: Follow
) -> None:
    await lane.advance()
    await lane.withdraw(WALLET, TOO_MANY_ACCOUNTS)
    began = time.monotonic()
    following = follow(api_timeout_s=300.0)
    asked = await following.follow("wallet", WALLET, KEY, LONG_S)
    assert asked is FollowState.TOO_MANY_ACCOUNTS
    assert time.monotonic() - began < LONG_S / 2


async def test_the_stream_of_asks_is_bounded(
    lane: AccountsLane, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asks, "MAX_ENTRIES", 4)
    await lane.advance()
    following = follow()
    for wallet in wallets(9):
        await following.follow("wallet", wallet, KEY, 0)
    assert [address for _, address in await lane.asked()] == wallets(9)[-4:]


async def test_a_store_that_takes_no_ask_is_no_error(lane: AccountsLane, follow: Follow) -> None:
    await lane.advance()
    await lane.redis.set("ask:accounts", "not a stream")
    following = follow()
    assert await following.follow("wallet", WALLET, KEY, LONG_S) is FollowState.NOT_ASKED
    await lane.redis.delete("ask:accounts")
    assert await following.follow("wallet", WALLET, KEY, 0) is FollowState.PENDING


async def test_coverage_that_is_withdrawn_or_void_is_none(
    lane: AccountsLane, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lane.advance()
    await lane.cover(WALLET)
    assert await follow().follow("wallet", WALLET, KEY, 0) is FollowState.COMPLETE
    await lane.lose(lane.slot + 1)
    assert await follow().follow("wallet", WALLET, KEY, 0) is FollowState.WITHDRAWN
    await lane.lose(lane.slot)
    assert await follow().follow("wallet", WALLET, KEY, 0) is FollowState.COMPLETE
    await lane.withdraw(WALLET, "slots 7 to 9 are lost")
    assert await follow().follow("wallet", WALLET, KEY, 0.1) is FollowState.WITHDRAWN


async def test_two_hundred_waiters_cost_one_look_at_a_time(
    lane: AccountsLane, follow: Follow
) -> None:
    await lane.advance()
    following = follow(api_max_concurrent=400, api_timeout_s=300.0)
    many = wallets(200)
    waiting = [
        asyncio.create_task(following.follow("wallet", each, f"key {n % 8}", LONG_S))
        for n, each in enumerate(many)
    ]

    async def all_asked() -> bool:
        return len(await lane.asked()) == len(many)

    await eventually_async(all_asked)
    first_look = 1 + len(many)  # one partition's floor, and its record of each
    before, began = await hashes_read(lane), time.monotonic()
    await asyncio.sleep(0.5)
    read = await hashes_read(lane) - before
    looks = (time.monotonic() - began) / LOOK_EVERY_S + 1
    # Then only how far the partitions are: none has moved.
    assert read <= first_look + looks * len(TAGS), "one look at a time, however many wait"
    for each in many:
        await lane.cover(each)
    assert {*await asyncio.gather(*waiting)} == {FollowState.COMPLETE}


async def hashes_read(lane: AccountsLane) -> int:
    """How many HMGETs the server has answered: nothing else here uses any."""
    stats = await lane.redis.info("commandstats")
    return int(stats["cmdstat_hmget"]["calls"])


async def test_a_request_without_room_to_wait_is_answered_at_once(
    lane: AccountsLane, follow: Follow
) -> None:
    await lane.advance()
    following = follow(api_max_concurrent=2, api_timeout_s=300.0)
    first, second = wallets(2)
    waiting = asyncio.create_task(following.follow("wallet", first, KEY, LONG_S))
    await eventually_async(lane.asked)
    assert await following.follow("wallet", second, KEY, LONG_S) is FollowState.TOO_MANY_WAIT
    await lane.cover(first)
    assert await waiting is FollowState.COMPLETE


async def test_accounts_by_address_have_a_limit_of_their_own_and_the_followed_none(
    lane: AccountsLane, follow: Follow
) -> None:
    await lane.advance()
    following = follow(api_new_accounts_per_key=2)
    first, second, third, kept = wallets(4)
    await lane.redis.zadd(TRACKED_ACCOUNTS.make(), {kept: 1})
    assert await following.ask_accounts([first, second, third, kept], KEY) is FollowState.KEY_LIMIT
    assert await lane.asked() == [(b"account", each) for each in (first, second, kept)]
    assert await following.ask_accounts([first, kept], KEY) is None, "asked within the minute"
    assert len(await lane.asked()) == 3
    assert await following.ask_accounts([third], "other") is None
    assert await following.follow("wallet", WALLET, KEY, 0) is FollowState.PENDING


async def test_lamports_are_asked_for_at_once_and_waited_for(
    lane: AccountsLane, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lane.advance()
    await lane.own_sol(WALLET, 5)
    await lane.track(WALLET)
    following = follow(api_timeout_s=300.0)
    wanted = LamportsOf(WALLET, lane.slot + 1)
    waiting = asyncio.create_task(following.renew_lamports(wanted, KEY, LONG_S))
    await eventually_async(lane.asked)
    await asyncio.sleep(0.2)
    assert not waiting.done(), "what is stored is older"
    await lane.advance()
    await lane.own_sol(WALLET, 3)
    assert await waiting
    assert not await following.renew_lamports(wanted, KEY, 0), "nobody waits"
    assert await lane.asked() == [(b"lamports", WALLET)], "of others within a second, once"
    monkeypatch.setattr(asks, "LAMPORTS_AFTER_S", 0.0)
    later = LamportsOf(WALLET, lane.slot + 1)
    assert not await following.renew_lamports(later, KEY, 0.1)
    assert await lane.asked() == [(b"lamports", WALLET)] * 2


async def test_lamports_that_were_asked_for_a_moment_ago_are_asked_for_again(
    lane: AccountsLane, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes of the ask before may be older than what this one wants."""
    await lane.advance()
    await lane.track(WALLET)
    monkeypatch.setattr(asks, "LAMPORTS_AFTER_S", 0.5)
    following = follow(api_timeout_s=300.0)
    assert not await following.renew_lamports(LamportsOf(WALLET, lane.slot), KEY, 0.01)
    await lane.advance()
    wanted = LamportsOf(WALLET, lane.slot)
    waiting = asyncio.create_task(following.renew_lamports(wanted, KEY, LONG_S))

    async def asked_twice() -> bool:
        return await lane.asked() == [(b"lamports", WALLET)] * 2

    await eventually_async(asked_twice)
    await lane.own_sol(WALLET, 3)
    assert await waiting


async def test_lamports_and_coverage_are_waited_for_side_by_side(
    lane: AccountsLane, follow: Follow
) -> None:
    await lane.advance()
    following = follow(api_timeout_s=300.0)
    other = b"o" * 32
    covered = asyncio.create_task(following.follow("wallet", other, KEY, LONG_S))
    wanted = LamportsOf(WALLET, lane.slot)
    lamports = asyncio.create_task(following.renew_lamports(wanted, KEY, LONG_S))
    await eventually_async(lane.asked)
    await lane.own_sol(WALLET, 3)
    assert await lamports
    assert not covered.done()
    await lane.cover(other)
    assert await covered is FollowState.COMPLETE
