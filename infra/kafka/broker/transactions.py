"""Producers with a transactional id: which epoch is current, and the partitions they opened.

A new producer of an id gets the next epoch; from then on requests of older epochs are refused on
every partition. That fence is all a transaction is here: its records can be read at once, there
are no markers in the log, and it cannot be aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson
from kio.schema.errors import ErrorCode

from infra.kafka.broker.batch import Batch
from infra.local import private_file

MAX_EPOCH: Final = (1 << 15) - 2  # Apache Kafka keeps the last one for itself, too


class Refused(Exception):
    """A request that the state of its transactional id does not allow; holds Kafka's code."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(slots=True)
class _Producer:
    """The current producer of a transactional id."""

    producer_id: int
    epoch: int
    partitions: set[tuple[str, int]] = field(default_factory=set)  # of the open transaction


class Transactions:
    """The transactional ids of the broker, in a file that survives its death."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._producers: dict[str, _Producer] = {}
        if path.exists():
            for name, (producer_id, epoch, partitions) in orjson.loads(path.read_bytes()).items():
                opened = {(topic, number) for topic, number in partitions}
                self._producers[name] = _Producer(producer_id, epoch, opened)
        self._by_id = {each.producer_id: each for each in self._producers.values()}

    def begin_epoch(self, name: str, new_producer_id: Callable[[], int]) -> tuple[int, int]:
        """Return (producer id, epoch) of a new producer of a transactional id; fences the older."""
        before = self._producers.get(name)
        if before is None or before.epoch >= MAX_EPOCH:
            producer = _Producer(new_producer_id(), 0)
        else:
            producer = _Producer(before.producer_id, before.epoch + 1)
        if before is not None:
            self._by_id.pop(before.producer_id)
        self._producers[name] = self._by_id[producer.producer_id] = producer
        self._save()
        return producer.producer_id, producer.epoch

    def add_partitions(
        self, name: str, producer_id: int, epoch: int, partitions: Iterable[tuple[str, int]]
    ) -> None:
        """Open partitions for transactional batches; raises Refused."""
        producer = self._current(name, producer_id, epoch)
        if added := {*partitions} - producer.partitions:
            producer.partitions |= added
            self._save()

    def commit(self, name: str, producer_id: int, epoch: int) -> None:
        """End a transaction; raises Refused."""
        producer = self._current(name, producer_id, epoch)
        if not producer.partitions:
            raise Refused(ErrorCode.invalid_txn_state)
        producer.partitions.clear()
        self._save()

    def check(self, batch: Batch, topic: str, partition: int) -> None:
        """Raise Refused where a batch is not the current producer's, or has no transaction."""
        producer = self._by_id.get(batch.producer_id)
        if producer is None:
            if batch.is_transactional:
                raise Refused(ErrorCode.invalid_producer_id_mapping)
            return
        if batch.producer_epoch != producer.epoch:
            raise Refused(ErrorCode.invalid_producer_epoch)
        if batch.is_transactional != ((topic, partition) in producer.partitions):
            raise Refused(ErrorCode.invalid_txn_state)

    def _current(self, name: str, producer_id: int, epoch: int) -> _Producer:
        producer = self._producers.get(name)
        if producer is None or producer.producer_id != producer_id:
            raise Refused(ErrorCode.invalid_producer_id_mapping)
        if producer.epoch != epoch:
            raise Refused(ErrorCode.producer_fenced)
        return producer

    def _save(self) -> None:
        state = {
            name: (each.producer_id, each.epoch, sorted(each.partitions))
            for name, each in self._producers.items()
        }
        private_file.replace(self._path, orjson.dumps(state).decode())
