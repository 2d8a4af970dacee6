"""Sign-ins under way, sealed: for every process, across new secrets, for ten minutes."""

from __future__ import annotations

import asyncio

from api.signin import pending
from api.signin.pending import Seals
from schemas.redis_keys import SIGN_IN_SECRETS

NAME = SIGN_IN_SECRETS.make()


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


async def rotate(redis):
    """Have the next look make a new secret."""
    await redis.ask([("HSET", NAME, "made_ms", 1)])


async def test_what_one_process_seals_another_opens(redis):
    one, other = Seals(redis), Seals(redis)
    begun = pending.begin("user", "digest")
    sealed = await one.seal(begun)
    assert await other.open(sealed, begun.state) == begun
    assert await other.open(sealed, pending.secret()) is None
    assert await other.open(sealed, "\udcff") is None
    for each in (begun.state, begun.nonce, begun.verifier):
        assert each not in sealed


async def test_of_many_processes_at_once_all_have_one_secret(redis):
    many = [Seals(redis) for _ in range(8)]
    begun = [pending.begin() for _ in many]
    sealed = await asyncio.gather(*(each.seal(one) for each, one in zip(many, begun, strict=True)))
    for text, one in zip(sealed, begun, strict=True):
        assert await many[0].open(text, one.state) == one
    assert await redis.ask([("HLEN", NAME)]) == [2]


async def test_a_new_secret_leaves_those_under_way_good_and_the_second_ends_them(redis):
    clock, begun = Clock(), pending.begin()
    seals, late = Seals(redis, clock), Seals(redis, clock)
    sealed = await seals.seal(begun)
    assert await late.open(sealed, begun.state) == begun
    await rotate(redis)
    new = Seals(redis, clock)
    newer = await new.seal(begun)
    assert await new.open(sealed, begun.state) == begun
    clock.now_s += 3
    assert await late.open(newer, begun.state) == begun  # it looks again
    await rotate(redis)
    fresh = Seals(redis, clock)
    assert await fresh.open(newer, begun.state) == begun
    assert await fresh.open(sealed, begun.state) is None
    [left_ms] = await redis.ask([("PTTL", NAME)])
    assert left_ms > pending.SEALS_S * 1000


async def test_seals_that_were_made_up_cost_redis_next_to_nothing(redis):
    clock = Clock()
    seals = Seals(redis, clock)
    await seals.seal(pending.begin())
    [before] = await redis.ask([("INFO", "commandstats")])
    for number in range(100):
        clock.now_s += 0.01
        assert await seals.open(f"made up {number}", "state") is None
    assert await seals.open("x" * 10_000, "state") is None
    [after] = await redis.ask([("INFO", "commandstats")])
    assert calls(after) - calls(before) <= 1


def calls(stats):
    [found] = [each for each in stats.decode().splitlines() if each.startswith("cmdstat_evalsha:")]
    return int(found.partition("calls=")[2].partition(",")[0])


async def test_they_are_sealed_in_a_full_redis(redis):
    await redis.ask([("CONFIG", "SET", "maxmemory", 1)])
    try:
        seals = Seals(redis)
        begun = pending.begin()
        assert await seals.open(await seals.seal(begun), begun.state) == begun
    finally:
        await redis.ask([("CONFIG", "SET", "maxmemory", 0)])
