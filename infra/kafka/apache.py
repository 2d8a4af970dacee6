"""Apache Kafka on this machine without Docker: a durable single-node broker (KRaft).

Maven fetches the broker's jars (pom.xml) once. What it keeps is bounded by each topic's
retention and by `log.retention.bytes` a partition. `apache_access` says who may do what.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final

import structlog

from infra.kafka import apache_access
from infra.kafka.local import answers, local_address, loopback_address
from infra.local import private_file
from infra.local.process import Process, free_port, require_free_port
from infra.settings import Settings

log = structlog.get_logger(__name__)

JAVA: Final = 17  # the oldest that Kafka 4's broker runs on
MAVEN_TIMEOUT_S: Final = 600
_HERE: Final = Path(__file__).parent
_POM: Final = _HERE / "pom.xml"
# The first of Java's two compilers alone: a broker that runs for minutes takes half the CPU, and is
# ready sooner.
_COMPILES_ONCE: Final = "-XX:TieredStopAtLevel=1"

_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
{listeners}inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
log.dirs={folder}/log
auto.create.topics.enable=false
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.segment.bytes=67108864
log.retention.bytes=268435456
log.retention.check.interval.ms=60000
log.cleaner.dedupe.buffer.size=16777216
socket.request.max.bytes=33554432
queued.max.request.bytes=134217728
"""


class ApacheUnavailable(Exception):
    """This machine cannot run Apache Kafka; the text says what to install or set."""


def process(settings: Settings) -> Process:
    """Describe the broker at KAFKA_BOOTSTRAP, with its storage formatted.

    The first call fetches the jars, which takes up to minutes. Raises ApacheUnavailable,
    PortInUse, SettingsError.
    """
    host, port = local_address(settings)
    java = _java()
    folder = (settings.soltape_data / "apache-kafka").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    broker_jars = jars(folder)
    require_free_port(host, port, "KAFKA_BOOTSTRAP")
    controller_port = free_port()
    if settings.kafka_public_bootstrap:
        require_free_port(
            *loopback_address("KAFKA_PUBLIC_BOOTSTRAP", settings.kafka_public_bootstrap),
            "KAFKA_PUBLIC_BOOTSTRAP",
        )
        apache_access.certify(java, folder)
    properties = folder / "server.properties"
    text = _PROPERTIES.format(
        listeners=apache_access.listeners(settings, controller_port),
        controller_port=controller_port,
        folder=folder,
    )
    private_file.replace(properties, text + apache_access.access(settings, folder))
    classpath = f"{broker_jars}/*"
    if not (folder / "log" / "meta.properties").exists():
        _format(java, classpath, properties)
    return Process(
        name="kafka",
        command=[
            java,
            "-Xms128m",
            "-Xmx512m",
            "-XX:+UseSerialGC",  # the smallest collector; the heap is small too
            _COMPILES_ONCE,
            f"-Dlog4j2.configurationFile={_HERE / 'log4j2.xml'}",
            "-cp",
            classpath,
            "kafka.Kafka",
            str(properties),
        ],
        address=f"{host}:{port}",
        ready=lambda: answers(settings),
        ready_timeout_s=60.0,
    )


def ca_file(settings: Settings) -> Path:
    """Return where the certificate of the subscribers' listener is, once it was made."""
    return (settings.soltape_data / "apache-kafka" / apache_access.CA_FILE).resolve()


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not shutil.which(java):
        raise ApacheUnavailable(
            f"Apache Kafka needs Java {JAVA}: no `java` "
            + (f"in JAVA_HOME={home}" if home else "on PATH and JAVA_HOME is not set")
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if not found or int(found[1]) < JAVA:
        version = said.splitlines()[0] if said else "nothing"
        raise ApacheUnavailable(f"Apache Kafka needs Java {JAVA}: {java} says {version}")
    return java


def jars(folder: Path) -> Path:
    """Return the folder with the broker's jars, filled by Maven if this pom's are not there.

    Raises ApacheUnavailable.
    """
    found = folder / f"jars-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]}"
    if found.is_dir():
        return found
    maven = shutil.which("mvn")
    if not maven:
        raise ApacheUnavailable(
            "Apache Kafka's jars are fetched by Maven once, and there is no `mvn` on PATH"
        )
    log.info("fetching Apache Kafka's jars", by=maven, into=str(found))
    # A folder of its own until it is complete: an interrupted copy must not pass for the jars.
    partial = folder / f"jars-{uuid.uuid4().hex}.partial"
    command = [maven, "-B", "-q", "-f", str(_POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S)
        if run.returncode:
            raise ApacheUnavailable(
                f"Maven could not fetch Apache Kafka's jars:\n{_last_lines(run.stdout, run.stderr)}"
            )
        partial.rename(found)
    except subprocess.TimeoutExpired:
        raise ApacheUnavailable(
            f"Maven did not fetch Apache Kafka's jars within {MAVEN_TIMEOUT_S} s"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return found


def _format(java: str, classpath: str, properties: Path) -> None:
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = [java, _COMPILES_ONCE, "-cp", classpath, "kafka.tools.StorageTool", "format"]
    command += [f"--cluster-id={cluster}", "--config", str(properties)]  # it may begin with "-"
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if run.returncode:
        raise ApacheUnavailable(
            f"Apache Kafka's storage could not be formatted:\n{_last_lines(run.stdout, run.stderr)}"
        )


def _last_lines(*outputs: str, count: int = 8) -> str:
    lines = [line for output in outputs for line in output.splitlines() if line.strip()]
    return "\n".join(lines[-count:])
