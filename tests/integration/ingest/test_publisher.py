"""The log is its own checkpoint: whatever a killed process left behind is continued exactly."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Producer

from infra.kafka import topics
from infra.kafka.client import aiokafka_consumer, confluent_producer
from infra.settings import Settings
from pipeline.ingest import lane_producer
from pipeline.ingest.finality import Counts
from pipeline.ingest.lane_producer import LaneLost, LaneProducer
from pipeline.ingest.ledger import Settled, Transaction
from pipeline.ingest.log_tail import LANES, UNFINAL_SLOTS, LogUnreadable, read_log_tail
from pipeline.ingest.publisher import Publisher
from pipeline.ingest.valuation import Reference, Valuation
from schemas.events import PerpGap, TokenBalance
from schemas.proto import tape_pb2
from tests.support.waiting import eventually_async

ALL = [(topic.name, number) for topic in LANES for number in range(topic.partitions)]


def quotes(slot: int) -> list[tape_pb2.QuotePrice]:
    """A book of quotes that gives its slot: one token priced, one not yet."""
    price = tape_pb2.QuotePrice(mint="priced", lamports=slot, amount_raw=3)
    return [tape_pb2.QuotePrice(mint="new"), price]


def leave_behind(
    settings: Settings, slots_of: Callable[[int], range], sol_usd: str = "{}.5"
) -> None:
    """Write what a killed process may have: each partition up to another slot."""
    producer = Producer(confluent_producer(settings))
    for at, (topic, partition) in enumerate(ALL):
        for slot in slots_of(at):
            batch = tape_pb2.SlotBatch(
                slot=slot,
                block_time_ms=slot * 400,
                sol_usd=sol_usd.format(slot),
                quotes=quotes(slot),
            )
            producer.produce(topic, value=batch.SerializeToString(), partition=partition)
    assert producer.flush(60) == 0


async def settle(
    settings: Settings, first: int, last: int, transactions: tuple[Transaction, ...] = ()
) -> int | None:
    publisher = Publisher(settings)
    await publisher.take_over()
    publisher.continue_from(await read_log_tail(settings))
    running = asyncio.create_task(publisher.run())
    try:
        async with asyncio.timeout(120):
            for slot in range(first, last + 1):
                await publisher.settle(
                    Settled(slot, slot - 1, "", slot * 400, transactions, Counts(), True),
                    Reference(),
                )
            await eventually_async(lambda: publisher.published == last)
    finally:
        running.cancel()
        await publisher.close(20)
    return publisher.published


async def slots_of_all(settings: Settings) -> list[list[int]]:
    """The slots of every partition, in their order in the log."""
    found: dict[tuple[str, int], list[int]] = {place: [] for place in ALL}
    consumer = AIOKafkaConsumer(**aiokafka_consumer(settings))
    await consumer.start()
    try:
        places = [TopicPartition(*place) for place in ALL]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        while batches := await consumer.getmany(timeout_ms=1000):
            for place, records in batches.items():
                for record in records:
                    slot = tape_pb2.SlotBatch.FromString(record.value).slot
                    found[place.topic, place.partition].append(slot)
    finally:
        await consumer.stop()
    return list(found.values())


async def test_an_empty_log_starts_a_new_tape(kafka: str) -> None:
    settings = Settings(kafka_bootstrap=kafka)
    await topics.create(settings)
    tail = await read_log_tail(settings)
    assert tail.settled is None
    assert tail.some_empty


async def test_a_ragged_end_is_filled_up_without_doubles(kafka: str) -> None:
    settings = Settings(kafka_bootstrap=kafka)
    await topics.create(settings)
    leave_behind(settings, lambda at: range(100, 110 + at % 4))
    tail = await read_log_tail(settings)
    assert tail.settled == 109
    assert tail.block_time_ms == 109 * 400
    assert str(tail.sol_usd) == "109.5"
    assert tail.quotes == (("new", 0, 0), ("priced", 109, 3))
    reference = Valuation(tail.sol_usd, tail.quotes).reference
    assert reference == Reference("109.5", tail.quotes)
    assert await settle(settings, 110, 115) == 115
    assert await slots_of_all(settings) == [list(range(100, 116))] * len(ALL)


async def test_slots_that_may_be_rolled_back_have_all_their_wallets(kafka: str) -> None:
    """A process's Kafka transaction ends on a marker, which takes an offset of each partition."""
    settings = Settings(kafka_bootstrap=kafka)
    await topics.create(settings)
    owners = [f"owner{number}" for number in range(40)]
    balances = [TokenBalance(bytes(32), owner, "mint", 6, 1, False, False, 0) for owner in owners]
    perps = [PerpGap("signature", 1, 0, 2, 0, "drift", "log truncated", of) for of in ("", "perp")]
    transaction = Transaction(0, b"signature", (), balances=balances, perps=perps)
    last = 100 + UNFINAL_SLOTS + 20
    assert await settle(settings, 100, last, (transaction,)) == last
    unfinal = (await read_log_tail(settings)).unfinal
    assert [each.slot for each in unfinal] == list(range(last - UNFINAL_SLOTS + 1, last + 1))
    assert {each.wallets for each in unfinal} == {frozenset({*owners, "perp"})}


