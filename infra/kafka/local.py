"""What all brokers that Soltape starts itself have in common: this machine, no TLS."""

from __future__ import annotations

from typing import Final

from infra.kafka import client
from infra.local.process import NotReady
from infra.settings import Settings, SettingsError

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


def local_address(settings: Settings) -> tuple[str, int]:
    """Return host and port that a broker on this machine listens on; raises SettingsError."""
    host, port = loopback_address("KAFKA_BOOTSTRAP", settings.kafka_bootstrap)
    if "ssl" in settings.kafka_security.removeprefix("sasl_"):
        raise SettingsError(
            f"KAFKA_SECURITY={settings.kafka_security!r}: a broker that Soltape starts speaks "
            "plaintext or sasl_plaintext, on loopback only"
        )
    login(settings)
    return host, port


def loopback_address(name: str, value: str) -> tuple[str, int]:
    """Return host and port of a setting that must be of this machine; raises SettingsError."""
    host, _, port = value.rpartition(":")
    if host not in LOOPBACK:
        raise SettingsError(
            f"{name}={value!r}: a broker that Soltape starts serves this machine only; use "
            "127.0.0.1:<port>, or do not start one"
        )
    return host, int(port)


def login(settings: Settings) -> tuple[str, str] | None:
    """Return user and password that a local broker asks for, None if it asks for none.

    Raises SettingsError where one is missing, or the mechanism is not PLAIN.
    """
    if "sasl" not in settings.kafka_security:
        return None
    if settings.kafka_sasl_mechanism != "PLAIN":
        raise SettingsError(
            f"KAFKA_SASL_MECHANISM={settings.kafka_sasl_mechanism}: a broker that Soltape starts "
            "takes PLAIN"
        )
    return client.credentials(settings)


async def answers(settings: Settings) -> None:
    """Raise NotReady until the broker answers with its metadata."""
    try:
        found = await client.metadata(settings, timeout_s=2.0)
    except client.KafkaUnreachable as error:
        raise NotReady(str(error)) from None
    if not found.brokers:
        raise NotReady(f"Kafka at {settings.kafka_bootstrap} knows no broker yet")
