"""What a user of Kafka may take of a broker: client quotas (AlterClientQuotas).

aiokafka has no such request and librdkafka neither; version 0 is what every broker speaks, Kafka 4
included. A broker that a user takes more from delays its answers: nothing is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Float64, Int16, Int32, Schema, String

from infra.kafka.client import aiokafka_client
from infra.settings import Settings

_API_KEY: Final = 49
_ENTITY: Final = ("entity", Array(("type", String("utf-8")), ("name", String("utf-8"))))


class _Answer(Response):  # type: ignore[misc]
    API_KEY = _API_KEY
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "entries",
            Array(("error_code", Int16), ("error_message", String("utf-8")), _ENTITY),
        ),
    )


class _Request0(RequestStruct):  # type: ignore[misc]
    API_KEY = _API_KEY
    API_VERSION = 0
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        (
            "entries",
            Array(
                _ENTITY,
                (
                    "ops",
                    Array(("key", String("utf-8")), ("value", Float64), ("remove", Boolean)),
                ),
            ),
        ),
        ("validate_only", Boolean),
    )


@dataclass(frozen=True, slots=True)
class Quota:
    """What a user may take of each broker."""

    bytes_a_second: int  # that it reads
    request_pct: int  # of the time of one of the broker's request threads


class _AlterClientQuotas(Request[_Request0]):  # type: ignore[misc]
    API_KEY = _API_KEY

    def __init__(self, quotas: Mapping[str, Quota | None]) -> None:
        self._quotas = quotas

    def build(self, request_struct_class: Any) -> Any:
        """Return the request."""
        entries = [([("user", user)], _ops(quota)) for user, quota in self._quotas.items()]
        return request_struct_class(entries, False)


async def put(settings: Settings, quotas: Mapping[str, Quota | None]) -> None:
    """Set the quotas of users; None removes a user's. Raises aiokafka's KafkaError."""
    if not quotas:
        return
    client = AIOKafkaClient(**aiokafka_client(settings))
    await client.bootstrap()
    try:
        answer = await client.send(client.get_random_node(), _AlterClientQuotas(quotas))
    finally:
        await client.close()
    for error_code, message, _ in answer.entries:
        if error_code:
            raise for_code(error_code)(message or "AlterClientQuotas")


def _ops(quota: Quota | None) -> list[tuple[str, float, bool]]:
    values = (
        ("consumer_byte_rate", quota and quota.bytes_a_second),
        ("request_percentage", quota and quota.request_pct),
    )
    return [(key, float(value or 0), value is None) for key, value in values]
