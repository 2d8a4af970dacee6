"""What `/api/health` says of the process that watches."""

# ruff: noqa: F401, F811 - the fixtures are of another file

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from api.watch import service
from api.watch.lease import Lease
from api.watch.report import Report, write
from infra.redis.asks import connect_pipelined
from infra.redis.partitions import PartitionsWrong
from infra.settings import Settings
from schemas.redis_keys import WATCH_LEASE, WATCH_REPORT
from tests.integration.api.positions.test_aggregates import Stocked, _protocols, chain, client
from tests.integration.api.watch.test_watch import _quick, watching
from tests.integration.api.watch.watching import Borrower
from tests.support.api.asking import validator
from tests.support.waiting import eventually_async

NOBODY = {
    "is_active": False,
    "since_ms": None,
    "report_age_ms": None,
    "wallets": None,
    "left_out": None,
    "overdue_ms": None,
    "snapshots_waiting": None,
    "keeps_books": None,
}
Look = Callable[[Callable[[dict[str, Any]], bool]], Awaitable[dict[str, Any]]]


@pytest.fixture
def until(client: Any) -> Look:
    """Returns health once it is as wanted; a look is kept for a second."""
    asking, document = client
    check = validator(document, "get", "/api/health", 200)

    async def look(is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        seen: list[Any] = []

        async def found() -> dict[str, Any] | None:
            reply = await asking.get("/api/health")
            answer = reply.json()
            seen[:] = [answer]
            if reply.status_code != 200:  # a store is slow
                return None
            assert [*check.iter_errors(answer)] == []
            seen[:] = [answer["watch"], answer["reasons"]]
            if is_so(answer["watch"]):
                return answer
            await asyncio.sleep(1.1)  # sooner it is the same look, and the key has a rate
            return None

        return await eventually_async(found, lambda: seen)

    return look


async def test_health_says_who_watches_and_how_late_it_is(
    settings: Settings, chain: Stocked, until: Look
) -> None:
    await until(lambda watch: watch == NOBODY)
    began_ms = time.time_ns() // 1_000_000
    borrower = await Borrower.begin(chain, 1_500)
    async with watching(settings):
        await borrower.seen(1.5)
        found = await until(lambda watch: watch["wallets"] == 1)
        watch = found["watch"]
        assert watch["is_active"]
        assert watch["since_ms"] >= began_ms
        assert 0 <= watch["report_age_ms"] < 60_000
        assert (watch["left_out"], watch["keeps_books"]) == (0, False)
        assert watch["overdue_ms"] >= 0
    await until(lambda watch: watch == NOBODY)


async def test_a_process_that_died_is_missed_and_nobody_else_reports(
    settings: Settings, chain: Stocked, until: Look
) -> None:
    redis = connect_pipelined(settings)
    died, other = Lease(redis), Lease(redis)
    now_ms = time.time_ns() // 1_000_000
    report = Report(now_ms - 90_000, 7, 1, 300, 2, 1)
    try:
        await died.acquire()
        await chain.redis.persist(WATCH_LEASE.make())  # as if renewed: looks may be slow
        assert await write(redis, died, report)
        await chain.redis.expire(WATCH_REPORT.make(), 3_600)  # as an earlier version did
        assert await write(redis, died, report)
        assert await chain.redis.ttl(WATCH_REPORT.make()) == -1, "health forgets nobody who died"
        assert not await write(redis, other, report._replace(wallets=9))
        # A look may have come between the two.
        found = await until(lambda watch: watch["wallets"] is not None)
        assert found["watch"] | {"report_age_ms": None} == NOBODY | report._asdict() | {
            "is_active": True,
            "keeps_books": True,
        }
        assert not [each for each in found["reasons"] if "late" in each]
        assert await write(redis, died, report._replace(overdue_ms=61_000))
        found = await until(lambda watch: watch["overdue_ms"] == 61_000)
        assert found["status"] == "degraded"
        [reason] = [each for each in found["reasons"] if "tracked wallets" in each]
        assert "read 61 s late" in reason
        assert "WATCH_WALLETS_PER_S is too low for 7" in reason
        await chain.redis.delete(WATCH_LEASE.make())  # its time is over
        await chain.redis.hset(WATCH_REPORT.make(), "at_ms", now_ms - 60_000)
        found = await until(lambda watch: not watch["is_active"])
        assert found["watch"]["report_age_ms"] >= 60_000
        assert found["watch"]["wallets"] is None
        [reason] = [each for each in found["reasons"] if "watched" in each]
        assert "`soltape watch`" in reason
        await other.acquire()
        await chain.redis.persist(WATCH_LEASE.make())
        found = await until(lambda watch: watch["is_active"])
        assert found["watch"]["wallets"] is None, "it has not said anything yet"
        assert not [each for each in found["reasons"] if "watched" in each]
        await died.release(in_order=True)
        assert await chain.redis.exists(WATCH_REPORT.make(), WATCH_LEASE.make()) == 2
    finally:
        await chain.redis.delete(WATCH_LEASE.make(), WATCH_REPORT.make())
        await redis.aclose()


async def test_a_process_that_fails_leaves_its_report_and_one_that_is_stopped_does_not(
    settings: Settings, chain: Stocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = WATCH_REPORT.make(), WATCH_LEASE.make()

    async def has_reported() -> bool:
        return await chain.redis.exists(*names) == 2

    async def fails(ask: Any) -> None:
        await eventually_async(has_reported)
        raise PartitionsWrong("of another count")

    try:
        with monkeypatch.context() as patched:
            patched.setattr(service.partitions, "watch", fails)
            with pytest.raises(PartitionsWrong):
                await service.run(settings, asyncio.Event(), {})
        assert [await chain.redis.exists(name) for name in names] == [1, 0]
        async with watching(settings):
            await eventually_async(has_reported)
        assert await chain.redis.exists(*names) == 0
    finally:
        await chain.redis.delete(*names)
