"""The users with a SCRAM secret, as the broker has them (DescribeUserScramCredentials).

librdkafka 2.16 has this request, but ends the process with it where the broker refuses.
"""

from __future__ import annotations

from typing import Any, Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from infra.kafka.client import aiokafka_client
from infra.settings import Settings

_API_KEY: Final = 50
_NOT_FOUND: Final = 91


class _Answer(Response):  # type: ignore[misc]
    API_KEY = _API_KEY
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", CompactString("utf-8")),
        (
            "results",
            CompactArray(
                ("user", CompactString("utf-8")),
                ("error_code", Int16),
                ("error_message", CompactString("utf-8")),
                (
                    "credential_infos",
                    CompactArray(
                        ("mechanism", Int8), ("iterations", Int32), ("tags", TaggedFields)
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _Request0(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = _API_KEY
    API_VERSION = 0
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("users", CompactArray(("name", CompactString("utf-8")), ("tags", TaggedFields))),
        ("tags", TaggedFields),
    )


class _DescribeUserScramCredentials(Request[_Request0]):  # type: ignore[misc]
    API_KEY = _API_KEY

    def build(self, request_struct_class: Any) -> Any:
        """Return the request for all users."""
        return request_struct_class([], {})


async def read(settings: Settings) -> set[str]:
    """Return the names of all users; raises aiokafka's KafkaError."""
    client = AIOKafkaClient(**aiokafka_client(settings))
    await client.bootstrap()
    try:
        answer = await client.send(client.get_random_node(), _DescribeUserScramCredentials())
    finally:
        await client.close()
    if answer.error_code and answer.error_code != _NOT_FOUND:
        raise for_code(answer.error_code)(answer.error_message or "DescribeUserScramCredentials")
    return {user for user, error_code, *_ in answer.results if not error_code}
