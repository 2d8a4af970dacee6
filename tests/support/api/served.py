"""`soltape api` as a process on free ports, on stores that run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from pydantic import SecretStr

from api.access import register
from api.access.keys import Record, new, parse
from infra.local.process import free_port
from infra.settings import Settings
from schemas.plans import ENTERPRISE
from tests.support.forked import Forked, finished
from tests.support.waiting import eventually


@dataclass
class Served:
    """A running `soltape api`."""

    settings: Settings
    key: str  # of a plan without limits
    log: Path
    process: Forked

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
        eventually(lambda: line in self._metrics(), lambda: line)

    def _metrics(self) -> list[str]:
        with urlopen(f"{self.metrics_url}/metrics", timeout=240) as answer:
            lines: list[str] = answer.read().decode().splitlines()
            return lines

    def link(self) -> str:
        """Print a one-time link to the page, as a user of the folder does."""
        done = self.run("keys", "link")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def run(self, *command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of `soltape` with the settings of the process."""
        folder = self.settings.soltape_data
        return finished(command, _environment(self.settings), folder, stdin=stdin)

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


@contextmanager
def served(settings: Settings, folder: Path, *options: str) -> Iterator[Served]:
    """Run `soltape api` with options on the stores of settings."""
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
    log.unlink(missing_ok=True)  # of one that ran in the folder before
    process = Forked(("api", *options), _environment(settings), log)
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
    for name, value in settings.model_dump(exclude_defaults=True).items():
        shown = value.get_secret_value() if isinstance(value, SecretStr) else value
        environment[name.upper()] = str(shown)
    return environment


def _wait_until_it_serves(running: Served) -> None:
    process = running.process
    eventually(lambda: _serves(running) or process.poll() is not None, running.logged)
    assert process.poll() is None, running.logged()


def _serves(running: Served) -> bool:
    # Where several share an address, only the process's own port identifies it.
    is_shared = running.settings.api_reuse_port
    url = f"{running.metrics_url}/ready" if is_shared else f"{running.url}/api/health/live"
    try:
        with urlopen(url, timeout=60) as answer:
            return answer.status == 200
    except OSError:
        return False
