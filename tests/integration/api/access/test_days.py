"""Requests of users by day and path, in a real Valkey: what is shown, and what is lost."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from prometheus_client import REGISTRY

from api.access import days, register
from api.access.days import Days
from infra.local.process import free_port
from infra.settings import Settings
from schemas.redis_keys import USER_DAY, tag_of_key
from tests.support.waiting import eventually_async

ANN, BOB = "a" * 64, "b" * 64


def lost():
    return REGISTRY.get_sample_value("soltape_api_user_days_lost_total")


async def counted(redis, user):
    """Return what is shown, without days that have nothing: a test may run at midnight."""
    return [paths for _, paths in await days.read(redis, user) if paths]


async def test_requests_are_shown_by_path_for_thirty_days_up_to_today(redis):
    first = datetime.now(UTC)
    process, other = Days(redis), Days(redis)
    for path in ("/api/usage", "/api/usage", "/api/search"):
        process.count(ANN, path)
    other.count(ANN, "/api/search")
    other.count(BOB, "/api/usage")
    await process.write()
    await process.write()  # nothing is written twice
    await other.write()
    assert await counted(redis, ANN) == [{"/api/usage": 2, "/api/search": 2}]
    assert await counted(redis, BOB) == [{"/api/usage": 1}]
    shown = [day for day, _ in await days.read(redis, ANN)]
    ends = first, datetime.now(UTC)
    assert shown in [
        [f"{end - timedelta(days=ago):%Y-%m-%d}" for ago in range(29, -1, -1)] for end in ends
    ]
    [names] = await redis.ask([("KEYS", USER_DAY.make(tag=tag_of_key(ANN), day="*"))])
    [left_s] = await redis.ask([("TTL", names[0])])
    assert 31 * 86_400 < left_s <= 32 * 86_400


async def test_counts_of_many_users_are_all_written(redis):
    process = Days(redis)
    many = [f"{number:064x}" for number in range(1_001)]
    for user in many:
        process.count(user, "/api/usage")
    await process.write()
    written = [await counted(redis, user) for user in many]
    assert written == [[{"/api/usage": 1}]] * len(many)


async def test_a_process_writes_by_itself_until_it_ends(redis, monkeypatch):
    monkeypatch.setattr(days, "WRITE_EVERY_S", 0.01)
    process = Days(redis)
    writing = asyncio.create_task(process.run())
    try:
        for number in (1, 2):
            process.count(ANN, "/api/usage")

            async def is_written(number=number):
                return writing.done() or await counted(redis, ANN) == [{"/api/usage": number}]

            await eventually_async(is_written)
            assert not writing.done()
    finally:
        writing.cancel()


async def test_while_redis_is_away_requests_are_lost_and_said_to_be():
    away = register.connect(
        Settings(_env_file=None, access_redis_url=f"redis://127.0.0.1:{free_port()}/1")
    )
    process = Days(away)
    before = lost()
    for _ in range(3):
        process.count(ANN, "/api/usage")
    process.count(BOB, "/api/usage")
    await process.write()
    assert lost() == before + 4
    await process.write()  # they are gone
    assert lost() == before + 4
    await away.aclose()


async def test_a_process_holds_so_many_counts(redis):
    """Of users, days and paths. A further request of what is counted already takes no room."""
    process = Days(redis)
    before = lost()
    for number in range(20_000):
        process.count(f"{number:064x}", "/api/usage")
    assert lost() == before
    process.count(ANN, "/api/usage")
    assert lost() == before + 1
    process.count(f"{0:064x}", "/api/usage")
    assert lost() == before + 1
