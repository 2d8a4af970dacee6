"""Real brokers for the tests that talk to one: `broker` runs each test on every kind we support."""

import asyncio
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.kafka import apache, embedded
from infra.local.process import NotReady, Process, free_port
from infra.settings import Settings
from tests.support.forked import Forked
from tests.support.systems import begin
from tests.support.waiting import eventually

KINDS = {"embedded": embedded, "apache": apache}


class Broker:
    """A running broker; `settings` lead to it."""

    def __init__(self, kind: str, data: Path) -> None:
        self.kind = kind
        self.settings = Settings(
            _env_file=None,
            soltape_data=data,
            kafka_bootstrap=f"127.0.0.1:{free_port()}",
            kafka_session_timeout_s=6.0,
        )
        self._log = data / "kafka.log"
        self._child: subprocess.Popen[bytes] | Forked | None = None

    @property
    def pid(self) -> int:
        assert self._child
        return self._child.pid

    def describe(self) -> Process:
        return KINDS[self.kind].process(self.settings)

    def start(self) -> None:
        process = self.describe()
        self._child = begin(process, self._log)
        eventually(lambda: self._is_ready(process), self._said)

    def _is_ready(self, process: Process) -> bool:
        assert self._child
        assert self._child.poll() is None, f"{self.kind} ended: {self._said()}"
        try:
            asyncio.run(process.ready())
        except NotReady:
            return False
        return True

    def _said(self) -> str:
        return self._log.read_text()[-2000:]

    def kill(self) -> None:
        assert self._child
        self._child.kill()
        self._child.wait()

    def stop(self) -> None:
        if self._child:
            self._child.terminate()
            try:
                self._child.wait(60)
            except subprocess.TimeoutExpired:  # Java may take longer on a busy machine
                self.kill()


@pytest.fixture(
    scope="session",
    params=["embedded", pytest.param("apache", marks=pytest.mark.apache)],
)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker without topics, shared by the session: use topic names of your own."""
    yield from started(request.param, tmp_path_factory)


@pytest.fixture
def fresh_embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The embedded broker for one test alone, which may kill it and start it again."""
    yield from started("embedded", tmp_path_factory)


def started(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(kind, tmp_path_factory.mktemp(kind))
    try:
        try:
            if kind == "apache":
                share_jars(broker.settings, tmp_path_factory)
            broker.start()
        except apache.ApacheUnavailable as reason:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(str(reason))
        yield broker
    finally:
        broker.stop()


def share_jars(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give Apache Kafka the jars of this run: fetched once, by whichever process is first."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # which all processes of the run have
    folder /= "apache-jars"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        jars = apache.jars(folder)
    mine = settings.soltape_data / "apache-kafka"
    mine.mkdir(parents=True)
    (mine / jars.name).symlink_to(jars)
