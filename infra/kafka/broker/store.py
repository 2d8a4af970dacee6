"""Topics and committed offsets on disk: what survives a restart of the broker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

from infra.kafka.broker.log import PartitionLog
from infra.kafka.broker.transactions import Transactions
from schemas.times import DAY_MS

DEFAULT_RETENTION_MS: Final = 7 * DAY_MS
MAX_COMMIT_LINES: Final = 20_000  # a megabyte or two; then they are written anew


class TopicExists(Exception):
    """A topic of that name is there already."""


@dataclass(slots=True)
class Shape:
    """How a topic was created."""

    partitions: int
    retention_ms: int = DEFAULT_RETENTION_MS


class Store:
    """The topics of the broker, and how far each group has committed."""

    def __init__(self, folder: Path, max_partition_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._max_partition_bytes = max_partition_bytes
        self.shapes: dict[str, Shape] = {}
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self._commits: dict[str, dict[tuple[str, int], tuple[int, str]]] = {}
        self._commits_path = folder / "commits.jsonl"
        self.transactions = Transactions(folder / "transactions.json")
        topics = folder / "topics.json"
        if topics.exists():
            for name, shape in orjson.loads(topics.read_bytes()).items():
                self._open(name, Shape(**shape))
        self._recover_commits()
        self._rewrite_commits()

    def create(self, name: str, shape: Shape) -> None:
        """Create a topic; raises TopicExists."""
        if name in self.shapes:
            raise TopicExists(name)
        self._open(name, shape)
        self._save_topics()

    def delete(self, name: str) -> None:
        """Delete a topic and its records; raises KeyError."""
        shape = self.shapes.pop(name)
        for partition in range(shape.partitions):
            self.logs.pop((name, partition)).delete()
        (self.folder / name).rmdir()
        self._save_topics()

    def retain(self, now_ms: int) -> None:
        """Drop what is beyond the retention of each topic."""
        for (topic, _), log in self.logs.items():
            oldest_ms = now_ms - self.shapes[topic].retention_ms
            log.retain(oldest_ms, self._max_partition_bytes)

    def commit(self, group: str, topic: str, partition: int, offset: int, note: str) -> None:
        """Remember how far a group has come; raises OSError where the disk does not take it."""
        line = orjson.dumps([group, topic, partition, offset, note]) + b"\n"
        written = self._commits_file.write(line)
        if written != len(line):  # a half line would take all that follow with it
            os.truncate(self._commits_path, self._commits_path.stat().st_size - written)
            raise OSError(f"{self._commits_path.name}: the disk took part of a line")
        self._commits.setdefault(group, {})[topic, partition] = offset, note
        self._commit_lines += 1
        if self._commit_lines > MAX_COMMIT_LINES:
            before = self._commits_file
            with suppress(OSError):  # no room for both: this one grows until there is
                self._rewrite_commits()
                before.close()

    def committed(self, group: str, topic: str, partition: int) -> tuple[int, str]:
        """Return the committed offset and its note; -1 where there is none."""
        return self._commits.get(group, {}).get((topic, partition), (-1, ""))

    def committed_partitions(self, group: str) -> Iterator[tuple[str, int]]:
        """Yield the partitions a group has committed for."""
        yield from self._commits.get(group, {})

    def groups(self) -> Iterator[str]:
        """Yield the groups that have committed something."""
        yield from self._commits

    def close(self) -> None:
        """Close all files."""
        for log in self.logs.values():
            log.close()
        self._commits_file.close()

    def _open(self, name: str, shape: Shape) -> None:
        self.shapes[name] = shape
        for partition in range(shape.partitions):
            self.logs[name, partition] = PartitionLog(self.folder / name / str(partition))

    def _save_topics(self) -> None:
        shapes = {name: asdict(shape) for name, shape in self.shapes.items()}
        self._replace(self.folder / "topics.json", orjson.dumps(shapes))

    def _recover_commits(self) -> None:
        """Read the commits; the last one of a partition wins."""
        if not self._commits_path.exists():
            return
        for line in self._commits_path.read_bytes().splitlines():
            try:
                group, topic, partition, offset, note = orjson.loads(line)
            except ValueError:
                break  # the line a crash left half written
            self._commits.setdefault(group, {})[topic, partition] = offset, note

    def _rewrite_commits(self) -> None:
        """Write one line a partition, and open the file for what follows."""
        lines = [
            orjson.dumps([group, topic, partition, offset, note])
            for group, offsets in self._commits.items()
            for (topic, partition), (offset, note) in offsets.items()
        ]
        self._replace(self._commits_path, b"".join(line + b"\n" for line in lines))
        self._commits_file = self._commits_path.open("ab", buffering=0)
        self._commit_lines = 0

    @staticmethod
    def _replace(path: Path, data: bytes) -> None:
        new = path.with_suffix(".new")
        new.write_bytes(data)
        os.replace(new, path)
