"""Credentials of subscribers at the broker: SCRAM secret, rights, quotas.

A subscriber reads nothing before its rights are given, last of the three, nor from the moment they
are taken: the broker checks them with every request, on connections that are open as well. Those
end when the broker asks for the next proof of the password (`connections.max.reauth.ms`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiokafka.errors import KafkaError
from confluent_kafka import KafkaError as Refused
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from infra.kafka import client, quotas, rights, scram_users
from infra.kafka.quotas import Quota
from infra.settings import Settings

ITERATIONS: Final = 4096  # generated passwords are random: more would only cost the broker
_SCRAM: Final = ScramMechanism.SCRAM_SHA_512


class SubscribersOff(Exception):
    """No Kafka for subscribers here; the text says which settings are missing."""


class BrokerFailed(Exception):
    """The broker refused, or did not answer; the text says why."""


def admin_settings(settings: Settings) -> Settings:
    """Return settings with the operator's login; raises SubscribersOff."""
    missing = [
        name.upper()
        for name in ("kafka_admin_username", "kafka_admin_password", "kafka_public_bootstrap")
        if not getattr(settings, name)
    ]
    if missing:
        raise SubscribersOff(
            f"Kafka for subscribers is off: set {', '.join(missing)}. It needs Apache Kafka with "
            "a SASL_SSL listener; the embedded broker serves this machine only"
        )
    return client.as_admin(settings)


class Subscribers:
    """Credentials of subscribers at the broker that settings lead to."""

    def __init__(self, settings: Settings) -> None:
        """Connects when it is first asked; raises SubscribersOff."""
        self._settings = admin_settings(settings)

    async def admit(self, user: str, password: str, group_prefix: str) -> None:
        """Let a user in; its quota is set before. Raises BrokerFailed."""
        admin = self._admin()
        credential = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(_SCRAM, ITERATIONS), password.encode()
        )
        await _done(_altered(admin, credential))
        await _done(rights.grant(admin, user, rights.of_subscriber(group_prefix)))

    async def remove(self, user: str) -> None:
        """Take rights, password and quota of a user; may be repeated. Raises BrokerFailed."""
        admin = self._admin()
        await _done(rights.take_all(admin, user))
        await _done(_altered(admin, UserScramCredentialDeletion(user, _SCRAM)))
        await self.put_quotas({user: None})

    async def put_quotas(self, wanted: Mapping[str, Quota | None]) -> None:
        """Set quotas of users; None removes a user's. Raises BrokerFailed."""
        await _done(quotas.put(self._settings, wanted))

    async def users(self) -> set[str]:
        """Return all users with a SCRAM secret; raises BrokerFailed."""
        found: set[str] = await _done(scram_users.read(self._settings))
        return found

    def _admin(self) -> AdminClient:
        return client.admin(self._settings)


async def _altered(admin: AdminClient, change: Any) -> None:
    answers = admin.alter_user_scram_credentials([change], request_timeout=client.REQUEST_TIMEOUT_S)
    for answer in answers.values():
        try:
            await asyncio.to_thread(answer.result)
        except KafkaException as error:
            if error.args[0].code() != Refused.RESOURCE_NOT_FOUND:  # it is gone already
                raise


async def _done(work: Any) -> Any:
    try:
        return await work
    except rights.NotGranted as error:
        raise BrokerFailed(str(error)) from None
    except KafkaException as error:
        raise BrokerFailed(error.args[0].name()) from None  # its text is a dump
    except KafkaError as error:
        raise BrokerFailed(type(error).__name__) from None
