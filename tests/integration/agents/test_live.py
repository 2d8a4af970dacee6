"""`soltape agents live` between a live lane and the public topics, on real brokers."""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer

from infra.kafka import client
from infra.settings import Settings
from pipeline.ingest.finality import Counts
from schemas.events import Creation, Migration
from schemas.proto import tape_pb2
from schemas.topics import CREATIONS, LIVE, SLOT_STATUS, SWAPS, UNDECODED, Topic
from tests.support.agents.committing import committed, until_committed
from tests.support.messages import to_proto

GROUP = "soltape-live"

UNCOMPRESSED, LZ4 = 0, 3


def identity(swap: Any) -> tuple[str, int]:
    return swap.signature, swap.event_index


def swaps_got(lane: Any) -> list[tape_pb2.Swap]:
    return [tape_pb2.Swap.FromString(record.value) for record in lane.got[SWAPS.name]]


def without_values(swap: tape_pb2.Swap) -> bytes:
    """What the lane carried of a swap; checks what the agent has added."""
    tokens = Decimal(swap.amount_raw).scaleb(-swap.decimals)
    sol = Decimal(swap.sol_value_lamports).scaleb(-9)
    usd = Decimal(swap.usd_value_micros).scaleb(-6)
    assert (swap.sol_value, swap.usd_value) == (float(sol), float(usd))
    assert swap.price_sol == pytest.approx(float(sol / tokens), rel=1e-12)
    assert swap.price_usd == pytest.approx(float(usd / tokens), rel=1e-12)
    for name in ("sol_value", "usd_value", "price_sol", "price_usd"):
        swap.ClearField(name)
    return swap.SerializeToString()


def all_arrived(lane: Any) -> bool:
    return {*map(identity, lane.sent)} <= {*map(identity, swaps_got(lane))}


def creation(lane: Any) -> Creation:
    like = lane.swap()
    lane.sent.pop()
    return Creation(
        like.signature, like.slot, 3, 1, 5, like.mint, "Name", "SYM", "ipfs://x", like.wallet,
        "pump-fun", "pump-fun", like.pool, like.quote_mint, 6, 10**15, like.program_id,
    )  # fmt: skip


def migration(lane: Any) -> Migration:
    made = creation(lane)
    return Migration(
        made.signature, made.slot, 4, 2, 5, made.mint, "pump-fun", "pump-fun", made.pool,
        "pump-swap", made.creator, made.quote_mint, 7, 8,
    )  # fmt: skip


def codecs(bootstrap: str, topic: Topic, partition: int, offset: int) -> set[int]:
    """The compression of the batches of a partition, read off the wire (Fetch, version 4)."""
    host, _, port = bootstrap.rpartition(":")
    name = topic.name.encode()
    body = struct.pack(">hhih4s", 1, 4, 1, 4, b"test")
    body += struct.pack(">iiiibi", -1, 1000, 1, 1 << 24, 0, 1)
    body += struct.pack(f">h{len(name)}siiqi", len(name), name, 1, partition, offset, 1 << 24)
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        stream = connection.makefile("rb")
        answer = stream.read(struct.unpack(">i", stream.read(4))[0])
    at = 4 + 4 + 4 + 2 + len(name) + 4  # correlation, throttle, topics, name, partitions
    _, error, _, _, aborted = struct.unpack_from(">ihqqi", answer, at)
    assert error == 0
    at += 26 + 16 * max(0, aborted)
    (size,) = struct.unpack_from(">i", answer, at)
    records = answer[at + 4 : at + 4 + size]
    found, at = set(), 0
    while at + 61 <= len(records):
        (length,) = struct.unpack_from(">i", records, at + 8)
        (attributes,) = struct.unpack_from(">h", records, at + 21)
        found.add(attributes & 7)
        at += 12 + length
    return found


