"""What Soltape asks of a broker, asked of each kind with both client libraries."""

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from itertools import pairwise
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from infra.kafka import client, topics
from infra.local.process import PortInUse
from infra.settings import Settings
from schemas.times import HOUR_MS
from schemas.topics import Topic
from tests.support.systems import bound
from tests.support.waiting import WITHIN_S


def own_topic(partitions: int = 4) -> Topic:
    return Topic(f"test-{uuid4().hex[:12]}", "Swap", "mint", partitions, HOUR_MS, "of one test")


@asynccontextmanager
async def consumer(settings: Settings, *names: str, **config: object):
    consumer = AIOKafkaConsumer(*names, **client.aiokafka_consumer(settings) | config)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def read(consumer: AIOKafkaConsumer, count: int, within_s: float = 60.0) -> list:
    records: list = []
    async with asyncio.timeout(within_s):
        while len(records) < count:
            for fetched in (await consumer.getmany(timeout_ms=500)).values():
                records += fetched
    return records


def confluent_consumer(settings: Settings, group: str) -> dict:
    return client.confluent_client(settings) | {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": int(settings.kafka_session_timeout_s * 1000),
    }


def produce(settings: Settings, topic: Topic, keys: list[str]) -> None:
    """Send each key as its own value with confluent-kafka, and wait until all are acknowledged."""
    failed: list = []
    producer = Producer(client.confluent_producer(settings))
    for key in keys:
        producer.produce(
            topic.name,
            key.encode(),
            key.encode(),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not failed


async def test_aiokafka_produces_and_consumes_lz4(broker):
    topic = own_topic()
    await topics.create(broker.settings, [topic])
    producer = AIOKafkaProducer(
        **client.aiokafka_client(broker.settings),
        acks="all",
        compression_type="lz4",
        enable_idempotence=True,
    )
    await producer.start()
    sent = [f"mint{number}".encode() * 20 for number in range(1000)]
    for key in sent:
        await producer.send(topic.name, key, key, partition=topic.partition(key.decode()))
    await producer.stop()
    async with consumer(broker.settings, topic.name) as reader:
        records = await read(reader, len(sent))
    assert sorted(record.value for record in records) == sorted(sent)
    assert all(record.partition == topic.partition(record.key.decode()) for record in records)


async def test_confluent_is_idempotent_and_partitions_as_the_schema_says(broker):
    topic = own_topic()
    await topics.create(broker.settings, [topic])
    keys = [f"key-{number}" for number in range(2000)]
    await asyncio.to_thread(produce, broker.settings, topic, keys)
    reader = Consumer(confluent_consumer(broker.settings, f"group-{uuid4()}"))
    reader.subscribe([topic.name])
    found: dict[str, int] = {}
    deadline = time.monotonic() + WITHIN_S
    while len(found) < len(keys) and time.monotonic() < deadline:
        for message in await asyncio.to_thread(reader.consume, 500, 1.0):
            assert message.error() is None
            found[message.key().decode()] = message.partition()
    reader.close()
    assert found == {key: topic.partition(key) for key in keys}


async def test_each_partition_keeps_its_order(broker):
    topic = own_topic(2)
    await topics.create(broker.settings, [topic])
    await asyncio.to_thread(produce, broker.settings, topic, [f"{n:06}" for n in range(3000)])
    async with consumer(broker.settings, topic.name) as reader:
        records = await read(reader, 3000)
    for partition in range(2):
        values = [record.value for record in records if record.partition == partition]
        assert values == sorted(values)
        assert values


@pytest.mark.slow
async def test_the_partitions_of_a_killed_member_go_to_the_other(broker):
    topic = own_topic()
    group = f"group-{uuid4()}"
    await topics.create(broker.settings, [topic])
    async with consumer(broker.settings, topic.name, group_id=group) as survivor:
        member = (
            "import sys; from confluent_kafka import Consumer\n"
            f"reader = Consumer({confluent_consumer(broker.settings, group)!r} "
            "| {'partition.assignment.strategy': 'roundrobin'})\n"
            f"reader.subscribe([{topic.name!r}])\n"
            "while True: reader.poll(0.2)"
        )
        other = await asyncio.create_subprocess_exec(*bound([sys.executable, "-c", member]))
        try:
            async with asyncio.timeout(WITHIN_S):
                while len(survivor.assignment()) != 2:
                    await survivor.getmany(timeout_ms=200)
            other.kill()
            await other.wait()
            async with asyncio.timeout(WITHIN_S):
                while len(survivor.assignment()) != 4:
                    await survivor.getmany(timeout_ms=200)
        finally:
            if other.returncode is None:
                other.kill()
                await other.wait()
        await asyncio.to_thread(produce, broker.settings, topic, [f"k{n}" for n in range(100)])
        records = await read(survivor, 100)
        await survivor.commit()
    assert {record.partition for record in records} == {0, 1, 2, 3}


@pytest.mark.slow
async def test_a_group_goes_on_where_it_committed(broker):
    topic = own_topic(1)
    group = f"group-{uuid4()}"
    await topics.create(broker.settings, [topic])
    await asyncio.to_thread(produce, broker.settings, topic, [f"{n:03}" for n in range(100)])
    place = TopicPartition(topic.name, 0)
    async with consumer(broker.settings, topic.name, group_id=group) as first:
        await read(first, 100)
        await first.commit({place: 40})
    async with consumer(broker.settings, topic.name, group_id=group) as second:
        records = await read(second, 60)
    assert [record.offset for record in records] == list(range(40, 100))


async def test_ends_and_last_records(broker):
    topic = own_topic(4)
    await topics.create(broker.settings, [topic])
    assert await topics.end_offsets(broker.settings, topic) == {0: 0, 1: 0, 2: 0, 3: 0}
    assert await topics.last_records(broker.settings, topic) == {}
    keys = [f"key-{number}" for number in range(500)]
    await asyncio.to_thread(produce, broker.settings, topic, keys)
    by_partition: dict[int, list[str]] = {}
    for key in keys:
        by_partition.setdefault(topic.partition(key), []).append(key)
    ends = await topics.end_offsets(broker.settings, topic)
    assert ends == {partition: len(of_it) for partition, of_it in by_partition.items()}
    last = await topics.last_records(broker.settings, topic)
    assert {p: record.value.decode() for p, record in last.items()} == {
        partition: of_it[-1] for partition, of_it in by_partition.items()
    }


async def test_markers_of_transactions_are_no_records(broker):
    topic = own_topic(2)
    await topics.create(broker.settings, [topic])
    producer = Producer(
        client.confluent_producer(broker.settings) | {"transactional.id": f"t-{uuid4()}"}
    )
    offsets: list[int] = []

    def transact(count: int) -> None:
        producer.begin_transaction()
        for number in range(count):
            producer.produce(
                topic.name,
                f"{len(offsets) + number}",
                partition=0,
                on_delivery=lambda error, sent: offsets.append(sent.offset()),
            )
        producer.commit_transaction(WITHIN_S)

    await asyncio.to_thread(producer.init_transactions, WITHIN_S)
    for count in (2, 1, 3):
        await asyncio.to_thread(transact, count)
    last = await topics.last_records(broker.settings, topic)
    assert {number: record.value for number, record in last.items()} == {0: b"5"}
    place = TopicPartition(topic.name, 0)
    # A marker may have the offset that follows; nothing was deleted all the same.
    assert await topics.first_from(broker.settings, place, offsets[1] + 1) == offsets[2]
    assert await topics.begins_at(broker.settings, place) == 0
    nothing = [
        await topics.has_none_between(broker.settings, place, before + 1, after)
        for before, after in pairwise(offsets)
    ]
    assert nothing == [True] * 5
    assert not await topics.has_none_between(broker.settings, place, offsets[1], offsets[2])
    assert not await topics.has_none_between(broker.settings, place, offsets[1] + 1, offsets[3])


async def test_a_log_has_all_from_an_offset_between_its_first_and_its_end(broker):
    topic = own_topic(1)
    await topics.create(broker.settings, [topic])
    await asyncio.to_thread(produce, broker.settings, topic, ["kept"] * 10)
    admin = client.admin(broker.settings)
    for deletion in admin.delete_records([Place(topic.name, 0, 4)]).values():
        await asyncio.to_thread(deletion.result)
    place = TopicPartition(topic.name, 0)
    found = [await topics.has_all_from(broker.settings, place, offset) for offset in (3, 4, 10, 11)]
    assert found == [False, True, True, False]


async def test_offsets_by_time(broker):
    topic = own_topic(1)
    await topics.create(broker.settings, [topic])
    await asyncio.to_thread(produce, broker.settings, topic, ["early"] * 10)
    await asyncio.sleep(0.05)
    between_ms = int(time.time() * 1000)
    await asyncio.sleep(0.05)
    await asyncio.to_thread(produce, broker.settings, topic, ["late"] * 10)
    place = TopicPartition(topic.name, 0)
    async with consumer(broker.settings) as reader:
        reader.assign([place])
        found = await reader.offsets_for_times({place: between_ms})
    assert found[place].offset == 10


async def test_creating_topics_again_changes_nothing(broker):
    topic = own_topic(3)
    assert await topics.create(broker.settings, [topic]) == [topic.name]
    assert await topics.create(broker.settings, [topic]) == []


async def test_another_partition_count_is_an_error_that_names_it(broker):
    topic = own_topic(3)
    await topics.create(broker.settings, [topic])
    other = Topic(topic.name, "Swap", "mint", 5, HOUR_MS, "")
    with pytest.raises(topics.TopicsWrong, match=f"{topic.name} has 3 partitions where 5"):
        await topics.create(broker.settings, [other])


async def test_check_names_what_is_missing_and_then_is_content(broker):
    topic = own_topic()
    with pytest.raises(topics.TopicsWrong, match=f"missing: {topic.name}"):
        await topics.check(broker.settings, [topic])
    await topics.create(broker.settings, [topic])
    assert broker.settings.kafka_bootstrap in await topics.check(broker.settings, [topic])


async def test_all_our_topics_can_be_created(broker):
    await topics.create(broker.settings)
    assert await topics.create(broker.settings) == []
    await topics.check(broker.settings)


async def test_a_second_broker_on_the_port_is_refused(broker):
    with pytest.raises(PortInUse, match="KAFKA_BOOTSTRAP"):
        broker.describe()


def test_nothing_of_it_listens_beyond_loopback(broker):
    import psutil

    listening = [
        c.laddr.ip for c in psutil.Process(broker.pid).net_connections() if c.status == "LISTEN"
    ]
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
