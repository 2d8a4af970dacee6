"""Metadata off the request path: pending, then there; failures remembered; the cache bounded."""

from __future__ import annotations

import asyncio
import os

import orjson
import pytest
from aiohttp import web

from api.metadata.cache import now_ms
from api.metadata.queue import MOST_AT_ONCE, MOST_OF_KEY
from api.metadata.records import unpack
from api.metadata.service import ImageBytes
from schemas.redis_keys import (
    OFFCHAIN_ASKED,
    OFFCHAIN_DOCUMENTS,
    OFFCHAIN_FETCHING,
    OFFCHAIN_IMAGES,
    OFFCHAIN_SIZES,
)
from tests.support.images import png
from tests.support.waiting import eventually_async

MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


async def ask(service, mint, uri, holder="a key"):
    """Return what is known, and have it fetched, as a request does."""
    found = await service.known(mint, uri)
    service.want(mint, holder)
    return found


async def settled(service, mint, uri):
    """Return what is known once that is no longer that it is asked for."""

    async def look():
        found = await ask(service, mint, uri)
        return None if found.reason == "pending" else found

    return await eventually_async(look)


def document(site, path, **fields):
    return site.url(path, orjson.dumps(fields))


async def test_it_is_pending_then_there(start, site):
    service = start()
    data = png(3, 2)
    image = site.url("/a.png", data)
    uri = document(site, "/a.json", name="A\u202eB", image=image, twitter="@abc", extra=[1])
    first = await ask(service, MINT, uri)
    assert (first.answer, first.reason) == (None, "pending")
    found = (await settled(service, MINT, uri)).answer
    assert (found["name"], found["twitter"]) == ("AB", "https://x.com/abc")
    assert found["image"] == {
        "path": f"/api/tokens/{MINT}/image",
        "media_type": "image/png",
        "width": 3,
        "height": 2,
        "bytes": len(data),
    }
    kept = await service.image(MINT)
    assert isinstance(kept, ImageBytes)
    assert kept.data == data
    for _ in range(5):
        await ask(service, MINT, uri)
    other = start()  # another process of the API
    assert (await ask(other, MINT, uri)).answer == found
    assert site.asked == {"/a.json": 1, "/a.png": 1}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (web.Response(status=404), "http_error"),
        (web.Response(body=b"<html></html>"), "not_json"),
        (web.Response(body=bytes((64 << 10) + 1)), "too_large"),
        (web.Response(status=302, headers={"location": "http://127.0.0.1:9/"}), "refused"),
    ],
)
async def test_a_failure_is_named_and_remembered(start, site, answer, reason):
    service = start()
    uri = site.url("/bad.json", answer)
    found = await settled(service, MINT, uri)
    assert (found.answer, found.reason) == (None, reason)
    assert found.detail
    for _ in range(5):
        assert (await ask(service, MINT, uri)).reason == reason
    assert site.asked["/bad.json"] == 1
    assert (await service.image(MINT)).reason == reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not_an_image"),
        (png(1, 1).replace(b"IHDR", b"IHDX"), "not_an_image"),
        (png(5_000, 4_000), "too_many_pixels"),
        (png(2, 2) + bytes(1 << 20), "too_large"),
    ],
)
async def test_a_document_is_there_without_its_image(start, site, data, reason):
    service = start()
    uri = document(site, "/a.json", name="A", image=site.url("/a.png", data))
    found = await settled(service, MINT, uri)
    assert found.answer["name"] == "A"
    assert (found.answer["image"], found.answer["image_reason"]) == (None, reason)
    assert (await service.image(MINT)).reason == reason


async def test_an_image_elsewhere_is_not_fetched_from_private_places(start, site):
    uri = document(site, "/a.json", image="http://169.254.169.254/latest/meta-data/")
    found = await settled(start(), MINT, uri)
    assert found.answer["image_reason"] == "refused"


async def test_without_a_uri_or_where_it_is_off_nothing_is_fetched(start, site):
    assert (await ask(start(), MINT, None)).reason == "no_uri"
    off = start(metadata_fetch=False)
    assert (await ask(off, MINT, document(site, "/a.json", name="A"))).reason == "off"
    assert not site.asked


async def test_another_uri_is_another_document(start, site):
    service = start()
    await settled(service, MINT, document(site, "/a.json", name="A"))
    second = document(site, "/b.json", name="B")
    assert (await ask(service, MINT, second)).reason == "pending"
    assert (await settled(service, MINT, second)).answer["name"] == "B"


