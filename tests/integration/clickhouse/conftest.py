"""The embedded ClickHouse, run the way users run it."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import clickhouse_connect
import pytest

from infra.clickhouse.embedded import server
from infra.local.process import free_port
from tests.support.systems import bound
from tests.support.waiting import eventually


@dataclass
class Embedded:
    process: subprocess.Popen[str]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> dict[str, object]:
        return {"host": "127.0.0.1", "port": self.port}


@contextmanager
def running(data: Path, log: Path, **env: str) -> Iterator[Embedded]:
    port = free_port()
    with log.open("w") as output:
        process = subprocess.Popen(
            bound(server(data, port).command),
            stdout=output,
            stderr=output,
            env=os.environ | env,
            text=True,
        )
        embedded = Embedded(process, port, log)
        try:
            _wait_until_ready(embedded)
            yield embedded
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(embedded: Embedded) -> None:
    def said() -> bytes | None:
        assert embedded.process.poll() is None, embedded.log.read_text()
        try:
            with urlopen(f"{embedded.url}/ping", timeout=60) as answer:
                return bytes(answer.read())
        except OSError:
            return None

    assert eventually(said, embedded.log.read_text) == b"Ok.\n"


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    folder = tmp_path_factory.mktemp("clickhouse")
    with running(folder / "data", folder / "log") as embedded:
        yield embedded


@pytest.fixture(scope="module")
def client(embedded: Embedded) -> Iterator[clickhouse_connect.driver.client.Client]:
    with clickhouse_connect.get_client(
        **embedded.address, autogenerate_session_id=False, tz_mode="aware"
    ) as client:
        yield client


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., object]:
    """Return a starter of servers on one data directory of this test."""

    def start(**env: str) -> object:
        return running(tmp_path / "data", tmp_path / "log", **env)

    return start
