"""What all brokers that Soltape starts itself have in common: this machine, plaintext."""

from __future__ import annotations

from typing import Final

from infra.kafka import client
from infra.local.process import NotReady
from infra.settings import Settings, SettingsError

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


def local_address(settings: Settings) -> tuple[str, int]:
    """Return host and port that a broker on this machine listens on; raises SettingsError."""
    host, _, port = settings.kafka_bootstrap.rpartition(":")
    if host not in LOOPBACK:
        raise SettingsError(
            f"KAFKA_BOOTSTRAP={settings.kafka_bootstrap!r}: a broker that Soltape starts serves "
            "this machine only; use 127.0.0.1:<port>, or do not start one"
        )
    if settings.kafka_security != "plaintext":
        raise SettingsError(
            f"KAFKA_SECURITY={settings.kafka_security!r}: a broker that Soltape starts speaks "
            "plaintext on loopback only"
        )
    return host, int(port)


async def answers(settings: Settings) -> None:
    """Raise NotReady until the broker answers with its metadata."""
    try:
        found = await client.metadata(settings, timeout_s=2.0)
    except client.KafkaUnreachable as error:
        raise NotReady(str(error)) from None
    if not found.brokers:
        raise NotReady(f"Kafka at {settings.kafka_bootstrap} knows no broker yet")
