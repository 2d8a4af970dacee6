"""Real stores with their tables, and `soltape api` in front of them, as a process on free ports."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from api.access import register
from api.access.keys import Record, new, parse
from infra.process import free_port
from infra.settings import Settings
from schemas.plans import ENTERPRISE
from tests.integration.api.simulation import Shared, Simulation
from tests.integration.systems import running_stores

_STARTS_WITHIN_S = 60
Serve = Callable[..., "AbstractContextManager[Served]"]


@dataclass
class Served:
    """A running `soltape api`."""

    settings: Settings
    key: str  # of a plan without limits
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def host(self) -> str:
        return self.settings.api_host

    @property
    def port(self) -> int:
        return self.settings.api_port

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.settings.metrics_port_api}"

    def logged(self) -> str:
        """What the process has written; access lines are there a tenth of a second later."""
        return self.log.read_text()

    def new_key(self, name: str) -> str:
        """Make another key, of a plan without limits."""
        return asyncio.run(_new_key(self.settings, name))

    def until_metric(self, line: str) -> None:
        """Wait until /metrics has a line."""
        deadline = time.monotonic() + 10
        while True:
            with urlopen(f"{self.metrics_url}/metrics", timeout=5) as answer:
                if line in answer.read().decode().splitlines():
                    return
            assert time.monotonic() < deadline, line
            time.sleep(0.02)

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings that lead to an empty Valkey and an empty ClickHouse, the tables made."""
    with running_stores(tmp_path_factory.mktemp("api-stores")) as settings:
        yield settings


@pytest.fixture(scope="session")
def serve(stores: Settings, tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """Start an API of one's own: `with serve(api_timeout_s=1.0) as served`.

    It reads the session's stores unless other ones are named.
    """

    def start(**changed: object) -> AbstractContextManager[Served]:
        folder = tmp_path_factory.mktemp("api")
        return served(stores.model_copy(update=changed), folder)

    return start


@pytest.fixture(scope="session")
def api(serve: Serve) -> Iterator[Served]:
    """The session's API with a key to use: `api.url`, `api.key`."""
    with serve() as running:
        yield running


@pytest.fixture(scope="session")
def shared_simulation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    base = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    shared = Shared((base.parent if is_worker else base) / "simulation")
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def simulation(shared_simulation: Shared) -> Iterator[Simulation]:
    """A finished market in real stores; all test processes share one."""
    with shared_simulation.used() as found:
        yield found


@pytest.fixture(scope="module")
def serve_simulation(
    simulation: Simulation, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., AbstractContextManager[Served]]:
    """Start an API over the simulation's stores: `with serve_simulation() as served`."""

    def start(**changed: object) -> AbstractContextManager[Served]:
        folder = tmp_path_factory.mktemp("api")
        return served(simulation.settings.model_copy(update=changed), folder)

    return start


@pytest.fixture(scope="module")
def simulated(serve_simulation: Callable[..., AbstractContextManager[Served]]) -> Iterator[Served]:
    """An API over the simulation's stores."""
    with serve_simulation() as running:
        yield running


@contextmanager
def served(settings: Settings, folder: Path) -> Iterator[Served]:
    settings = settings.model_copy(
        update={
            "soltape_data": folder,
            "api_port": settings.api_port if settings.api_reuse_port else free_port(),
            "metrics_port_api": free_port(),
            "log_format": "json",
        }
    )
    key = asyncio.run(_new_key(settings))
    log = folder / "api.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "infra.cli", "api"],
            cwd=folder,
            env=_environment(settings),
            stdout=output,
            stderr=output,
        )
    running = Served(settings, key, log, process)
    try:
        _wait_until_it_serves(running)
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def _new_key(settings: Settings, name: str = "tests") -> str:
    text = new()
    redis = register.connect(settings)
    try:
        made_ms = await register.now_ms(redis)
        record = Record(parse(text), name, ENTERPRISE.name, "", text[-4:], created_ms=made_ms)
        await register.put(redis, record)
        return text
    finally:
        await redis.aclose()


def _environment(settings: Settings) -> dict[str, str]:
    ours = {name.upper() for name in Settings.model_fields}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    for name, value in settings.model_dump(mode="json", exclude_defaults=True).items():
        environment[name.upper()] = str(value)
    return environment


def _wait_until_it_serves(running: Served) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while not _serves(running):
        assert running.process.poll() is None, running.logged()
        assert time.monotonic() < deadline, running.logged()
        time.sleep(0.05)


def _serves(running: Served) -> bool:
    # Where several share an address, only the process's own port tells of it.
    is_shared = running.settings.api_reuse_port
    url = f"{running.metrics_url}/ready" if is_shared else f"{running.url}/api/health/live"
    try:
        with urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except (URLError, OSError):
        return False
