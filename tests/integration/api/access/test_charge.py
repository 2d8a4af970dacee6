"""What a request is charged, in a real Valkey: exact for rate, credits and month."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest
from redis.exceptions import ResponseError

from api.access import register
from api.access.charge import NOT_GIVEN_BACK, Charges, renews_ms
from api.access.grants import Grant, Refusal
from api.access.keys import new, parse
from schemas.plans import PLANS
from schemas.redis_keys import (
    API_KEY,
    API_KEY_CREDITS,
    API_KEY_GIVEN_BACK,
    API_KEY_MINUTE,
    tag_of_key,
)
from tests.support.metrics import value_of

MINUTE_MS = 60_000


async def everything(redis):
    """All that Redis has of the keys; the scripts' clock aside."""
    [names] = await redis.ask([("KEYS", "*")])
    dumps = await redis.ask([("DUMP", name) for name in sorted(names)])
    return dict(zip(sorted(names), dumps, strict=True))


async def set_spent(redis, fingerprint, month, credits_spent):
    name = API_KEY_CREDITS.make(tag=tag_of_key(fingerprint))
    await redis.ask([("HSET", name, month, credits_spent)])


async def test_a_request_costs_a_credit_and_says_what_is_left(charges, make):
    fingerprint = await make.fingerprint("pro")
    first = await charges.request(fingerprint, 1)
    assert (first.plan.name, first.credits_left, first.requests_left) == ("pro", 999_999, 599)
    assert first.key_id == fingerprint[:12]
    assert first.frees_ms == MINUTE_MS
    second = await charges.request(fingerprint, 1)
    assert (second.credits_left, second.requests_left) == (999_998, 598)
    assert 0 < second.frees_ms <= MINUTE_MS


async def test_one_key_does_not_touch_another(charges, make, redis):
    mine, other = await make.fingerprint(), await make.fingerprint()
    before = await register.read(redis, other)
    for _ in range(60):
        await charges.request(mine, 1)
    assert (await charges.request(mine, 1)).outcome == "rate"
    assert await register.read(redis, other) == before
    assert (await charges.request(other, 1)).requests_left == 59


async def test_whatever_is_refused_costs_nothing(charges, make, redis, clock):
    unknown = parse(new())
    revoked = await make.fingerprint(revoked_ms=5)
    gone = await make.fingerprint("platinum")
    slow = await make.fingerprint("free")
    for _ in range(60):
        assert isinstance(await charges.request(slow, 1), Grant)
    poor = await make.fingerprint("free", credits={"2025-11": 50_000})
    before = await everything(redis)
    for fingerprint, refusal in {
        unknown: Refusal("unknown"),
        revoked: Refusal("revoked"),
        gone: Refusal("plan", "platinum"),
        slow: Refusal("rate", "free", MINUTE_MS),
        poor: Refusal("credits", "free", renews_ms("2025-11") - clock.ms),
    }.items():
        for _ in range(3):
            assert await charges.request(fingerprint, 1) == refusal
    assert await everything(redis) == before


@pytest.mark.parametrize("seed", range(3))
async def test_the_window_slides_exactly(charges, make, clock, seed):
    rng = random.Random(seed)
    fingerprint = await make.fingerprint("free")
    accepted = []
    refused = 0
    for _ in range(700):
        pause_ms = rng.choice((30_000, 59_999, 60_000)) if rng.random() < 0.01 else 0
        await clock.forward(pause_ms or rng.choice((0, 0, 1, 7, 150, 900, 3000)))
        recent = [at for at in accepted if clock.ms - at < MINUTE_MS]
        answer = await charges.request(fingerprint, 1)
        if len(recent) < 60:
            accepted.append(clock.ms)
            assert isinstance(answer, Grant)
            assert answer.requests == len(recent) + 1
            assert answer.frees_ms == MINUTE_MS - (clock.ms - min(recent, default=clock.ms))
            assert answer.credits_spent == len(accepted)
        else:
            refused += 1
            assert answer == Refusal("rate", "free", MINUTE_MS - (clock.ms - recent[0]))
    assert refused > 20


async def test_after_the_wait_it_is_let_through_and_not_before(charges, make, clock):
    fingerprint = await make.fingerprint("free")
    for _ in range(60):
        await charges.request(fingerprint, 1)
        await clock.forward(100)
    refusal = await charges.request(fingerprint, 1)
    await clock.forward(refusal.wait_ms - 1)
    assert (await charges.request(fingerprint, 1)).outcome == "rate"
    await clock.forward(1)
    assert isinstance(await charges.request(fingerprint, 1), Grant)
    assert (await charges.request(fingerprint, 1)).outcome == "rate"


