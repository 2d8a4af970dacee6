"""The embedded default: our own small broker (`infra.kafka.broker`) as a supervised process."""

from __future__ import annotations

import sys

from infra.kafka.local import answers, local_address
from infra.local import extra
from infra.local.process import Process, require_free_port
from infra.settings import Settings


def process(settings: Settings) -> Process:
    """Describe the broker at KAFKA_BOOTSTRAP; its log lies in SOLTAPE_DATA/kafka.

    Raises PortInUse, SettingsError where the settings ask for what it cannot be, and
    ModuleNotFoundError without `soltape[embedded]`.
    """
    extra.require("kio")
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