async def test_each_event_is_one_message_where_its_key_belongs(lane, agent):
    made, moved = creation(lane), migration(lane)
    async with lane.publisher() as publisher:
        publisher.event(made)
        publisher.event(moved)
        for _ in range(400):
            publisher.event(lane.swap())
        counts = Counts(transactions=9, events=8, decoded=7, unknown=2, malformed=1)
        for slot in range(1000, 1050):
            publisher.slot_status(slot, slot - 1, tape_pb2.SlotStatus.CONFIRMED, 0, counts)
        publisher.flush_live()
        # private `_live`: a gap of slots without a stream that breaks.
        publisher._live[0].events.add(slot_gap=tape_pb2.SlotGap(first_slot=5, last_slot=6))
    await lane.until(
        lambda: (
            all_arrived(lane) and lane.got[CREATIONS.name] and len(lane.got[SLOT_STATUS.name]) == 50
        )
    )
    await agent.until_metric("soltape_agents_lag_batches", lambda lag: lag == 0)
    await agent.until_metric("soltape_agents_caught_up", lambda caught_up: caught_up == 1)
    await lane.read_on()

    records = lane.got[SWAPS.name]
    launched = {made.mint, moved.mint}
    assert launched <= {swap.mint for swap in lane.sent}
    assert sorted(map(without_values, swaps_got(lane))) == sorted(
        to_proto(
            replace(swap, platform="pump-fun") if swap.mint in launched else swap
        ).SerializeToString()
        for swap in lane.sent
    )
    by_key = defaultdict(list)
    for record in records:
        swap = tape_pb2.Swap.FromString(record.value)
        assert record.key.decode() == swap.mint
        assert record.partition == SWAPS.partition(swap.mint)
        by_key[swap.mint].append(swap.tx_index)
    assert len(by_key) == 40
    assert all(order == sorted(order) for order in by_key.values())

    (record,) = lane.got[CREATIONS.name]
    assert tape_pb2.Creation.FromString(record.value).signature == made.signature
    assert (record.key.decode(), record.partition) == (made.mint, CREATIONS.partition(made.mint))
    record = next(record for record in lane.got[SLOT_STATUS.name] if record.key == b"1000")
    status = tape_pb2.SlotStatus.FromString(record.value)
    assert (status.slot, status.status, status.outcomes.unknown) == (1000, status.CONFIRMED, 2)
    assert record.partition == 0
    assert not lane.got[UNDECODED.name]

    for topic in (SWAPS, SLOT_STATUS):
        record = lane.got[topic.name][0]
        place = (topic, record.partition, record.offset)
        found = await asyncio.to_thread(codecs, lane.settings.kafka_bootstrap, *place)
        assert LZ4 in found, topic.name
        assert found <= {LZ4, UNCOMPRESSED}  # librdkafka leaves what LZ4 would make longer

    assert agent.metric("soltape_agents_published_total", topic=SWAPS.name) == 400
    assert agent.metric("soltape_agents_lag_ms_count", group="live") > 0
    assert agent.metric("soltape_agents_last_slot", group="live") >= 1000


async def test_poison_is_put_aside_with_its_reason_and_the_stream_goes_on(lane, agent):
    poison = [b"\xff" * 9, b"", b"\x08\x01", None, bytes(range(200))]
    async with lane.publisher() as publisher:
        producer = Producer(client.confluent_producer(lane.settings))
        for value in poison:
            publisher.event(lane.swap())
            publisher.flush_live()
            producer.produce(LIVE.name, value, partition=3)
            assert producer.flush(60) == 0
    await lane.feed(50, per_second=500)
    await lane.until(lambda: all_arrived(lane) and len(lane.got[UNDECODED.name]) >= len(poison))

    records = [tape_pb2.Undecoded.FromString(r.value) for r in lane.got[UNDECODED.name]]
    assert [record.data for record in records] == [value or b"" for value in poison]
    assert {record.reason for record in records} == {tape_pb2.Undecoded.MALFORMED}
    assert all(record.detail.startswith("tape-live[3]@") for record in records)
    assert "no value" in records[3].detail
    assert "holds no events" in records[1].detail
    await agent.until_metric("soltape_agents_poison_total", lambda n: n == len(poison))
    assert agent.log.count("poison message put aside") == len(poison)
    assert "Traceback" not in agent.log


@pytest.mark.slow
async def test_nothing_is_missing_after_kills_at_random(lane, agent):
    random = Random(11)
    feeding = asyncio.create_task(lane.feed(9_000, per_second=600))
    for _ in range(3):
        await agent.until_working()
        await asyncio.sleep(random.uniform(0.0, 1.5))
        agent.kill()
        agent.start()
    await feeding
    await lane.until(lambda: all_arrived(lane))
    got = swaps_got(lane)
    assert {identity(swap) for swap in got} == {identity(swap) for swap in lane.sent}
    # Repeats come in order as well: of each key, what is new keeps the order it was sent in.
    seen: set[tuple[str, int]] = set()
    last: dict[str, int] = defaultdict(lambda: -1)
    for swap in got:
        if identity(swap) not in seen:
            seen.add(identity(swap))
            assert swap.tx_index > last[swap.mint]
            last[swap.mint] = swap.tx_index
    assert "Traceback" not in agent.log


