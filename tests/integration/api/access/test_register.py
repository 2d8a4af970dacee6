"""The keys there are, in a real Valkey."""

import asyncio
from dataclasses import replace

import pytest

from api.access import register
from api.access.charge import Charges
from api.access.keys import PREFIX, Record, new, parse
from api.access.register import IdTaken, NoSuchKey
from schemas.redis_keys import API_KEYS

FACTS = Record(
    parse(new()), "dashboard", "pro", "ann@example.com", "x9Zk", 1_000,
    last_used_ms=5_000, revoked_ms=None, credits={"2026-10": 7, "2026-11": 3},
)  # fmt: skip


async def test_what_is_put_is_read(redis):
    assert await register.put(redis, FACTS)
    assert await register.read(redis, FACTS.fingerprint) == FACTS
    assert await register.read(redis, parse(new())) is None
    assert not await register.put(redis, FACTS)
    assert await register.read_all(redis) == [FACTS]


async def test_what_is_newer_is_never_overwritten(redis):
    await register.put(redis, FACTS)
    older = replace(
        FACTS, name="other", plan="free", owner="bob", created_ms=9, last_used_ms=4_000,
        credits={"2026-09": 5, "2026-10": 6, "2026-11": 4},
    )  # fmt: skip
    await register.put(redis, older)
    merged = replace(FACTS, credits={"2026-09": 5, "2026-10": 7, "2026-11": 4})
    assert await register.read(redis, FACTS.fingerprint) == merged
    await register.put(redis, replace(older, revoked_ms=50, last_used_ms=None))
    await register.put(redis, replace(older, revoked_ms=None))
    await register.put(redis, replace(older, revoked_ms=40))
    assert (await register.read(redis, FACTS.fingerprint)).revoked_ms == 50


async def test_putting_while_it_is_charged_loses_no_credit(redis, settings):
    fingerprint = FACTS.fingerprint
    await register.put(redis, replace(FACTS, plan="business", credits={}))
    charges = Charges(redis)
    connection = register.connect(settings)
    record = await register.read(redis, fingerprint)

    async def put_again():
        for _ in range(200):
            await register.put(connection, record)

    async def charge():
        for _ in range(200):
            await charges.request(fingerprint, 1)

    await asyncio.gather(charge(), put_again(), charge())
    await connection.aclose()
    assert sum((await register.read(redis, fingerprint)).credits.values()) == 400


async def test_all_are_read_whatever_their_number(redis, monkeypatch):
    # private `_AT_ONCE`: makes a few keys take several pages.
    monkeypatch.setattr(register, "_AT_ONCE", 7)
    made = [replace(FACTS, fingerprint=parse(new()), created_ms=at) for at in range(30)]
    for each in reversed(made):
        await register.put(redis, each)
    assert await register.read_all(redis) == made


async def test_a_key_that_is_being_made_is_not_listed(redis):
    await redis.ask([("HSET", API_KEYS.make(), "0" * 12, "0" * 64)])
    assert await register.read_all(redis) == []
    with pytest.raises(NoSuchKey):
        await register.find(redis, "0" * 12)


async def test_two_keys_of_one_id_are_refused(redis):
    await register.put(redis, FACTS)
    twin = replace(FACTS, fingerprint=FACTS.id + "0" * 52)
    with pytest.raises(IdTaken):
        await register.put(redis, twin)
    assert await register.read_all(redis) == [FACTS]


async def test_a_key_is_found_by_id_by_what_is_shown_and_by_itself(redis):
    text = new()
    record = replace(FACTS, fingerprint=parse(text), last4=text[-4:])
    await register.put(redis, record)
    for meant in (record.id, record.display, text):
        assert await register.find(redis, meant) == record


async def test_what_is_not_found_or_not_clear_is_said(redis):
    await register.put(redis, FACTS)
    other = replace(FACTS, fingerprint=parse(new()))
    await register.put(redis, other)
    with pytest.raises(NoSuchKey, match=rf"may be any of .*{FACTS.id}.*: give the id"):
        await register.find(redis, FACTS.display)
    for text in ("", "nonsense", "*", FACTS.id[:-1], FACTS.id.upper() + "x", f"{PREFIX}...0000"):
        with pytest.raises(NoSuchKey, match="is not known here"):
            await register.find(redis, text)
    unknown = new()
    with pytest.raises(NoSuchKey) as raised:
        await register.find(redis, unknown)
    assert unknown[8:] not in str(raised.value)
    with pytest.raises(NoSuchKey, match=r"this is no key: .*47 characters"):
        await register.find(redis, unknown[:-1])


async def test_what_is_not_known_cannot_be_revoked(redis):
    await register.revoke(redis, FACTS.fingerprint, 1)
    assert await redis.ask([("DBSIZE",)]) == [0]


async def test_the_clock_is_that_of_redis(redis):
    [(seconds, _)] = await redis.ask([("TIME",)])
    assert abs(await register.now_ms(redis) - int(seconds) * 1000) < 5_000
