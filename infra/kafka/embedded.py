"""The embedded default: our own small broker (`infra.kafka.broker`) as a supervised process."""

from __future__ import annotations

import sys

from infra.kafka.local import answers, local_address
from infra.local import extra
from infra.local.process import Process, require_free_port
from infra.settings import Settings, SettingsError


def process(settings: Settings) -> Process:
    """Describe the broker at KAFKA_BOOTSTRAP; its log lies in SOLTAPE_DATA/kafka.

    Raises PortInUse, SettingsError where the settings ask for what it cannot be, and
    ModuleNotFoundError without `soltape[embedded]`.
    """
    extra.require("kio")
    if settings.kafka_public_bootstrap:
        raise SettingsError(
            f"KAFKA_PUBLIC_BOOTSTRAP={settings.kafka_public_bootstrap!r}: the embedded broker "
            "serves this machine's own processes only, without TLS; subscribers need Apache Kafka "
            "(`--broker apache`, or yours)"
        )
    host, port = local_address(settings)
    require_free_port(host, port, "KAFKA_BOOTSTRAP")
    return Process(
        name="kafka",
        command=[sys.executable, "-m", "infra.cli", "kafka", "--port", str(port)],
        address=f"{host}:{port}",
        ready=lambda: answers(settings),
        env={"SOLTAPE_DATA": str(settings.soltape_data)},
        ready_timeout_s=60.0,
    )
