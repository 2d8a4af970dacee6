"""The handle on a process of clients (`stream_gateway.bench.clients`): start it, ask it, end it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from infra.bench.roles import BenchFailed
from stream_gateway.bench.mix import Connection

NARROW_BYTES: Final = 64 << 10
"""What the kernel holds for a client that is going to stop reading: its buffers are not ours."""


@dataclass(frozen=True, slots=True)
class Latency:
    """From an event's entry into the stream to its receipt by a client; all 0 without samples."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    samples: int


@dataclass(frozen=True, slots=True)
class Report:
    """What each client got since the last report, by its number."""

    events: list[int]
    bytes: list[int]
    close_codes: list[int]  # 0: it was not closed
    lagging: list[int]  # `lagging` frames received
    others: dict[str, int]  # messages that are no events, by type
    latency: Latency


class Crowd:
    """Clients that are connected and subscribed."""

    def __init__(self, child: subprocess.Popen[bytes], log: Path) -> None:
        self._child = child
        self._log = log

    @property
    def pid(self) -> int:
        """The process."""
        return self._child.pid

    def hear(self) -> dict[str, Any]:
        """Return the next answer; raises BenchFailed where none comes."""
        assert self._child.stdout
        line = self._child.stdout.readline()
        if not line:
            said = self._log.read_text(errors="replace").strip()[-600:]
            raise BenchFailed(f"the clients ended: {said}")
        answer: dict[str, Any] = orjson.loads(line)
        return answer

    def count(self, but: Collection[int] = ()) -> int:
        """Return how many events all clients but some got since the last report."""
        return int(self._ask(do="count", but=sorted(but))["events"])

    def report(self, but: Collection[int] = ()) -> Report:
        """Return what was received, the latency without that of some, and count from 0."""
        report = self._ask(do="report", but=sorted(but))
        latency = report["latency_ms"]
        return Report(
            report["events"],
            report["bytes"],
            report["close_codes"],
            report["lagging"],
            report["others"],
            Latency(latency["p50"], latency["p99"], latency["max"], latency["samples"]),
        )

    def pause(self, clients: Collection[int]) -> None:
        """Let some stop reading."""
        self._ask(do="pause", clients=sorted(clients))

    def resume(self) -> None:
        """Let all read again."""
        self._ask(do="resume")

    def _ask(self, **command: Any) -> dict[str, Any]:
        assert self._child.stdin
        try:
            self._child.stdin.write(orjson.dumps(command) + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            pass  # what it said is in its log
        return self.hear()


@contextmanager
def crowd(
    url: str, connections: Sequence[Connection], folder: Path, *, narrow: Collection[int] = ()
) -> Iterator[Crowd]:
    """Connect and subscribe clients, `narrow` of them with little room in the kernel."""
    spec = folder / "clients.json"
    wishes = [[each.message for each in one.subscriptions] for one in connections]
    spec.write_bytes(
        orjson.dumps(
            {
                "url": url,
                "clients": wishes,
                "narrow": sorted(narrow),
                "narrow_bytes": NARROW_BYTES,
            }
        )
    )
    log = folder / "clients.log"
    command = [sys.executable, "-m", "stream_gateway.bench.clients", str(spec)]
    with log.open("wb") as errors:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
    try:
        connected = Crowd(child, log)
        connected.hear()
        yield connected
    finally:
        assert child.stdin
        assert child.stdout
        child.stdin.close()
        try:
            child.wait(10.0)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
