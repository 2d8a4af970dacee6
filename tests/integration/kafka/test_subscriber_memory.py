"""What a subscriber can make the broker hold: requests that are announced and never sent."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from struct import pack

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError
from confluent_kafka import Producer

from infra.kafka import client
from infra.kafka.apache_access import IDLE_MS
from infra.kafka.rights import PUBLIC
from tests.integration.kafka.test_subscribers import issue, kafka

__all__ = ["kafka"]  # the broker of those tests, started anew
pytestmark = [pytest.mark.slow, pytest.mark.apache]

CONNECTIONS = 24  # that a subscriber opens; without a bound five are too many
ANNOUNCED_BYTES = (100 << 20, 32 << 20)  # Kafka's own most, and ours
SERVED_WITHIN_S = 4 * IDLE_MS / 1000  # on a busy machine; all announcements are of one moment


async def announcing(settings, size):
    """Open connections, and announce a request on each; return them."""
    opened = []
    for _ in range(CONNECTIONS):
        each = AIOKafkaClient(**client.aiokafka_client(settings) | {"request_timeout_ms": 5_000})
        opened.append(each)
        with suppress(KafkaError):  # the broker takes no more: what it has is at its bound
            await each.bootstrap()
            assert await each.ready(each.get_random_node())
            # private `_conns`, `_writer`: sends bytes that no client sends.
            for connection in each._conns.values():
                connection._writer.write(pack(">i", size))
                await connection._writer.drain()
            continue
        break
    return opened


@pytest.mark.parametrize("size", ANNOUNCED_BYTES)
def test_announcements_take_no_more_memory_than_there_is_and_others_are_served(kafka, size):
    """The connections that announce stay open: the broker ends them."""
    _, settings = issue(kafka, f"hoarder {size}")

    async def hoard():
        opened = await announcing(settings, size)
        is_served = await asyncio.to_thread(served, kafka)
        for each in opened:
            await each.close()
        return is_served

    assert asyncio.run(hoard())
    # private `_log`: the broker's own log.
    assert "OutOfMemoryError" not in kafka._log.read_text()


def served(kafka):
    """Return whether the broker takes a record of the pipeline's."""
    producer = Producer(client.confluent_producer(client.as_admin(kafka.settings)))
    producer.produce(PUBLIC[0].name, b"", b"key", partition=0)
    return producer.flush(SERVED_WITHIN_S) == 0