async def test_a_slot_that_some_partitions_lack_is_not_among_those_that_may_be_rolled_back(
    kafka: str,
) -> None:
    settings = Settings(kafka_bootstrap=kafka)
    await topics.create(settings)
    leave_behind(settings, lambda at: range(100 + at % 4, 120))
    unfinal = (await read_log_tail(settings)).unfinal
    assert [each.slot for each in unfinal] == list(range(103, 120))


async def test_killed_within_the_first_slot(kafka: str) -> None:
    settings = Settings(kafka_bootstrap=kafka)
    await topics.create(settings)
    leave_behind(settings, lambda at: range(100, 101 if at % 3 else 100))
    tail = await read_log_tail(settings)
    assert tail.settled == 99
    assert (tail.sol_usd, tail.quotes) == (None, ()), "the first slot starts from nothing"
    assert await settle(settings, 100, 102) == 102
    assert await slots_of_all(settings) == [[100, 101, 102]] * len(ALL)


async def test_a_lane_that_ends_on_something_else_is_refused(kafka: str) -> None:
    settings = Settings(kafka_bootstrap=kafka)
    await topics.create(settings)
    producer = Producer(confluent_producer(settings))
    producer.produce(ALL[0][0], value=b"\xff\xff", partition=ALL[0][1])
    producer.flush(60)
    with pytest.raises(LogUnreadable, match=r"tape-settled-by-mint\[0\] offset 0"):
        await read_log_tail(settings)


@pytest.mark.parametrize("sol_usd", ["a hundred", "NaN"])
async def test_a_price_that_is_none_is_refused(kafka: str, sol_usd: str) -> None:
    settings = Settings(kafka_bootstrap=kafka)
    await topics.create(settings)
    leave_behind(settings, lambda _: range(100, 101), sol_usd=sol_usd)
    with pytest.raises(LogUnreadable, match=f"slot 100: sol_usd '{sol_usd}' is no price"):
        await read_log_tail(settings)


async def test_renewing_the_transaction_neither_loses_nor_doubles(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_producer, "RENEW_S", 0.05)
    settings = Settings(kafka_bootstrap=kafka)
    await topics.create(settings)
    leave_behind(settings, lambda _: range(100, 101))
    begun: Counter[LaneProducer] = Counter()
    # private `_begin`: counts transactions that began; the log shows only those with records.
    begin = LaneProducer._begin

    def counted(self: LaneProducer) -> None:
        begun[self] += 1
        begin(self)

    monkeypatch.setattr(LaneProducer, "_begin", counted)
    last = 100
    while begun.total() - len(begun) < 5:  # the first of each is no renewal
        last += 20
        assert await settle(settings, last - 19, last) == last
    assert await slots_of_all(settings) == [list(range(100, last + 1))] * len(ALL)
    assert (await read_log_tail(settings)).settled == last


async def test_a_publisher_whose_lane_was_taken_over_writes_nothing_more(kafka: str) -> None:
    settings = Settings(kafka_bootstrap=kafka)
    await topics.create(settings)
    leave_behind(settings, lambda _: range(100, 101))
    old = Publisher(settings)
    await old.take_over()
    old.continue_from(await read_log_tail(settings))
    running = asyncio.create_task(old.run())
    for slot in (101, 102):
        await old.settle(Settled(slot, slot - 1, "", 0, (), Counts(), True), Reference())
    await eventually_async(lambda: old.published == 102)
    assert await settle(settings, 103, 105) == 105
    for slot in (103, 104, 105):
        await old.settle(Settled(slot, slot - 1, "", 0, (), Counts(), True), Reference())
    with pytest.raises(LaneLost, match="fenced"):
        await running
    await old.close(5)
    assert await slots_of_all(settings) == [list(range(100, 106))] * len(ALL)
