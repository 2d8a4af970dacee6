"""Snapshots and the vocabulary from a real Valkey, as the agents write it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from infra.redis.asks import Pipelined, connect_pipelined
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.agents.live.receipt import Receipt
from pipeline.agents.live.streams import LiveStreams
from pipeline.agents.live.vocabulary import SLUGS
from schemas import channels, redis_keys
from schemas.channels import LiveEvent, price_data, trending_data
from schemas.prices import LastPrice
from schemas.redis_keys import PRICE, VOCABULARY, mint_tag
from schemas.solana import base58
from stream_gateway import snapshots
from stream_gateway.snapshots import NOTHING_YET, Snapshot, Snapshots, overlay
from stream_gateway.vocabulary import Vocabulary
from tests.support.redis_cluster import running_cluster
from tests.support.systems import running_valkey


@pytest.fixture(scope="module", params=["server", "cluster"])
def settings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("snapshots")
    if request.param == "cluster":
        with running_cluster(folder) as cluster:
            yield Settings(_env_file=None, redis_url=cluster.url)
    else:
        with running_valkey(folder) as port:
            yield Settings(_env_file=None, redis_url=f"redis://127.0.0.1:{port}/0")


@pytest.fixture
async def redis(settings: Settings) -> AsyncIterator[Redis]:
    client = connect(settings)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def pipelined(settings: Settings, redis: Redis) -> AsyncIterator[Pipelined]:
    client = connect_pipelined(settings)
    yield client
    await client.aclose()


def data_of(snapshot: Snapshot) -> dict[str, Any]:
    """What the frame holds; it must be one whole text frame."""
    frame = snapshot.frame
    assert frame[0] == 0x81
    size, start = frame[1], 2
    if size > 125:
        start = 4 if size == 126 else 10
        size = int.from_bytes(frame[2:start])
    assert len(frame) == start + size
    message: dict[str, Any] = orjson.loads(frame[start:])
    assert list(message) == ["type", "channel", "data", "as_of_id"]
    assert message["type"] == "snapshot"
    assert message["as_of_id"] == snapshot.as_of_id
    return message


def address(random_: random.Random) -> str:
    return base58.encode(random_.randbytes(32))


class Market:
    """Prices as agent `live` writes them: the hash and the frame in one flush."""

    def __init__(self, redis: Redis, mints: list[str]) -> None:
        self.mints = mints
        self.streams = LiveStreams(redis, stream_bytes=64 << 20, hold_bytes=1 << 20)
        self.random = random.Random(7)
        self.slot = 100

    def trade(self) -> None:
        self.slot += 1
        mint = self.random.choice(self.mints)
        price = LastPrice(self.slot / 8, self.slot * 2.0, self.slot * 400, self.slot, "pool")
        key = PRICE.make(tag=mint_tag(mint), mint=mint)
        parts = [part for item in price.to_hash().items() for part in item]
        self.streams.state(key, lambda: [("HSET", key, "state", b"x", *parts)])
        frame = channels.PRICES.frame(price_data(mint, price))
        receipt = Receipt(lambda: None)
        self.streams.add(None, [(channels.PRICES, LiveEvent((mint,), frame))], [receipt])


async def frames_after(redis: Redis, identity: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of the prices' stream that come after one, with their ids."""
    entry_id, place = channels.parse_event_id(identity)
    found = []
    for key, fields in await redis.xrange(channels.PRICES.stream, min=entry_id):
        for at, event in enumerate(channels.unpack(fields).events):
            if key.decode() != entry_id or at > place:
                found.append(
                    (channels.event_id(key.decode(), at), orjson.loads(event.frame)["data"])
                )
    return found


