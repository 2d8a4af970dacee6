"""The API as a process of its own over given stores, and keys made for it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from infra.process import free_port

SOLTAPE = (sys.executable, "-m", "infra.cli")
SERVES_S = 30.0


@dataclass(frozen=True, slots=True)
class Served:
    """A running API."""

    url: str
    port: int
    child: subprocess.Popen[bytes]
    log: Path
    environment: dict[str, str]

    def key(self, name: str, plan: str = "enterprise") -> str:
        """Make a key."""
        made = subprocess.run(
            [*SOLTAPE, "keys", "create", "--name", name, "--plan", plan],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()


@contextmanager
def served(settings: Mapping[str, str], folder: Path) -> Iterator[Served]:
    """Run `soltape api` while the context lasts."""
    port = free_port()
    environment = {
        **os.environ,
        **settings,
        "API_HOST": "127.0.0.1",
        "API_PORT": str(port),
        "METRICS_PORT_API": str(free_port()),
        "LOG_FORMAT": "json",
    }
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "api.log"
    with log.open("wb") as out:
        child = subprocess.Popen([*SOLTAPE, "api"], env=environment, stdout=out, stderr=out)
    try:
        yield _once_it_serves(Served(f"http://127.0.0.1:{port}", port, child, log, environment))
    finally:
        child.terminate()
        try:
            child.wait(10)
        finally:
            child.kill()


def _once_it_serves(api: Served) -> Served:
    deadline = time.monotonic() + SERVES_S
    while not _serves(api):
        said = api.log.read_text(errors="replace")[-3000:]
        assert api.child.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.1)
    return api


def _serves(api: Served) -> bool:
    try:
        return httpx.get(f"{api.url}/api/health/live", timeout=5).is_success
    except httpx.HTTPError:
        return False