async def test_what_was_there_stays_through_a_later_failure(start, site, redis):
    service = start()
    image = site.url("/a.png", png(2, 2))
    uri = document(site, "/a.json", name="A", image=image)
    before = await settled(service, MINT, uri)
    key = OFFCHAIN_DOCUMENTS.make()
    record = orjson.loads(await redis.hget(key, MINT))
    await redis.hset(key, MINT, orjson.dumps(record | {"next_ms": 0}))
    site.answers["/a.json"] = web.Response(status=500)
    assert await ask(service, MINT, uri) == before  # stale, and asked anew

    async def failed():
        return unpack(await redis.hget(key, MINT)).failures == 1

    await eventually_async(failed)
    assert await ask(service, MINT, uri) == before
    assert isinstance(await service.image(MINT), ImageBytes)
    assert unpack(await redis.hget(key, MINT)).next_ms > now_ms()


async def test_what_another_version_kept_is_as_if_absent(start, site, redis):
    await redis.hset(OFFCHAIN_DOCUMENTS.make(), MINT, b'{"uri": "x", "words": 1}')
    uri = document(site, "/a.json", name="A")
    assert (await ask(start(), MINT, uri)).reason == "pending"
    assert (await start().image(MINT)).reason == "pending"


async def test_two_processes_do_not_fetch_the_same(start, site, redis):
    uri = document(site, "/a.json", name="A")
    await redis.set(OFFCHAIN_FETCHING.make(mint=MINT), "", ex=60)  # another process is at it
    service = start()
    for _ in range(3):
        assert (await ask(service, MINT, uri)).reason == "pending"
        await asyncio.sleep(0.1)
    assert not site.asked
    await redis.delete(OFFCHAIN_FETCHING.make(mint=MINT))
    assert (await settled(service, MINT, uri)).answer["name"] == "A"
    assert site.asked["/a.json"] == 1


async def test_the_cache_keeps_to_its_bound_and_the_least_asked_leave(start, site, redis):
    service = start(metadata_cache_mib=1)
    noise = png(1, 1) + os.urandom(200 << 10)  # a picture with something behind it
    mints = [f"{number:02}" + MINT[2:] for number in range(9)]
    image = site.url("/a.png", noise)
    for at, mint in enumerate(mints):
        await settled(service, mint, document(site, f"/{at}.json", name=str(at), image=image))
        await redis.zadd(OFFCHAIN_ASKED.make(), {mints[0]: now_ms() + 1})  # asked for again
    assert await redis.hlen(OFFCHAIN_IMAGES.make()) == 5
    kept = set(map(bytes.decode, await redis.hkeys(OFFCHAIN_DOCUMENTS.make())))
    assert kept == {mints[0], *mints[5:]}
    sizes = await redis.hgetall(OFFCHAIN_SIZES.make())
    assert int(sizes.pop(b"")) == sum(map(int, sizes.values())) <= 1 << 20
    for key in (OFFCHAIN_DOCUMENTS, OFFCHAIN_IMAGES, OFFCHAIN_SIZES, OFFCHAIN_ASKED):
        assert 0 < await redis.ttl(key.make()) <= key.ttl_s


async def test_an_entry_unused_for_a_week_expires(start, site, redis):
    service = start()
    await settled(service, MINT, document(site, "/a.json", name="A"))
    await redis.zadd(OFFCHAIN_ASKED.make(), {MINT: now_ms() - 8 * 86_400_000})
    await settled(service, "1" * 32, document(site, "/b.json", name="B"))
    assert await redis.hkeys(OFFCHAIN_DOCUMENTS.make()) == [b"1" * 32]


async def test_a_slow_host_does_not_hold_up_others(start, site):
    service = start()
    # private `_fetcher`: hosts that never answer, without waiting for their timeouts.
    fetch = service._fetcher.get

    async def slow_or_not(uri, most):
        if "slow" in uri:
            await asyncio.sleep(600)
        return await fetch(uri, most)

    service._fetcher.get = slow_or_not
    for number in range(50):
        await ask(service, f"s{number}", f"http://slow.example/{number}")
    found = await settled(service, MINT, document(site, "/a.json", name="A"))
    assert found.answer["name"] == "A"


async def test_one_key_does_not_take_the_places_of_all(start, site):
    service = start()
    begun = []

    async def never(uri, most):
        begun.append(uri)
        await asyncio.sleep(600)

    service._fetcher.get = never
    for number in range(1_000):
        await ask(service, f"e{number}", f"http://h{number}.evil.example/", "evil")
    await eventually_async(lambda: len(begun) == MOST_AT_ONCE)
    # private `_queue`, `_waiting`, `_running`: ends one fetch that never ends, and counts those
    # that wait.
    assert len(service._queue._waiting) == MOST_OF_KEY
    await ask(service, MINT, "http://honest.example/", "honest")
    next(iter(service._queue._running.values())).cancel()
    await eventually_async(lambda: begun[MOST_AT_ONCE:])
    assert begun[MOST_AT_ONCE:] == ["http://honest.example/"]
