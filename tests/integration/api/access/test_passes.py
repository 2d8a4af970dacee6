"""Passes in a real Valkey: what is kept of them, for how long, and that one is spent once."""

import asyncio

import pytest

from api.access import passes
from schemas.redis_keys import API_LINK, API_SESSION, API_TICKET

FINGERPRINT = "f" * 64


@pytest.mark.parametrize("kind", [API_LINK, API_SESSION, API_TICKET])
async def test_only_the_hash_is_kept_and_not_for_ever(redis, kind):
    secret = await passes.issue(redis, kind, FINGERPRINT)
    assert len(secret) == 43  # 256 bits
    [[name]] = await redis.ask([("KEYS", "*")])
    assert secret.encode() not in name
    assert await redis.ask([("GET", name)]) == [FINGERPRINT.encode()]
    [left_s] = await redis.ask([("TTL", name)])
    assert kind.ttl_s - 60 < left_s <= kind.ttl_s
    assert await passes.holder(redis, kind, secret) == FINGERPRINT


async def test_one_of_many_spends_it(redis):
    secret = await passes.issue(redis, API_LINK, FINGERPRINT)
    found = await asyncio.gather(*(passes.spend(redis, API_LINK, secret) for _ in range(50)))
    assert sorted(found, key=str) == [None] * 49 + [FINGERPRINT]
    assert await redis.ask([("DBSIZE",)]) == [0]


async def test_it_is_for_its_own_purpose_alone(redis):
    secret = await passes.issue(redis, API_TICKET, FINGERPRINT)
    assert await passes.holder(redis, API_SESSION, secret) is None
    assert await passes.spend(redis, API_LINK, secret) is None
    assert await passes.spend(redis, API_TICKET, secret) == FINGERPRINT


@pytest.mark.parametrize("text", ["", "x", "A" * 42, "A" * 44, "A" * 42 + "*", "A" * 42 + "é", "*"])
async def test_what_is_no_secret_costs_no_trip(text):
    class NoRedis:
        async def ask(self, commands):
            raise AssertionError("asked")

    assert await passes.spend(NoRedis(), API_LINK, text) is None
    assert await passes.holder(NoRedis(), API_SESSION, text) is None