async def test_a_client_that_applies_what_follows_a_snapshot_misses_and_repeats_nothing(
    redis: Redis, pipelined: Pipelined
) -> None:
    random_ = random.Random(3)
    mints = [address(random_) for _ in range(6)]
    market, reader = Market(redis, mints), Snapshots(pipelined)
    trading = True

    async def trade() -> None:
        while trading:
            for _ in range(random_.randrange(1, 6)):
                market.trade()
            assert await market.streams.flush()

    writer = asyncio.create_task(trade())
    taken = []
    while len(taken) < 40 or market.slot < 500:
        snapshot = await reader.prices(mints)
        taken.append((data_of(snapshot), snapshot.as_of_id))
        await asyncio.sleep(0)
    trading = False
    await writer
    history = await frames_after(redis, NOTHING_YET)
    places = {identity: place for place, (identity, _) in enumerate(history)}
    in_the_middle = 0
    for message, as_of_id in taken:
        until = places[as_of_id] + 1 if as_of_id in places else 0
        assert until or as_of_id == NOTHING_YET
        in_the_middle += 0 < until < len(history)
        latest = {data["mint"]: data for _, data in history[:until]}
        assert message["data"] == [latest[mint] for mint in sorted(latest)]
        held = {data["mint"]: data for data in message["data"]}
        for _, data in await frames_after(redis, as_of_id):
            before = held.get(data["mint"])
            if before is not None:
                assert (data["slot"], data["timestamp"]) > (before["slot"], before["timestamp"])
            held[data["mint"]] = data
        assert held == {data["mint"]: data for _, data in history}
    assert in_the_middle > 10


async def test_a_mint_without_a_price_is_left_out(redis: Redis, pipelined: Pipelined) -> None:
    random_ = random.Random(4)
    known, unknown = address(random_), address(random_)
    key = PRICE.make(tag=mint_tag(known), mint=known)
    await redis.hset(key, mapping={"state": "only traded"})
    reader = Snapshots(pipelined)
    message = data_of(await reader.prices([known, unknown]))
    assert message == {"type": "snapshot", "channel": "prices", "data": [], "as_of_id": NOTHING_YET}
    # A version before this one wrote prices without dollars.
    await redis.hset(key, mapping=LastPrice(0.5, None, 7000, 9, "pool").to_hash())
    assert data_of(await reader.prices([known, unknown]))["data"] == []
    await redis.hset(key, mapping=LastPrice(0.5, 75.0, 7000, 9, "pool").to_hash())
    expected = {
        "mint": known,
        "price_sol": 0.5,
        "price_usd": 75.0,
        "timestamp": 7000,
        "slot": 9,
        "pool": "pool",
    }
    assert data_of(await reader.prices([known, unknown]))["data"] == [expected]


def record(random_: random.Random, platform: str, **given: Any) -> dict[str, Any]:
    known: dict[str, Any] = dict.fromkeys(channels.TRENDING_FIELDS, 1)
    return known | {"mint": address(random_), "dex": platform, "name": "A", "symbol": "B"} | given


async def listed(redis: Redis, records: list[tuple[int, dict[str, Any]]]) -> None:
    for score, each in records:
        tag = mint_tag(each["mint"])
        await redis.zadd(redis_keys.TRENDING.make(tag=tag), {each["mint"]: score})
        key = redis_keys.TRENDING_RECORDS.make(tag=tag)
        await redis.hset(key, each["mint"], orjson.dumps(each))


