"""Load on the API: wrk, with varied requests, at full speed or at a fixed rate."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import click
import orjson

CONNECTIONS: Final = 64
_PROGRAM: Final = "wrk"
_ANSWER_S: Final = 10
_MOST_FAILED: Final = 0.01


class LoadFailed(click.ClickException):
    """The load could not be made, or was not answered; the text says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a load."""

    path: str
    method: str = "GET"
    body: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a load got; latencies include the wait for what was sent late."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    failed: int

    @property
    def rate(self) -> float:
        """Return answers a second."""
        return self.requests / self.seconds


def require() -> None:
    """Raise LoadFailed if the load generator is not there."""
    if shutil.which(_PROGRAM) is None:
        raise LoadFailed(
            "the load comes from wrk, which is not installed: `apt-get install wrk` on Debian and "
            "Ubuntu, `brew install wrk` on macOS"
        )


def run(
    url: str,
    requests: Sequence[Request],
    key: str,
    folder: Path,
    *,
    seconds: float,
    rate: float = 0.0,
    connections: int = CONNECTIONS,
) -> Outcome:
    """Send requests in turn for a time; at `rate` a second, or as fast as they are answered.

    Raises LoadFailed, also where more than one request in a hundred is refused or not answered.
    """
    listed = folder / "requests.tsv"
    listed.write_text("".join(f"{each.method}\t{each.path}\t{each.body}\n" for each in requests))
    with as_file(files(__package__).joinpath("load.lua")) as script:
        command = [_PROGRAM, "--threads", "1", "--connections", str(connections)]
        command += ["--duration", f"{max(1, round(seconds))}s", "--timeout", f"{_ANSWER_S}s"]
        command += ["--script", str(script), url, str(listed), key]
        env = {**os.environ, "LOAD_RATE": f"{rate:.3f}"}
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    lines = ended.stdout.strip().splitlines()
    if ended.returncode or not lines or not lines[-1].startswith("{"):
        raise LoadFailed(f"wrk failed: {(ended.stderr or ended.stdout).strip()[-500:]}")
    report = orjson.loads(lines[-1])
    failed = report["refused"] + report["broken"]
    if not report["requests"] or failed > report["requests"] * _MOST_FAILED:
        raise LoadFailed(
            f"of {report['requests']} requests such as {requests[0].path} {report['refused']} were "
            f"refused, {report['broken']} not answered"
        )
    return Outcome(
        report["requests"],
        report["duration_us"] / 1e6,
        report["p50_us"] / 1e3,
        report["p99_us"] / 1e3,
        failed,
    )
