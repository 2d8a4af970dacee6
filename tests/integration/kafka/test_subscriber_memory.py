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
from infra.kafka.rights import PUBLIC
from tests.integration.kafka.test_subscribers import issue, kafka

__all__ = ["kafka"]  # the broker of those tests, started anew
pytestmark = [pytest.mark.slow, pytest.mark.apache]

CONNECTIONS = 24  # that a subscriber opens; without a bound five are too many
ANNOUNCED_BYTES = (100 << 20, 32 << 20)  # Kafka's own most, and ours
FLUSH_S = 120


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
def test_announcements_take_no_more_memory_than_there_is(kafka, size):
    _, settings = issue(kafka, f"hoarder {size}")

    async def hoard():
        for each in await announcing(settings, size):
            await each.close()

    asyncio.run(hoard())
    # private `_log`: the broker's own log.
    assert "OutOfMemoryError" not in kafka._log.read_text()
    producer = Producer(client.confluent_producer(client.as_admin(kafka.settings)))
    producer.produce(PUBLIC[0].name, b"", b"key", partition=0)
    assert producer.flush(FLUSH_S) == 0