async def test_a_clock_that_is_set_back_locks_nobody_out_for_longer_than_a_minute(
    charges, make, clock
):
    fingerprint = await make.fingerprint("free")
    for _ in range(60):
        await charges.request(fingerprint, 1)
    await clock.forward(-3_600_000)
    assert (await charges.request(fingerprint, 1)).wait_ms == MINUTE_MS


async def test_a_plan_that_has_become_smaller_counts_what_was_accepted(charges, make, redis, clock):
    fingerprint = await make.fingerprint("pro")
    for _ in range(100):
        await charges.request(fingerprint, 1)
        await clock.forward(10)
    name = API_KEY.make(tag=tag_of_key(fingerprint))
    await redis.ask([("HSET", name, "plan", "free")])
    refusal = await charges.request(fingerprint, 1)
    # It is free once 41 of the 100 are a minute old; now is 1000 ms after the first.
    assert refusal == Refusal("rate", "free", MINUTE_MS - 1000 + 400)
    await clock.forward(refusal.wait_ms)
    assert isinstance(await charges.request(fingerprint, 1), Grant)


async def test_times_are_kept_for_a_minute_and_no_more_than_the_rate(charges, make, redis):
    fingerprint = await make.fingerprint("free")
    for _ in range(70):
        await charges.request(fingerprint, 1)
    name = API_KEY_MINUTE.make(tag=tag_of_key(fingerprint))
    length, left_ms = await redis.ask([("LLEN", name), ("PTTL", name)])
    assert length == 60
    assert 50_000 < left_ms <= MINUTE_MS


async def test_enterprise_has_no_limits(charges, make, redis):
    fingerprint = await make.fingerprint("enterprise", credits={"2026-11": 10**12})
    granted = [await charges.request(fingerprint, 1) for _ in range(50)]
    assert all(each.requests_left is None and each.credits_left is None for each in granted)
    [exists] = await redis.ask([("EXISTS", API_KEY_MINUTE.make(tag=tag_of_key(fingerprint)))])
    assert not exists


async def test_months_are_those_of_the_calendar(charges, make, clock):
    fingerprint = await make.fingerprint("enterprise")
    rng = random.Random(7)
    began = datetime(2000, 1, 1, tzinfo=UTC)
    moments = [began + timedelta(days=rng.randrange(60_000)) for _ in range(200)]
    for year in (1999, 2000, 2023, 2024, 2025, 2026, 2100, 2400):
        for month in range(1, 13):
            first = datetime(year, month, 1, tzinfo=UTC)
            moments += [first, first - timedelta(milliseconds=1)]
    for moment in moments:
        await clock.set(moment)
        granted = await charges.request(fingerprint, 1)
        assert granted.month == f"{moment:%Y-%m}", moment
        ends = datetime.fromtimestamp(renews_ms(granted.month) / 1000, UTC)
        assert (ends - timedelta(milliseconds=1)).month == moment.month
        assert (ends.day, ends.hour, ends.minute) == (1, 0, 0)


async def test_credits_end_with_the_last_and_begin_anew_with_the_month(charges, make, clock):
    fingerprint = await make.fingerprint("free", credits={"2026-12": 49_998})
    await clock.set(datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC))
    assert (await charges.request(fingerprint, 1)).credits_left == 1
    assert (await charges.request(fingerprint, 1)).credits_left == 0
    assert await charges.request(fingerprint, 1) == Refusal("credits", "free", 1000)
    assert (await charges.request(fingerprint, 0)).credits_left == 0  # what is free stays so
    await clock.forward(1000)
    after = await charges.request(fingerprint, 1)
    assert (after.month, after.credits_left) == ("2027-01", 49_999)


async def test_a_key_over_its_plan_may_ask_for_what_is_free(charges, make, clock):
    fingerprint = await make.fingerprint("free", credits={"2025-11": 60_000})
    assert (await charges.request(fingerprint, 1)).outcome == "credits"
    granted = await charges.request(fingerprint, 0)
    assert (granted.credits_spent, granted.credits_left) == (60_000, 0)


async def test_a_credit_is_given_back_to_the_month_it_was_taken_from(charges, make, clock):
    fingerprint = await make.fingerprint("free")
    await clock.set(datetime(2026, 11, 30, 23, 59, 59, 900_000, tzinfo=UTC))
    granted = await charges.request(fingerprint, 1)
    await clock.forward(200)
    assert (await charges.request(fingerprint, 1)).credits_left == 49_999
    returned = await charges.give_back(granted)
    assert (returned.month, returned.credits_left, returned.charged) == ("2026-11", 50_000, 0)
    assert (await charges.request(fingerprint, 1)).credits_left == 49_998


