"""An Apache Kafka with a door for subscribers, and credentials to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from infra.kafka import apache, apache_access
from infra.local.process import Process, free_port
from infra.settings import Settings
from tests.integration.conftest import Broker, share_jars
from tests.support.systems import running_valkey

ADMIN = "operator"
PASSWORD = "correct-horse"


class DoorBroker(Broker):
    """Apache Kafka as production runs it: authorizer, roles by PLAIN, subscribers by SCRAM."""

    def __init__(self, data: Path, redis_port: int) -> None:
        super().__init__("apache", data)
        self.settings = self.settings.model_copy(
            update={
                "kafka_security": "sasl_plaintext",
                "kafka_sasl_mechanism": "PLAIN",
                "kafka_username": "soltape",
                "kafka_password": SecretStr("battery-staple"),
                "kafka_admin_username": ADMIN,
                "kafka_admin_password": SecretStr(PASSWORD),
                "kafka_public_bootstrap": f"localhost:{free_port()}",
                "kafka_public_ca_file": data / "apache-kafka" / apache_access.CA_FILE,
                "redis_url": f"redis://127.0.0.1:{redis_port}/0",
            }
        )

    def describe(self) -> Process:
        return replace(super().describe(), env=self.environment())

    def environment(self) -> dict[str, str]:
        """Return the settings as variables, for commands."""
        found: dict[str, str] = {}
        for name in self.settings.model_fields_set:
            value: Any = getattr(self.settings, name)
            if isinstance(value, SecretStr):
                value = value.get_secret_value()
            if value is not None:
                found[name.upper()] = str(value)
        return found


@contextmanager
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoorBroker]:
    """Run it with a Redis for its users; skips where this machine cannot."""
    data = tmp_path_factory.mktemp("door")
    with running_valkey(data) as redis_port:
        broker = DoorBroker(data, redis_port)
        try:
            try:
                share_jars(broker.settings, tmp_path_factory)
                broker.start()
            except apache.ApacheUnavailable as reason:
                if os.environ.get("CI") == "true":
                    raise
                pytest.skip(str(reason))
            yield broker
        finally:
            broker.stop()


def subscriber(settings: Settings, user: str, password: str) -> Settings:
    """Return settings of a client that comes in through the subscribers' door."""
    assert settings.kafka_public_bootstrap
    return settings.model_copy(
        update={
            "kafka_bootstrap": settings.kafka_public_bootstrap,
            "kafka_security": "sasl_ssl",
            "kafka_sasl_mechanism": "SCRAM-SHA-512",
            "kafka_username": user,
            "kafka_password": SecretStr(password),
            "kafka_ca_file": settings.kafka_public_ca_file,
        }
    )
