"""The processes of a benchmark: real roles on this machine, their metrics and their CPU time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from urllib.request import urlopen

import click
from prometheus_client.parser import text_string_to_metric_families

from infra.local.process import NotReady, Process
from infra.local.running import addresses

READY_S: Final = 120.0  # on a busy machine
WITHOUT_ACCOUNTS: Final = "--no-accounts"  # of `soltape up`


class BenchFailed(click.ClickException):
    """A process of the bench did not do its part; the text ends with its last log lines."""


@dataclass(slots=True)
class Role:
    """A running process of the bench."""

    name: str
    child: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raise BenchFailed if it has ended."""
        if self.child.poll() is not None:
            said = self.log.read_text(errors="replace")[-600:]
            raise BenchFailed(f"{self.name} ended with {self.child.returncode}: {said}")

    def cpu_seconds(self) -> float:
        """Return the CPU time it has used."""
        import psutil  # `soltape --help` needs no extra

        times = psutil.Process(self.child.pid).cpu_times()
        return float(times.user + times.system)

    def stop(self, within_s: float = 15.0) -> None:
        """End it."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(within_s)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


@contextmanager
def role(name: str, folder: Path, command: Sequence[str], **env: str) -> Iterator[Role]:
    """Run a `soltape` command, its log in the folder."""
    with _started(name, folder, [sys.executable, "-m", "infra.cli", *command], env) as running:
        yield running


@contextmanager
def system(process: Process, folder: Path) -> Iterator[Role]:
    """Run an embedded system, its log in the folder."""
    with _started(process.name, folder, process.command, process.env) as running:
        yield running


@contextmanager
def _started(
    name: str, folder: Path, command: Sequence[str], env: Mapping[str, str]
) -> Iterator[Role]:
    log = folder / f"{name}.log"
    out: IO[bytes]
    with log.open("wb") as out:
        child = subprocess.Popen([*command], stdout=out, stderr=out, env={**os.environ, **env})
        running = Role(name, child, log)
        try:
            yield running
        finally:
            running.stop()


@contextmanager
def stack(folder: Path, *options: str, **env: str) -> Iterator[Role]:
    """Run `soltape up` on a simulated chain, with systems of its own in the folder."""
    log = folder / "up.log"
    command = [sys.executable, "-m", "infra.cli", "up", "--chain", "simulated"]
    command += ["--broker", "embedded", *options]
    with log.open("wb") as out:
        environment = {**environment_of(folder), **env}
        child = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        up = Role("up", child, log)
        try:
            wait_until(lambda: bool(addresses(folder)), (up,))
            yield up
        finally:
            up.stop()


def order_of(pairs: int) -> list[bool]:
    """Return in which order runs with (True) and without something alternate."""
    return [first == bool(number % 2) for number in range(pairs) for first in (False, True)]


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment of a command that belongs to the stack of a folder."""
    environment = {**os.environ, "SOLTAPE_DATA": str(folder)}
    for each in ("CLICKHOUSE_URL", "REDIS_URL", "ACCESS_REDIS_URL"):
        environment.pop(each, None)
    return environment


def wait_ready(role: Role, ready: Callable[[], Awaitable[None]]) -> None:
    """Wait until a process serves; raises BenchFailed."""

    async def ask() -> None:
        await ready()

    def serves() -> bool:
        try:
            asyncio.run(ask())
        except NotReady:
            return False
        return True

    wait_until(serves, (role,))


def wait_until(done: Callable[[], bool], roles: Sequence[Role], within_s: float = READY_S) -> None:
    """Wait for something that the roles bring about; raises BenchFailed if one of them ends."""
    deadline = time.monotonic() + within_s
    while not done():
        for each in roles:
            each.check()
        if time.monotonic() > deadline:
            said = roles[-1].log.read_text(errors="replace")[-600:]
            raise BenchFailed(f"{roles[-1].name} was not ready within {within_s:.0f} s: {said}")
        time.sleep(0.2)


def cpu_seconds(roles: Sequence[Role]) -> dict[str, float]:
    """Return the CPU time that each has used."""
    return {each.name: each.cpu_seconds() for each in roles}


def cpu_by_part(up: Role) -> dict[str, float]:
    """Return the CPU seconds that each part of a running stack has used."""
    import psutil  # `soltape --help` needs no extra

    spent: dict[str, float] = {}
    for child in psutil.Process(up.child.pid).children(recursive=True):
        try:
            words = child.cmdline()
            times = child.cpu_times()
        except psutil.Error:
            continue
        part = part_of(words)
        spent[part] = spent.get(part, 0.0) + times.user + times.system
    return spent


def cores(
    before: Mapping[str, float], after: Mapping[str, float], took_s: float
) -> dict[str, float]:
    """Return how many cores each part used between two readings of `cpu_by_part`."""
    return {part: (spent - before.get(part, 0.0)) / took_s for part, spent in after.items()}


def part_of(words: Sequence[str]) -> str:
    """Return which part of a stack a command line is: `ingest`, `agents live`, `valkey-server`."""
    names = [Path(word.split()[0]).name for word in words if word.strip()]
    for ours in ("infra.cli", "soltape"):
        if ours in names:
            rest = words[names.index(ours) + 1 :]
            return " ".join(rest if rest[:1] in (["agents"], ["ingest"]) else rest[:1])
    return names[0] if names else "?"


Metrics = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(url: str) -> Metrics:
    """Read a Prometheus endpoint; empty while it does not answer."""
    try:
        with urlopen(url, timeout=5) as answer:  # noqa: S310 - our own loopback address
            text = answer.read().decode()
    except OSError:
        return {}
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    """Return one sample, 0 where it is missing."""
    return metrics.get((name, tuple(sorted(labels.items()))), 0.0)


def quantile(before: Metrics, after: Metrics, name: str, quantile: float) -> float:
    """Return a quantile of what a histogram saw between two scrapes, linear within a bucket."""
    buckets = sorted(
        (float(dict(labels)["le"]), count - before.get((sample, labels), 0.0))
        for (sample, labels), count in after.items()
        if sample == f"{name}_bucket"
    )
    if not buckets or not buckets[-1][1]:
        return float("nan")
    rank = quantile * buckets[-1][1]
    low, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            share = (rank - below) / (count - below) if count > below else 1.0
            return low if bound == float("inf") else low + (bound - low) * share
        low, below = bound, count
    return low
