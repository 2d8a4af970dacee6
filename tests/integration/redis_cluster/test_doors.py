"""Keys and the gateway on a cluster."""

import asyncio
import json

import orjson
import pytest

from api.access import durability, passes, register
from api.access.charge import Charges
from api.access.grants import Refusal
from api.access.keys import Record, new, parse
from api.stores.clients import Stores
from api.system.capacity import of_info, used_share
from api.watch.book import Book, Known
from api.watch.crossings import At, advance
from api.watch.lease import Lease
from infra.redis.asks import connect_pipelined
from pipeline.agents.live.streams import LiveStreams, Place
from schemas.channels import PRICES, SWAPS, LiveEvent, price_data
from schemas.plans import FREE
from schemas.prices import LastPrice
from schemas.redis_keys import API_SESSION, LIVE_POSITIONS, PRICE
from tests.api.watch.test_crossings import loan
from tests.support.gateway.running import opened, running_gateway, swap

pytestmark = pytest.mark.processes

KEYS = 48  # of three nodes each has some, but once in 90 million runs
MINT = "So11111111111111111111111111111111111111112"


@pytest.fixture
async def access(settings):
    connection = register.connect(settings, answer_timeout_s=60)
    yield connection
    await connection.aclose()


async def test_keys_are_made_found_charged_and_revoked_on_every_node(cluster, access):
    texts = [new() for _ in range(KEYS)]
    records = [
        Record(parse(text), f"key {number}", FREE.name, "", text[-4:], number)
        for number, text in enumerate(texts)
    ]
    assert [await register.put(access, each) for each in records] == [True] * KEYS
    assert [await register.put(access, each) for each in records] == [False] * KEYS
    assert [each.name for each in await register.read_all(access)] == [e.name for e in records]
    assert all(node.dbsize() for node in cluster.nodes)
    charges = Charges(access)
    grants = [await charges.request(each.fingerprint, 1) for each in records]
    assert [grant.credits_spent for grant in grants] == [1] * KEYS
    await charges.give_back(grants[3])
    spent = [sum(each.credits.values()) for each in await register.read_all(access)]
    assert spent == [*[1] * 3, 0, *[1] * (KEYS - 4)]
    await register.revoke(access, records[5].fingerprint, 99)
    assert isinstance(await charges.request(records[5].fingerprint, 1), Refusal)
    assert (await register.find(access, texts[6])).name == "key 6"
    assert await register.connections(access, records) == [0] * KEYS
    secret = await passes.issue(access, API_SESSION, records[0].fingerprint)
    assert await passes.holder(access, API_SESSION, secret) == records[0].fingerprint
    assert await durability.doubts(access) == []  # of no node


async def test_a_client_gets_snapshot_what_is_live_and_what_it_missed(
    cluster, settings, redis, tmp_path
):
    streams = LiveStreams(redis, stream_bytes=1 << 20, hold_bytes=1 << 20)
    for name in ("live:swaps", "live:epoch"):  # of a version before the keys had a tag
        await redis.set(name, b"x")
    price = LastPrice(1.0, 150.0, 1_000, 7, "")
    parts = [part for item in price.to_hash().items() for part in item]
    key = PRICE.make(mint=MINT)

    def put(offset, number):
        streams.add(Place(0, offset, 1_000), [(SWAPS, swap(number=number))], [])

    put(0, 0)
    streams.state(key, lambda: [("HSET", key, *parts)])
    frame = PRICES.frame(price_data(MINT, price))
    streams.add(None, [(PRICES, LiveEvent((MINT,), frame))], [])
    assert await streams.flush()
    assert await redis.exists("live:swaps") == await redis.exists("live:epoch") == 0
    with running_gateway(tmp_path, cluster.url) as gateway:
        text = await asyncio.to_thread(gateway.key)
        async with opened(gateway, text) as client:
            await client.send(json.dumps({"action": "subscribe", "channel": "swaps"}))
            ask = {"action": "subscribe", "channel": "prices", "mints": [MINT], "snapshot": True}
            await client.send(json.dumps(ask))
            answers = [orjson.loads(await client.recv()) for _ in range(3)]
            [snapshot] = [each for each in answers if each["type"] == "snapshot"]
            assert [each["price_usd"] for each in snapshot["data"]] == [150.0]
            put(1, 1)
            assert await streams.flush()
            message = orjson.loads(await client.recv())
            assert message["data"]["number"] == 1
        put(2, 2)
        put(3, 3)
        assert await streams.flush()
        async with opened(gateway, text) as client:
            ask = {"action": "subscribe", "channel": "swaps", "since": message["id"]}
            await client.send(json.dumps(ask))
            numbers = []
            while len(numbers) < 2:
                message = orjson.loads(await client.recv())
                if message["type"] == "swap":
                    numbers.append(message["data"]["number"])
                assert message["type"] != "gap"
            assert numbers == [2, 3]


async def test_every_node_says_how_full_it_is(cluster, settings):
    for number, node in enumerate(cluster.nodes):
        node.config_set("maxmemory", (number + 1) << 30)
    stores = Stores(settings)
    try:
        infos = await stores.infos("server", "memory")
    finally:
        await stores.close()
    limits = [of_info(info)["maxmemory"] for info in infos]
    assert sorted(map(int, limits)) == [1 << 30, 2 << 30, 3 << 30]
    fullest = max(infos, key=used_share)
    assert of_info(fullest)["maxmemory"] == str(1 << 30)


async def test_a_wallet_s_state_its_alerts_and_the_lease_are_on_one_node(settings):
    redis = connect_pipelined(settings)
    lease = Lease(redis)
    wallet = "57zapx5j1To9vp6D1X49yUcnhimYzUpy1onGx6rgFgXU"
    change = advance(wallet, {}, [loan(1.05)], At(1, 1), partial=())
    try:
        await lease.acquire()
        book = Book(redis, lease)
        assert await book.write(wallet, Known(), change)
        assert not await book.write(wallet, Known(), change)
        assert (await book.read(wallet)).positions == change.put
        assert await redis.ask([("XLEN", LIVE_POSITIONS.make())]) == [1]
        await lease.release(in_order=True)
        assert not await book.write(wallet, await book.read(wallet), change)
    finally:
        await redis.aclose()
