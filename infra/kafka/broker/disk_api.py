"""The request about disks: what each partition takes, and how much room is left."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from infra.kafka.broker.answers import Client, answer
from infra.kafka.broker.store import Store


class DiskApi:
    """Answers it; all partitions lie in one folder."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.handlers: Mapping[int, Callable[[Any, Client], Awaitable[Any]]] = {
            35: self._describe_log_dirs
        }

    async def _describe_log_dirs(self, request: Any, client: Client) -> Any:
        volume = shutil.disk_usage(self._store.folder)
        folder = answer(
            request,
            "DescribeLogDirsResult",
            error_code=ErrorCode.none,
            log_dir=str(self._store.folder),
            topics=tuple(
                answer(
                    request,
                    "DescribeLogDirsTopic",
                    name=name,
                    partitions=tuple(self._partition(request, name, each) for each in partitions),
                )
                for name, partitions in self._wanted(request)
            ),
            total_bytes=volume.total,
            usable_bytes=volume.free,
        )
        return answer(
            request, "DescribeLogDirsResponse", error_code=ErrorCode.none, results=(folder,)
        )

    def _wanted(self, request: Any) -> list[tuple[str, list[int]]]:
        """Return the partitions that are asked for and there, by topic."""
        shapes = self._store.shapes
        if request.topics is None:
            return [(name, list(range(shape.partitions))) for name, shape in shapes.items()]
        return [
            (wanted.topic, [each for each in wanted.partitions if 0 <= each < shape.partitions])
            for wanted in request.topics
            if (shape := shapes.get(wanted.topic)) is not None
        ]

    def _partition(self, request: Any, topic: str, partition: int) -> Any:
        return answer(
            request,
            "DescribeLogDirsPartition",
            partition_index=partition,
            partition_size=self._store.logs[topic, partition].size,
            offset_lag=0,
            is_future_key=False,
        )