async def test_what_was_charged_is_given_back_once(charges, make, redis):
    fingerprint = await make.fingerprint("free")
    granted = await charges.request(fingerprint, 1)
    returned = await charges.give_back(granted)
    assert await charges.give_back(returned) == returned
    assert returned.credits_left == 50_000
    assert (await register.read(redis, fingerprint)).credits == {granted.month: 0}
    # The request was made: it counts for the rate.
    assert (await charges.request(fingerprint, 1)).requests_left == 58


async def test_ten_requests_a_minute_get_their_credit_back(charges, make, redis):
    fingerprint, other = await make.fingerprint("pro"), await make.fingerprint("pro")
    kept = NOT_GIVEN_BACK.labels("limit")
    before = value_of(kept)
    charged = []
    for _ in range(15):
        returned = await charges.give_back(await charges.request(fingerprint, 1))
        charged.append((returned.charged, returned.credits_spent))
    assert charged == [(0, 0)] * 10 + [(1, number) for number in range(1, 6)]
    assert value_of(kept) == before + 5
    assert (await charges.give_back(await charges.request(other, 1))).charged == 0
    [left_s] = await redis.ask([("TTL", API_KEY_GIVEN_BACK.make(tag=tag_of_key(fingerprint)))])
    assert 0 < left_s <= 60
    await redis.ask([("DEL", API_KEY_GIVEN_BACK.make(tag=tag_of_key(fingerprint)))])  # it ends
    returned = await charges.give_back(await charges.request(fingerprint, 1))
    assert (returned.charged, returned.credits_spent) == (0, 5)


async def test_what_cost_nothing_gives_nothing_back(charges, make, redis):
    fingerprint = await make.fingerprint("free", credits={"2026-11": 7})
    granted = await charges.request(fingerprint, 0)
    assert await charges.give_back(granted) is granted
    assert (await register.read(redis, fingerprint)).credits == {"2026-11": 7}


async def test_last_use_is_written_every_ten_seconds(charges, make, redis, clock):
    fingerprint = await make.fingerprint("free")
    seen = []
    for _ in range(25):
        await charges.request(fingerprint, 1)
        seen.append((await register.read(redis, fingerprint)).last_used_ms - clock.ms)
        await clock.forward(1000)
    assert min(seen) == -9000
    assert seen.count(0) == 3


async def test_a_revoked_key_is_refused_by_the_next_request(charges, make, redis):
    fingerprint = await make.fingerprint("business")
    assert isinstance(await charges.request(fingerprint, 1), Grant)
    await register.revoke(redis, fingerprint, 1)
    assert await charges.request(fingerprint, 1) == Refusal("revoked")


async def test_credits_are_exact_however_many_ask_at_once(settings, make, redis):
    fingerprint = await make.fingerprint("business", credits={})
    month = (await Charges(redis).request(fingerprint, 0)).month
    limit = PLANS["business"].credits_a_month
    await set_spent(redis, fingerprint, month, limit - 500)
    connections = [register.connect(settings) for _ in range(4)]
    outcomes = []

    async def ask(connection):
        charges = Charges(connection)
        for number in range(100):
            answer = await charges.request(fingerprint, 1)
            outcomes.append(1 if isinstance(answer, Grant) else 0)
            if isinstance(answer, Grant) and number % 5 == 0:
                returned = await charges.give_back(answer)
                outcomes.append(returned.charged - answer.charged)

    await asyncio.gather(*(ask(each) for each in connections for _ in range(3)))
    await asyncio.gather(*(each.aclose() for each in connections))
    spent = (await register.read(redis, fingerprint)).credits[month]
    assert spent == limit - 500 + sum(outcomes)
    assert limit - 12 < spent <= limit


async def test_scripts_are_sent_again_to_a_redis_that_has_forgotten_them(charges, make, redis):
    fingerprint = await make.fingerprint("free")
    for left in range(3):
        await redis.ask([("SCRIPT", "FLUSH")])
        granted = await charges.request(fingerprint, 1)
        assert granted.requests_left == 59 - left
        await redis.ask([("SCRIPT", "FLUSH")])
        assert (await charges.give_back(granted)).credits_left == 50_000


async def test_a_redis_that_is_full_still_charges_and_takes_no_new_key(charges, make, redis):
    fingerprint = await make.fingerprint("free")
    await redis.ask([("CONFIG", "SET", "maxmemory", 1)])
    try:
        granted = await charges.request(fingerprint, 1)
        returned = await charges.give_back(granted)
        assert (returned.requests_left, returned.credits_left) == (59, 50_000)
        with pytest.raises(ResponseError, match="OOM"):
            await make.fingerprint("free")
        await register.revoke(redis, fingerprint, 1)
        assert await charges.request(fingerprint, 1) == Refusal("revoked")
    finally:
        await redis.ask([("CONFIG", "SET", "maxmemory", 0)])