@pytest.mark.slow
async def test_the_survivor_takes_over_from_a_killed_worker(lane, agent, make_agent):
    await agent.until_working()
    other = make_agent(lane.settings)
    other.start()
    half = LIVE.partitions // 2
    await other.until_working(half)
    await agent.until_working(half)
    feeding = asyncio.create_task(lane.feed(100_000, per_second=200))
    try:
        await other.until_metric(
            "soltape_agents_published_total", lambda n: n > 0, topic=SWAPS.name
        )
        other.kill()
        await agent.until_working()
    finally:
        feeding.cancel()
        await asyncio.wait([feeding])
    await lane.feed(100, per_second=1000)
    await lane.until(lambda: all_arrived(lane))
    assert "Traceback" not in agent.log


async def test_sigterm_sends_and_commits_what_is_done_and_ends(lane, agent):
    await agent.until_working()
    await lane.feed(600, per_second=600)
    agent.signal(signal.SIGTERM)
    assert await agent.ended() == 0
    await lane.read_on()
    before = len(lane.got[SWAPS.name])
    assert "stopped" in agent.log.splitlines()[-1]
    assert "\x1b" not in agent.log
    assert all("role=agents" in line for line in agent.log.splitlines())

    agent.start()
    await lane.until(lambda: all_arrived(lane))
    assert before > 0
    assert len(lane.got[SWAPS.name]) == len(lane.sent), "done, but not committed"


async def test_what_the_broker_refuses_is_not_committed_past(lane, agent):
    """A message that no broker takes ends the process; the next one begins at that message."""
    await agent.until_working()
    await lane.feed(100, per_second=500)
    await lane.until(lambda: all_arrived(lane))
    await agent.until_metric("soltape_agents_lag_batches", lambda lag: lag == 0)
    place = LIVE.partition("any")
    before = (await until_committed(lane.settings, GROUP, LIVE))[place]

    refused: list[int] = []
    big = tape_pb2.LiveBatch(sent_ms=1)
    # With LZ4 it fits the lane's limit, not our producer's, which counts what it is given.
    big.events.add(creation=tape_pb2.Creation(mint="any", uri="x" * 1_200_000))
    fine = tape_pb2.LiveBatch(sent_ms=1)
    fine.events.add(swap=to_proto(lane.swap()))
    producer = Producer(client.confluent_producer(lane.settings) | {"message.max.bytes": 4 << 20})
    producer.produce(
        LIVE.name,
        big.SerializeToString(),
        partition=place,
        on_delivery=lambda _error, message: refused.append(message.offset()),
    )
    for _ in range(2):
        producer.produce(LIVE.name, fine.SerializeToString(), partition=place)
    assert producer.flush(60) == 0

    assert await agent.ended() == 70
    assert "solana-token-creations: " in agent.log
    assert "too large" in agent.log
    assert "Traceback" not in agent.log
    # Between the two there may be transactions' markers.
    assert before <= (await committed(lane.settings, GROUP, LIVE))[place] <= refused[0]


@pytest.mark.parametrize("outage_s", [1.0, 8.0])
@pytest.mark.slow
async def test_an_outage_of_the_broker_is_waited_out(fresh_embedded, make_agent, lane_on, outage_s):
    lane = await lane_on(fresh_embedded.settings)
    agent = make_agent(lane.settings)
    agent.start()
    await agent.until_working()
    await lane.feed(300, per_second=300)
    await lane.until(lambda: all_arrived(lane))
    fresh_embedded.kill()
    await asyncio.sleep(outage_s)
    await asyncio.to_thread(fresh_embedded.start)
    await lane.feed(300, per_second=300)
    await lane.until(lambda: all_arrived(lane))
    assert agent.process.poll() is None, agent.log
    assert "Traceback" not in agent.log


async def test_sigterm_is_heeded_while_the_broker_is_gone(fresh_embedded, make_agent, lane_on):
    lane = await lane_on(fresh_embedded.settings)
    agent = make_agent(lane.settings)
    agent.start()
    await agent.until_working()
    await lane.feed(50, per_second=300)
    fresh_embedded.kill()
    await asyncio.sleep(2)
    agent.signal(signal.SIGTERM)
    assert await agent.ended() == 0
    assert "Traceback" not in agent.log


async def test_without_a_broker_it_says_so_and_ends(tmp_path, make_agent):
    settings = Settings(_env_file=None, kafka_bootstrap="127.0.0.1:1", soltape_data=tmp_path)
    agent = make_agent(settings)
    agent.start()
    assert await agent.ended() == 1
    assert "Kafka at 127.0.0.1:1 does not answer" in agent.log
    assert "Traceback" not in agent.log
