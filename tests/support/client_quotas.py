"""What quotas a broker has of a user of Kafka, by DescribeClientQuotas."""

from __future__ import annotations

from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Float64, Int8, Int16, Int32, Schema, String

from infra.kafka import client
from infra.settings import Settings


class _Answer(Response):
    API_KEY = 48
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", String("utf-8")),
        (
            "entries",
            Array(
                ("entity", Array(("type", String("utf-8")), ("name", String("utf-8")))),
                ("values", Array(("key", String("utf-8")), ("value", Float64))),
            ),
        ),
    )


class _Request0(RequestStruct):
    API_KEY = 48
    API_VERSION = 0
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        (
            "components",
            Array(("type", String("utf-8")), ("match_type", Int8), ("match", String("utf-8"))),
        ),
        ("strict", Boolean),
    )


class DescribeClientQuotas(Request[_Request0]):
    API_KEY = 48

    def __init__(self, user: str) -> None:
        self.user = user

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class([("user", 0, self.user)], True)


async def quotas_of(admin: Settings, user: str) -> dict[str, float]:
    """Return the quotas of a user by name; the settings have a login that may ask."""
    asking = AIOKafkaClient(**client.aiokafka_client(admin))
    await asking.bootstrap()
    try:
        answer = await asking.send(asking.get_random_node(), DescribeClientQuotas(user))
    finally:
        await asking.close()
    assert answer.error_code == 0
    return {key: value for _, values in answer.entries for key, value in values}
