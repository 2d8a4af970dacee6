"""What each user of Kafka may do: access control lists as data, given and taken at the broker.

Only what is listed is allowed (`allow.everyone.if.no.acl.found=false`); the operator's user
(KAFKA_ADMIN_USERNAME) is the one super user besides the broker itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from infra.kafka import client
from infra.kafka.topics import create
from infra.settings import Settings
from schemas import topics

EVERYWHERE: Final = "*"
"""Any address: a right is the user's, wherever it connects from."""

PUBLIC: Final = (topics.SWAPS, topics.CREATIONS, topics.PRICES, topics.SLOT_STATUS)
"""The topics that subscribers read."""


@dataclass(frozen=True, slots=True)
class Right:
    """One operation on one resource, or on all whose names begin with `name`."""

    resource: ResourceType
    name: str
    operation: AclOperation
    is_prefix: bool = False


def _topic(name: str, *operations: AclOperation, is_prefix: bool = False) -> tuple[Right, ...]:
    return tuple(Right(ResourceType.TOPIC, name, each, is_prefix) for each in operations)


_READ: Final = AclOperation.READ  # includes DESCRIBE
_WRITE: Final = AclOperation.WRITE  # likewise
_CLUSTER: Final = "kafka-cluster"

INGEST: Final = (
    *_topic("tape-", _READ, _WRITE, AclOperation.CREATE, is_prefix=True),
    *(
        right
        for topic in PUBLIC
        for right in _topic(topic.name, AclOperation.DESCRIBE, AclOperation.CREATE)
    ),
    Right(ResourceType.TRANSACTIONAL_ID, "soltape-ingest-", _WRITE, is_prefix=True),
)
"""`soltape ingest` and `soltape ingest accounts`: they own the lanes, and create the topics."""

AGENTS: Final = (
    *_topic("tape-", _READ, is_prefix=True),
    *(
        right
        for topic in (*PUBLIC, topics.GAPS, topics.UNDECODED)
        for right in _topic(topic.name, _WRITE)
    ),
    Right(ResourceType.GROUP, "soltape-", _READ, is_prefix=True),
    # What the topics take on disk. BROKER has the number that the protocol calls CLUSTER.
    Right(ResourceType.BROKER, _CLUSTER, AclOperation.DESCRIBE),
)
"""`soltape agents`, whichever groups."""

_READ_PUBLIC: Final = tuple(right for topic in PUBLIC for right in _topic(topic.name, _READ))

ROLES: Final = {
    "soltape-ingest": INGEST,
    "soltape-agents": AGENTS,
    "soltape": (*INGEST, *AGENTS, *_READ_PUBLIC),
}
"""Users of the pipeline; the last is that of a stack whose roles and commands share one login."""


def of_subscriber(group_prefix: str) -> tuple[Right, ...]:
    """Return what a subscriber may do: read the public topics, in groups of its own."""
    return (
        *_READ_PUBLIC,
        Right(ResourceType.GROUP, group_prefix, _READ, is_prefix=True),
    )


async def prepare(settings: Settings) -> list[str]:
    """Create the topics and give the pipeline's users their rights; may be repeated.

    The settings lead to the broker as one who may. Returns the topics that are new. Raises
    KafkaUnreachable, TopicsWrong, NotGranted.
    """
    created = await create(settings)
    admin = client.admin(settings)
    for user, rights in ROLES.items():
        await grant(admin, user, rights)
    return created


class NotGranted(Exception):
    """The broker refused to change rights; the text says why."""


async def grant(admin: AdminClient, user: str, rights: Iterable[Right]) -> None:
    """Give a user rights; those it has stay. Raises NotGranted."""
    bindings = [_binding(user, right) for right in dict.fromkeys(rights)]
    await settled(admin.create_acls(bindings, request_timeout=client.REQUEST_TIMEOUT_S))


async def take_all(admin: AdminClient, user: str) -> int:
    """Take all rights of a user and return how many it had: its next request is refused.

    Raises NotGranted.
    """
    nothing: Any = None  # matches all
    every = AclBindingFilter(
        ResourceType.ANY,
        nothing,
        ResourcePatternType.ANY,
        f"User:{user}",
        nothing,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    taken = await settled(admin.delete_acls([every], request_timeout=client.REQUEST_TIMEOUT_S))
    return sum(len(each) for each in taken)


async def settled(answers: dict[Any, Any]) -> list[Any]:
    """Return what the broker answered to each; raises NotGranted."""
    try:
        return [await asyncio.to_thread(answer.result) for answer in answers.values()]
    except KafkaException as error:
        raise NotGranted(error.args[0].name()) from None  # its text is a dump


def _binding(user: str, right: Right) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if right.is_prefix else ResourcePatternType.LITERAL
    return AclBinding(
        right.resource,
        right.name,
        pattern,
        f"User:{user}",
        EVERYWHERE,
        right.operation,
        AclPermissionType.ALLOW,
    )
