"""The month in a real Valkey: of several processes, over its end, and while Valkey is away."""

from __future__ import annotations

from datetime import UTC, datetime

from api.system.availability import AvailabilityWatch
from infra.redis.asks import Pipelined
from schemas.redis_keys import MONTH_FAILED_MINUTES, MONTH_MINUTES, tag_of_month


def at_ms(day: int, hour: int = 0, minute: int = 0, month: int = 11) -> int:
    return int(datetime(2026, month, day, hour, minute, 30, tzinfo=UTC).timestamp()) * 1000


async def test_processes_share_a_month(redis: Pipelined) -> None:
    one, other = AvailabilityWatch(redis), AvailabilityWatch(redis)
    for status in (200, 404, 503, 500):
        one.count(status)
    other.count(200)
    await one.note(True, at_ms(7, 12, 0))
    await other.note(True, at_ms(7, 12, 1))
    await one.note(False, at_ms(7, 12, 1))  # one of two is enough for a minute not to count
    await one.note(True, at_ms(7, 12, 3))  # nobody wrote of 12:02
    await other.note(True, at_ms(7, 12, 4))
    assert other.last == {
        "month": "2026-11",
        "since_ms": at_ms(7, 12) - 30_000,
        "minutes": 4,
        "minutes_pct": 50.0,
        "answers": 5,
        "answers_pct": 60.0,
        "target_pct": 99.7,
    }
    for key in (MONTH_MINUTES, MONTH_FAILED_MINUTES):
        [left_s] = await redis.ask([("TTL", key.make(tag=tag_of_month("2026-11")))])
        assert left_s > 390 * 86_400


async def test_a_month_after_a_known_one_counts_from_its_beginning(redis: Pipelined) -> None:
    watch = AvailabilityWatch(redis)
    watch.count(500)
    await watch.note(True, at_ms(30, 23, 59))
    await watch.note(True, at_ms(1, 0, 9, month=12))  # away for ten minutes
    assert watch.last is not None
    assert (watch.last["month"], watch.last["minutes"], watch.last["answers"]) == ("2026-12", 9, 0)
    assert watch.last["minutes_pct"] == 0.0


async def test_what_cannot_be_written_is_written_later(redis: Pipelined) -> None:
    class Away:
        is_away = True

        async def ask(self, commands):  # type: ignore[no-untyped-def]
            if self.is_away:
                raise ConnectionResetError
            return await redis.ask(commands)

    store = Away()
    watch = AvailabilityWatch(store)
    watch.count(200)
    await watch.note(False, at_ms(7))
    assert watch.last is None
    store.is_away = False
    await watch.note(True, at_ms(7))  # good again within the minute
    watch.count(502)
    await watch.note(True, at_ms(7, 0, 1))
    store.is_away = True
    await watch.note(False, at_ms(7, 0, 2))
    store.is_away = False
    await watch.note(True, at_ms(7, 0, 2))
    await watch.note(True, at_ms(7, 0, 4))
    assert watch.last is not None
    assert (watch.last["answers"], watch.last["answers_pct"]) == (2, 50.0)
    assert (watch.last["minutes"], watch.last["minutes_pct"]) == (4, 25.0)  # the second alone