async def test_the_trending_list_is_that_of_all_partitions_the_best_first(
    redis: Redis, pipelined: Pipelined, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(5)
    platforms = ("pump-fun", "letsbonk", "moonit")
    records = [(score, record(random_, platforms[score % 3])) for score in range(1, 41)]
    await listed(redis, records)
    left = record(random_, "pump-fun")  # scored, but its record is not there
    await redis.zadd(redis_keys.TRENDING.make(tag=mint_tag(left["mint"])), {left["mint"]: 99})
    frames = [channels.trending_event(each) for _, each in records[:2]]
    await redis.xadd(channels.TRENDING.stream, channels.pack("e", frames), id="5-1")
    reader = Snapshots(pipelined)
    best_first = [trending_data(each) for _, each in reversed(records)]
    message = data_of(await reader.trending(frozenset()))
    assert message["data"] == best_first
    assert all(tuple(each) == channels.TRENDING_FIELDS for each in message["data"])
    assert (message["channel"], message["as_of_id"]) == ("trending-pairs", "5-1-1")
    some = frozenset(("letsbonk", "moonit"))
    expected = [each for each in best_first if each["dex"] in some]
    assert data_of(await reader.trending(some))["data"] == expected
    assert data_of(await reader.trending(frozenset(("boop",))))["data"] == []
    monkeypatch.setattr(snapshots, "MAX_TOKENS", 3)
    monkeypatch.setattr(snapshots, "FRESH_FOR_S", 0.0)
    assert data_of(await reader.trending(some))["data"] == expected[:3]


async def test_all_who_ask_at_once_share_a_reading(
    redis: Redis, pipelined: Pipelined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "FRESH_FOR_S", 3600.0)
    random_ = random.Random(6)
    await listed(redis, [(5, record(random_, "pump-fun"))])
    reader = Snapshots(pipelined)
    asked = [reader.trending(frozenset()) for _ in range(20)]
    frames = {snapshot.frame for snapshot in await asyncio.gather(*asked)}
    await listed(redis, [(6, record(random_, "pump-fun"))])
    frames.add((await reader.trending(frozenset())).frame)
    assert len(frames) == 1


async def test_tokens_whose_creation_was_not_seen_have_what_rpc_said(
    redis: Redis, pipelined: Pipelined
) -> None:
    random_ = random.Random(8)
    unknown = {"name": "", "symbol": "", "creator": "", "supply": None, "market_cap": None}
    unknown |= {"top10_holders_pct": None, "decimals": 6, "price_usd": 0.25}
    asked, silent = (record(random_, "pump-fun", **unknown) for _ in range(2))
    await listed(redis, [(2, asked), (1, silent)])
    tag = mint_tag(asked["mint"])
    rpc = {"name": "Coin", "symbol": "", "uri": "", "decimals": 6, "supply_raw": 4_000_000}
    rpc |= {"token_program": "", "status": "found", "asked_ms": 1}
    await redis.set(redis_keys.METADATA.make(tag=tag, mint=asked["mint"]), orjson.dumps(rpc))
    holders = {f"owner {at}".encode(): 100_000 for at in range(12)}
    await redis.zadd(redis_keys.HOLDERS.make(tag=tag, mint=asked["mint"]), holders)
    first, second = data_of(await Snapshots(pipelined).trending(frozenset()))["data"]
    assert (first["name"], first["symbol"], first["creator"]) == ("Coin", None, None)
    assert (first["supply"], first["market_cap"], first["top10_holders_pct"]) == (4.0, 1.0, 25.0)
    assert (second["name"], second["supply"], second["market_cap"]) == (None, None, None)


def test_an_overlay_keeps_the_symbol_of_a_creation_without_a_name() -> None:
    record = {"name": "", "symbol": "E", "decimals": 6, "supply": 4.0}
    overlay(record, {"name": "R", "symbol": "S", "decimals": 2, "supply_raw": 100}, 50)
    assert record == {"name": "R", "symbol": "E", "decimals": 6, "supply": 4.0}


async def test_redis_away_is_an_error_for_the_caller(pipelined: Pipelined) -> None:
    await pipelined.aclose()
    reader = Snapshots(pipelined)
    with pytest.raises(RedisError):
        await reader.prices(["m"])
    with pytest.raises(RedisError):
        await reader.trending(frozenset())


async def test_the_vocabulary_is_read_and_kept(redis: Redis, pipelined: Pipelined) -> None:
    vocabulary = Vocabulary(pipelined)
    await vocabulary.look()
    assert vocabulary.slugs is None
    await redis.set(VOCABULARY.make(), SLUGS.pack())
    await vocabulary.look()
    assert vocabulary.slugs == SLUGS
    await redis.set(VOCABULARY.make(), b"of another form")
    await vocabulary.look()
    await redis.delete(VOCABULARY.make())
    await vocabulary.look()
    await pipelined.aclose()
    await vocabulary.look()
    assert vocabulary.slugs == SLUGS
