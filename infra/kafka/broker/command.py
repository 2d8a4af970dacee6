"""`soltape kafka`: the embedded broker alone."""

from __future__ import annotations

import click
import uvloop

from infra.kafka.client import EMBEDDED_CLUSTER_ID
from infra.kafka.local import login
from infra.local.folder_lock import FolderInUse, hold
from infra.local.process import require_free_port
from infra.settings import SettingsError, load_own
from infra.telemetry import configure_logging


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=9092, show_default=True)
@click.option(
    "--retention-mib",
    type=click.IntRange(1, 1 << 20),
    default=64,
    show_default=True,
    help="Bytes a partition keeps at most; older records go first. Topics also have a time.",
)
def kafka(port: int, retention_mib: int) -> None:
    """Run the embedded Kafka broker on loopback.

    It serves this machine alone: no TLS, no users for subscribers (Apache Kafka has them).
    One node that speaks Kafka's protocol to any client: topics, consumer groups, idempotent
    producers, fencing by transactional id, retention by time and size. Records, committed
    offsets and producer epochs lie in SOLTAPE_DATA/kafka and survive a restart. No replication,
    no atomic transactions: for production point KAFKA_BOOTSTRAP at a cluster. With
    KAFKA_SECURITY=sasl_plaintext, KAFKA_SASL_MECHANISM=PLAIN, KAFKA_USERNAME and KAFKA_PASSWORD
    it asks for a login, as the one of `soltape up` does; without, everybody on this machine may
    read and write.
    """
    from infra.kafka.broker.server import serve  # `soltape --help` needs no extra

    settings = load_own()
    configure_logging(settings, "kafka")
    require_free_port("127.0.0.1", port, "--port")
    folder = settings.soltape_data / "kafka"
    try:
        user = login(settings)
        with hold(folder / "lock"):
            uvloop.run(
                serve("127.0.0.1", port, folder, retention_mib << 20, EMBEDDED_CLUSTER_ID, user)
            )
    except (FolderInUse, SettingsError, OSError) as error:
        raise click.ClickException(str(error)) from None
