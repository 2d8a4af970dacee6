"""How to connect to Kafka: settings as configuration of aiokafka and of confluent-kafka.

Functions that read certificates or credentials raise SettingsError where these are not there.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata

from infra.hosts import LOOPBACK
from infra.settings import Settings, SettingsError

EMBEDDED_CLUSTER_ID: Final = "soltape-embedded"
REQUEST_TIMEOUT_S: Final = 10.0

# librdkafka logs every failed connection, several a second; we say once what went wrong.
_SILENT: Final = logging.getLogger(f"{__name__}.librdkafka")
_SILENT.disabled = True


class KafkaUnreachable(Exception):
    """No broker answers; the text names the address, the cause and what to look at."""


def aiokafka_client(settings: Settings) -> dict[str, Any]:
    """Return what every aiokafka client needs to connect."""
    config: dict[str, Any] = {
        "bootstrap_servers": settings.kafka_bootstrap.split(","),
        "security_protocol": settings.kafka_security.upper(),
        "request_timeout_ms": int(REQUEST_TIMEOUT_S * 1000),
    }
    if "ssl" in settings.kafka_security:
        config["ssl_context"] = _tls(settings)
    if "sasl" in settings.kafka_security:
        username, password = credentials(settings)
        config["sasl_mechanism"] = settings.kafka_sasl_mechanism
        config["sasl_plain_username"] = username
        config["sasl_plain_password"] = password
        expect_plain_login(settings)
    return config


def expect_plain_login(settings: Settings) -> None:
    """Keep aiokafka from warning of a password in the clear that does not leave this machine."""
    hosts = {broker.rpartition(":")[0] for broker in settings.kafka_bootstrap.split(",")}
    if hosts <= LOOPBACK:
        logging.getLogger("aiokafka.conn").addFilter(_is_no_alarm)


def _is_no_alarm(record: logging.LogRecord) -> bool:
    return "in the clear" not in str(record.msg)


def aiokafka_consumer(settings: Settings) -> dict[str, Any]:
    """Return the configuration of an AIOKafkaConsumer; offsets are committed by the caller."""
    return aiokafka_client(settings) | {
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_uncommitted",  # the lanes' transactions only fence
        "session_timeout_ms": int(settings.kafka_session_timeout_s * 1000),
        "heartbeat_interval_ms": int(settings.kafka_session_timeout_s * 1000 / 3),
        "fetch_max_wait_ms": settings.kafka_fetch_wait_ms,
    }


def confluent_client(settings: Settings) -> dict[str, Any]:
    """Return what every confluent-kafka client needs to connect."""
    config: dict[str, Any] = {
        "bootstrap.servers": settings.kafka_bootstrap,
        "security.protocol": settings.kafka_security,
        "socket.timeout.ms": int(REQUEST_TIMEOUT_S * 1000),
    }
    if "ssl" in settings.kafka_security and settings.kafka_ca_file:
        _tls(settings)  # its error is clearer than librdkafka's
        config["ssl.ca.location"] = str(settings.kafka_ca_file)
    if "sasl" in settings.kafka_security:
        username, password = credentials(settings)
        config["sasl.mechanism"] = settings.kafka_sasl_mechanism
        config["sasl.username"] = username
        config["sasl.password"] = password
    return config


def confluent_producer(settings: Settings) -> dict[str, Any]:
    """Return the configuration of a confluent_kafka Producer: idempotent on every broker."""
    return confluent_client(settings) | {
        "logger": _SILENT,
        "acks": "all",
        "compression.type": "lz4",
        "enable.idempotence": True,
        "partitioner": "consistent",  # crc32, as schemas.topics.Topic.partition
    }


def admin(settings: Settings, **config: Any) -> AdminClient:
    """Return an administration client; its calls block, so run them in a thread."""
    return AdminClient(confluent_client(settings) | {"logger": _SILENT} | config)


def as_admin(settings: Settings) -> Settings:
    """Return settings with the operator's login, where there is one."""
    return settings.model_copy(
        update={
            "kafka_username": settings.kafka_admin_username or settings.kafka_username,
            "kafka_password": settings.kafka_admin_password or settings.kafka_password,
        }
    )


async def metadata(settings: Settings, timeout_s: float = 5.0) -> ClusterMetadata:
    """Return the brokers and topics of the cluster; creates nothing. Raises KafkaUnreachable."""
    return await asyncio.to_thread(_metadata, settings, timeout_s)


def _metadata(settings: Settings, timeout_s: float) -> ClusterMetadata:
    causes: list[str] = []
    client = admin(settings, error_cb=lambda error: causes.append(error.str()))
    try:
        return client.list_topics(timeout=timeout_s)
    except KafkaException as error:
        client.poll(0)  # hands over the causes
        # The first says what went wrong, later ones that all brokers are down.
        cause = causes[0] if causes else error.args[0].str()
        raise KafkaUnreachable(
            f"Kafka at {settings.kafka_bootstrap} does not answer within {timeout_s:g} s: {cause}. "
            "Is `soltape up` running? If Kafka is elsewhere, set KAFKA_BOOTSTRAP"
        ) from None


def _tls(settings: Settings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.kafka_ca_file)
    except OSError as error:  # SSLError is one
        reason = error.strerror or "no certificates in it"
        raise SettingsError(f"KAFKA_CA_FILE={settings.kafka_ca_file}: {reason}") from None


def credentials(settings: Settings) -> tuple[str, str]:
    """Return user and password with SASL; raises SettingsError where one is missing."""
    if not settings.kafka_username or not settings.kafka_password:
        raise SettingsError(
            f"KAFKA_SECURITY={settings.kafka_security} needs KAFKA_USERNAME and KAFKA_PASSWORD"
        )
    return settings.kafka_username, settings.kafka_password.get_secret_value()
