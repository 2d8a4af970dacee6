"""What the topics take on the brokers' disks, as the brokers say it (DescribeLogDirs).

aiokafka has no such request and librdkafka's Python client neither. Version 1 is what every broker
speaks, Kafka 4 included; version 4 (Kafka 3.3) adds the size of the volume and what is free of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)

from infra.kafka.client import aiokafka_client
from infra.settings import Settings

_API_KEY: Final = 35


class _Answer1(Response):  # type: ignore[misc]
    API_KEY = _API_KEY
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            Array(
                ("error_code", Int16),
                ("log_dir", String("utf-8")),
                (
                    "topics",
                    Array(
                        ("name", String("utf-8")),
                        (
                            "partitions",
                            Array(
                                ("partition_index", Int32),
                                ("partition_size", Int64),
                                ("offset_lag", Int64),
                                ("is_future_key", Boolean),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    )


class _Answer4(Response):  # type: ignore[misc]
    API_KEY = _API_KEY
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "results",
            CompactArray(
                ("error_code", Int16),
                ("log_dir", CompactString("utf-8")),
                (
                    "topics",
                    CompactArray(
                        ("name", CompactString("utf-8")),
                        (
                            "partitions",
                            CompactArray(
                                ("partition_index", Int32),
                                ("partition_size", Int64),
                                ("offset_lag", Int64),
                                ("is_future_key", Boolean),
                                ("tags", TaggedFields),
                            ),
                        ),
                        ("tags", TaggedFields),
                    ),
                ),
                ("total_bytes", Int64),
                ("usable_bytes", Int64),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _Request1(RequestStruct):  # type: ignore[misc]
    API_KEY = _API_KEY
    API_VERSION = 1
    RESPONSE_TYPE = _Answer1
    SCHEMA = Schema(("topics", Array(("topic", String("utf-8")), ("partitions", Array(Int32)))))


class _Request4(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = _API_KEY
    API_VERSION = 4
    RESPONSE_TYPE = _Answer4
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                ("partitions", CompactArray(Int32)),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _DescribeLogDirs(Request[_Request1 | _Request4]):  # type: ignore[misc]
    API_KEY = _API_KEY

    def build(self, request_struct_class: Any) -> Any:
        """Return the request for all topics."""
        if request_struct_class is _Request4:
            return _Request4(None, {})
        return _Request1(None)


@dataclass(frozen=True, slots=True)
class BrokerDisk:
    """What all brokers of a cluster keep, and the volume with the smallest free share."""

    topic_bytes: dict[str, int]  # of all replicas on all brokers
    total_bytes: int | None  # of that volume; None: a broker does not say
    free_bytes: int | None

    @property
    def log_bytes(self) -> int:
        """All topics together."""
        return sum(self.topic_bytes.values())


async def broker_disk(settings: Settings) -> BrokerDisk:
    """Ask every broker for its log directories.

    Raises aiokafka's KafkaError: for a broker that does not answer, one that refuses (it needs
    DESCRIBE on the cluster), and for a log directory that is offline.
    """
    client = AIOKafkaClient(**aiokafka_client(settings))
    await client.bootstrap()
    try:
        answers = [
            await client.send(broker.nodeId, _DescribeLogDirs())
            for broker in client.cluster.brokers()
        ]
    finally:
        await client.close()
    return _summed([answer.to_object() for answer in answers])


def _summed(answers: list[dict[str, Any]]) -> BrokerDisk:
    topics: Counter[str] = Counter()
    volumes: list[tuple[int, int]] = []  # free and total bytes
    is_known = True
    for answer in answers:
        _raise_for(answer.get("error_code", 0))
        for folder in answer["results"]:
            _raise_for(folder["error_code"])
            for topic in folder["topics"]:
                for partition in topic["partitions"]:
                    topics[topic["name"]] += partition["partition_size"]
            free, total = folder.get("usable_bytes", -1), folder.get("total_bytes", -1)
            is_known &= free >= 0 and total > 0
            volumes.append((free, total))
    if not (is_known and volumes):
        return BrokerDisk(dict(topics), None, None)
    free, total = min(volumes, key=lambda volume: volume[0] / volume[1])
    return BrokerDisk(dict(topics), total, free)


def _raise_for(error_code: int) -> None:
    if error_code:
        raise for_code(error_code)("DescribeLogDirs")
