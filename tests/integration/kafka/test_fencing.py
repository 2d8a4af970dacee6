"""Producer epochs on the wire: embedded broker and Apache Kafka refuse with the same codes."""

from __future__ import annotations

import asyncio
import io
import struct
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from infra.kafka import topics
from infra.settings import Settings
from schemas.times import HOUR_MS
from schemas.topics import Topic
from tests.support.waiting import WITHIN_S

PRODUCE, COORDINATOR, INIT, ADD, END = 0, 10, 22, 24, 26
OK = ErrorCode.none
TIMEOUT = timedelta(seconds=60)


class Wire:
    """A connection that says exactly what a test wants it to."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings = settings
        self.topic = topic
        self.name = f"lane-{uuid4().hex[:12]}"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, key: int, version: int, request: str, /, **values: Any) -> Any:
        if self._streams is None:
            host, _, port = self._settings.kafka_bootstrap.rpartition(":")
            self._streams = await asyncio.open_connection(host, int(port))
        reader, writer = self._streams
        out = io.BytesIO()
        entity = getattr(load_payload_module(key, version, EntityType.request), request)
        entity_writer(entity)(out, entity(**values))
        frame = struct.pack(">hhih", key, version, 1, -1) + out.getvalue()
        writer.write(struct.pack(">i", len(frame)) + frame)
        async with asyncio.timeout(WITHIN_S):
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            answer = await reader.readexactly(size)
        module = load_payload_module(key, version, EntityType.response)
        response = getattr(module, request.replace("Request", "Response"))
        return entity_reader(response)(answer, 4)[0]

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def begin(self, name: str | None = "", timeout: timedelta = TIMEOUT) -> Any:
        """Ask for a producer id until nothing of an older transaction is in the way."""
        name = self.name if name == "" else name
        deadline = time.monotonic() + WITHIN_S
        while True:
            # Apache Kafka keeps its transactions in a topic, which this creates.
            await self.ask(COORDINATOR, 1, "FindCoordinatorRequest", key=self.name, key_type=1)
            answer = await self.ask(
                INIT, 1, "InitProducerIdRequest", transactional_id=name, transaction_timeout=timeout
            )
            busy = {
                ErrorCode.concurrent_transactions,
                ErrorCode.coordinator_load_in_progress,
                ErrorCode.not_coordinator,
                ErrorCode.coordinator_not_available,
            }
            if answer.error_code not in busy or time.monotonic() > deadline:
                return answer
            await asyncio.sleep(0.05)

    async def add(
        self, producer: Any, partition: int, version: int = 1, name: str = "", id_offset: int = 0
    ) -> ErrorCode:
        module = load_payload_module(ADD, version, EntityType.request)
        place = module.AddPartitionsToTxnTopic(name=self.topic, partitions=(partition,))
        deadline = time.monotonic() + WITHIN_S
        while True:
            answer = await self.ask(
                ADD,
                version,
                "AddPartitionsToTxnRequest",
                v3_and_below_transactional_id=name or self.name,
                v3_and_below_producer_id=producer.producer_id + id_offset,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=(place,),
            )
            result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            code: ErrorCode = result.partition_error_code
            if code is not ErrorCode.concurrent_transactions or time.monotonic() > deadline:
                return code
            await asyncio.sleep(0.05)

    async def commit(self, producer: Any, version: int = 1) -> ErrorCode:
        answer = await self.ask(
            END,
            version,
            "EndTxnRequest",
            transactional_id=self.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=True,
        )
        code: ErrorCode = answer.error_code
        return code

    async def produce(
        self,
        producer: Any,
        sequence: int,
        partition: int = 0,
        *,
        epoch: int | None = None,
        transactional: bool = True,
    ) -> tuple[ErrorCode, int]:
        """Send one record; return the code and its offset."""
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=int(transactional),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch if epoch is None else epoch,
            base_sequence=sequence,
            batch_size=1 << 14,
        )
        builder.append(0, int(time.time() * 1000), None, b"value", [])
        module = load_payload_module(PRODUCE, 3, EntityType.request)
        data = module.PartitionProduceData(index=partition, records=bytes(builder.build()))
        deadline = time.monotonic() + WITHIN_S
        while True:
            answer = await self.ask(
                PRODUCE,
                3,
                "ProduceRequest",
                transactional_id=self.name if transactional else None,
                acks=-1,
                timeout=TIMEOUT,
                topic_data=(module.TopicProduceData(name=self.topic, partition_data=(data,)),),
            )
            found = answer.responses[0].partition_responses[0]
            # Apache Kafka's answer while it makes a new topic's partitions.
            made = found.error_code is not ErrorCode.not_leader_or_follower
            if made or time.monotonic() > deadline:
                return found.error_code, found.base_offset
            await asyncio.sleep(0.05)


async def wire_to(settings: Settings) -> Wire:
    topic = Topic(f"test-{uuid4().hex[:12]}", "Swap", "mint", 2, HOUR_MS, "of one test")
    await topics.create(settings, [topic])
    return Wire(settings, topic.name)


@pytest.fixture
async def wire(broker: Any) -> AsyncIterator[Wire]:
    wire = await wire_to(broker.settings)
    yield wire
    wire.close()


async def test_a_new_producer_fences_the_older_one_everywhere(wire: Wire) -> None:
    old = await wire.begin()
    assert old.error_code is OK
    assert await wire.add(old, 0) is OK
    assert await wire.produce(old, 0) == (OK, 0)
    new = await wire.begin()
    assert new.error_code is OK
    assert new.producer_id == old.producer_id
    assert new.producer_epoch > old.producer_epoch

    assert (await wire.produce(old, 1))[0] is ErrorCode.invalid_producer_epoch
    assert await wire.add(old, 1) is ErrorCode.invalid_producer_epoch
    assert await wire.add(old, 1, version=2) is ErrorCode.producer_fenced
    assert await wire.commit(old) is ErrorCode.invalid_producer_epoch
    assert await wire.commit(old, version=2) is ErrorCode.producer_fenced
    # A partition to which neither had written before.
    refused, _ = await wire.produce(old, 0, partition=1)
    assert refused is not OK

    assert await wire.add(new, 0) is OK
    assert (await wire.produce(new, 0))[0] is OK
    assert (await wire.produce(old, 1))[0] is ErrorCode.invalid_producer_epoch
    assert await wire.commit(new) is OK


async def test_a_producer_goes_on_after_a_commit(wire: Wire) -> None:
    producer = await wire.begin()
    for sequence in range(3):
        assert await wire.add(producer, 0) is OK
        assert (await wire.produce(producer, sequence))[0] is OK
        assert await wire.commit(producer) is OK


async def test_what_is_no_transaction_is_refused(wire: Wire) -> None:
    producer = await wire.begin()
    assert await wire.commit(producer) is ErrorCode.invalid_txn_state
    assert (await wire.produce(producer, 0))[0] is ErrorCode.invalid_txn_state
    assert await wire.add(producer, 0) is OK
    assert await wire.produce(producer, 0) == (OK, 0)
    outside, _ = await wire.produce(producer, 1, transactional=False)
    assert outside is ErrorCode.invalid_txn_state


async def test_ids_that_do_not_belong_together_are_refused(wire: Wire) -> None:
    producer = await wire.begin()
    unknown = ErrorCode.invalid_producer_id_mapping
    assert await wire.add(producer, 0, name="another") is unknown
    assert await wire.add(producer, 0, id_offset=1) is unknown
    assert await wire.add(producer, 7) is ErrorCode.unknown_topic_or_partition


async def test_a_timeout_beyond_the_brokers_is_refused(wire: Wire) -> None:
    answer = await wire.begin(timeout=timedelta(minutes=16))
    assert answer.error_code is ErrorCode.invalid_transaction_timeout
    assert (await wire.begin(timeout=timedelta(minutes=15))).error_code is OK


async def test_sequences_within_a_transaction(wire: Wire) -> None:
    producer = await wire.begin()
    assert await wire.add(producer, 0) is OK
    assert await wire.produce(producer, 0) == (OK, 0)
    assert await wire.produce(producer, 1) == (OK, 1)
    assert await wire.produce(producer, 1) == (OK, 1), "sent twice, written once"
    assert (await wire.produce(producer, 5))[0] is ErrorCode.out_of_order_sequence_number
    assert await wire.produce(producer, 2) == (OK, 2)


async def test_epochs_of_a_producer_without_a_name(wire: Wire) -> None:
    producer = await wire.begin(name=None)
    send = wire.produce
    assert await send(producer, 0, epoch=1, transactional=False) == (OK, 0)
    old, _ = await send(producer, 0, epoch=0, transactional=False)
    assert old is ErrorCode.invalid_producer_epoch
    late, _ = await send(producer, 1, epoch=2, transactional=False)
    assert late is ErrorCode.out_of_order_sequence_number
    assert await send(producer, 0, epoch=2, transactional=False) == (OK, 1)


async def test_a_killed_broker_knows_epochs_sequences_and_the_transaction(
    fresh_embedded: Any,
) -> None:
    wire = await wire_to(fresh_embedded.settings)
    old = await wire.begin()
    new = await wire.begin()
    assert await wire.add(new, 0) is OK
    assert await wire.produce(new, 0) == (OK, 0)
    wire.close()
    await asyncio.to_thread(fresh_embedded.kill)
    await asyncio.to_thread(fresh_embedded.start)
    assert (await wire.produce(old, 0))[0] is ErrorCode.invalid_producer_epoch
    assert await wire.produce(new, 0) == (OK, 0), "sent twice, written once"
    assert await wire.produce(new, 1) == (OK, 1)
    assert await wire.commit(old) is ErrorCode.invalid_producer_epoch
    assert await wire.commit(new) is OK
    assert (await wire.begin()).producer_epoch == new.producer_epoch + 1
    wire.close()


async def test_a_transaction_that_came_to_nothing_begins_no_lane(broker: Any) -> None:
    wire = await wire_to(broker.settings)
    try:
        producer = await wire.begin()
        lane = Topic(wire.topic, "Swap", "mint", 2, HOUR_MS, "of one test")
        for partition in range(2):
            assert await wire.add(producer, partition) is OK
        assert await wire.commit(producer) is OK
        # private `_has_begun`: asks about a lane of the test; the product asks about its own.
        assert not await topics._has_begun(broker.settings, lane)
        producer = await wire.begin()
        for partition in range(2):
            assert await wire.add(producer, partition) is OK
            assert (await wire.produce(producer, 0, partition))[0] is OK
        assert await topics._has_begun(broker.settings, lane)
    finally:
        wire.close()
