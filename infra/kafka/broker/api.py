"""The requests of Kafka's protocol that the broker answers, one handler each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from itertools import count
from typing import Any, Final

from kio.schema.errors import ErrorCode

from infra.kafka.broker import frames
from infra.kafka.broker.answers import Client, answer, build, response_module
from infra.kafka.broker.batch import CorruptBatch, split
from infra.kafka.broker.disk_api import DiskApi
from infra.kafka.broker.group_api import GroupApi
from infra.kafka.broker.groups import Groups
from infra.kafka.broker.log import OldEpoch, OutOfOrderSequence, OutOfRange
from infra.kafka.broker.login import AUTHENTICATE, HANDSHAKE
from infra.kafka.broker.store import Shape, Store, TopicExists
from infra.kafka.broker.transactions import Refused

NODE_ID: Final = 1
PRODUCE: Final = 0
FETCH: Final = 1
API_VERSIONS: Final = 18

# Request key -> versions. The highest is where the next one would need what we have not:
# topic ids, fetch sessions.
VERSIONS: Final[Mapping[int, tuple[int, int]]] = {
    PRODUCE: (3, 8),
    FETCH: (4, 11),
    2: (1, 5),  # ListOffsets
    3: (0, 8),  # Metadata
    8: (2, 7),  # OffsetCommit
    9: (1, 5),  # OffsetFetch
    10: (0, 2),  # FindCoordinator
    11: (0, 5),  # JoinGroup
    12: (0, 3),  # Heartbeat
    13: (0, 3),  # LeaveGroup
    14: (0, 3),  # SyncGroup
    15: (0, 4),  # DescribeGroups
    16: (0, 2),  # ListGroups
    HANDSHAKE: (1, 1),
    API_VERSIONS: (0, 3),
    19: (2, 4),  # CreateTopics
    20: (1, 3),  # DeleteTopics
    21: (0, 1),  # DeleteRecords
    22: (0, 1),  # InitProducerId
    24: (0, 2),  # AddPartitionsToTxn
    26: (0, 2),  # EndTxn
    32: (1, 3),  # DescribeConfigs
    35: (1, 4),  # DescribeLogDirs
    AUTHENTICATE: (0, 1),
}

MOST_FETCHED: Final = 32 << 20
"""Bytes of records of one answer, but for a single batch that is larger."""
_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TRANSACTION_TIMEOUT: Final = timedelta(minutes=15)  # Apache Kafka's default


class Broker:
    """Answers requests; knows nothing of sockets."""

    def __init__(self, store: Store, host: str, port: int, cluster_id: str) -> None:
        self.store = store
        self.groups = Groups()
        self._node = {"node_id": NODE_ID, "host": host, "port": port}
        self._cluster_id = cluster_id
        # Unique across restarts: a producer's id must not come again with sequence 0.
        self._producer_ids = count(int(time.time()) << 20)
        self._handlers: dict[int, Callable[[Any, Client], Awaitable[Any]]] = {
            2: self._list_offsets,
            3: self._metadata,
            API_VERSIONS: self._api_versions,
            19: self._create_topics,
            20: self._delete_topics,
            21: self._delete_records,
            22: self._init_producer_id,
            24: self._add_partitions_to_transaction,
            26: self._end_transaction,
            32: self._describe_configs,
            **GroupApi(self.groups, store, self._node).handlers,
            **DiskApi(store).handlers,
        }

    async def handle(self, api_key: int, request: Any, client: Client) -> Any:
        """Answer any request but those that carry records."""
        return await self._handlers[api_key](request, client)

    # -- records ---------------------------------------------------------------------------

    def produce(self, request: frames.ProduceRequest) -> list[frames.Produced]:
        """Append records; a partition's are all refused if one batch of them is corrupt."""
        return [self._append(data) for data in request.data]

    def _append(self, data: frames.ProduceData) -> frames.Produced:
        log = self.store.logs.get((data.topic, data.partition))
        topic, partition = data.topic, data.partition
        if log is None:
            return frames.Produced(topic, partition, ErrorCode.unknown_topic_or_partition.value)
        try:
            batches = list(split(data.records))
            for batch in batches:
                self.store.transactions.check(batch, topic, partition)
            offsets = [log.append(batch) for batch in batches]
        except Refused as refused:
            return frames.Produced(topic, partition, refused.code.value)
        except OldEpoch:
            return frames.Produced(topic, partition, ErrorCode.invalid_producer_epoch.value)
        except CorruptBatch:
            return frames.Produced(topic, partition, ErrorCode.corrupt_message.value)
        except OutOfOrderSequence:
            error = ErrorCode.out_of_order_sequence_number.value
            return frames.Produced(topic, partition, error)
        except OSError:
            return frames.Produced(topic, partition, ErrorCode.kafka_storage_error.value)
        base = offsets[0] if offsets else log.end_offset
        return frames.Produced(topic, partition, 0, base, log.start_offset)

    async def fetch(self, request: frames.FetchRequest) -> list[frames.Fetched]:
        """Read records; where there are none, wait until there are or the time is up."""
        answers = self._read(request)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.max_wait_ms / 1000
        while not _enough(answers, request.min_bytes):
            remaining_s = deadline - loop.time()
            if remaining_s <= 0:
                break
            waiter = loop.create_future()
            for wanted in request.partitions:
                log = self.store.logs.get((wanted.topic, wanted.partition))
                if log is not None:
                    log.wait(waiter)
            done, _ = await asyncio.wait((waiter,), timeout=remaining_s)
            if not done:
                waiter.cancel()
                break
            answers = self._read(request)
        return answers

    def _read(self, request: frames.FetchRequest) -> list[frames.Fetched]:
        answers = []
        left = min(request.max_bytes, MOST_FETCHED)
        for wanted in request.partitions:
            topic, partition = wanted.topic, wanted.partition
            log = self.store.logs.get((topic, partition))
            if log is None:
                missing = ErrorCode.unknown_topic_or_partition.value
                answers.append(frames.Fetched(topic, partition, missing))
                continue
            error: int = 0
            records = b""
            try:
                if left > 0:
                    records = log.read(wanted.offset, min(left, wanted.max_bytes))
            except OutOfRange:
                error = ErrorCode.offset_out_of_range.value
            left -= len(records)
            answers.append(
                frames.Fetched(topic, partition, error, log.end_offset, log.start_offset, records)
            )
        return answers

    # -- what there is ---------------------------------------------------------------------

    async def _api_versions(self, request: Any, client: Client) -> Any:
        return self.api_versions(request.__version__, ErrorCode.none)

    def api_versions(self, version: int, error: ErrorCode) -> Any:
        """Return what the broker speaks."""
        module = response_module(API_VERSIONS, version)
        keys = tuple(
            build(module.ApiVersion, api_key=key, min_version=low, max_version=high)
            for key, (low, high) in VERSIONS.items()
        )
        return build(
            module.ApiVersionsResponse,
            error_code=error,
            api_keys=keys,
            throttle_time=timedelta(),
        )

    async def _metadata(self, request: Any, client: Client) -> Any:
        wanted = request.topics
        # Version 0 has no null: an empty list means all.
        everything = wanted is None or (not wanted and request.__version__ == 0)
        names = list(self.store.shapes) if everything else [topic.name for topic in wanted]
        broker = answer(
            request,
            "MetadataResponseBroker",
            **self._node,
            rack=None,
        )
        return answer(
            request,
            "MetadataResponse",
            brokers=(broker,),
            cluster_id=self._cluster_id,
            controller_id=NODE_ID,
            topics=tuple(self._topic_metadata(request, name) for name in names),
        )

    def _topic_metadata(self, request: Any, name: str) -> Any:
        shape = self.store.shapes.get(name)
        if shape is None:
            error = ErrorCode.unknown_topic_or_partition
            return answer(
                request, "MetadataResponseTopic", error_code=error, name=name, partitions=()
            )
        partitions = tuple(
            answer(
                request,
                "MetadataResponsePartition",
                error_code=ErrorCode.none,
                partition_index=partition,
                leader_id=NODE_ID,
                leader_epoch=0,
                replica_nodes=(NODE_ID,),
                isr_nodes=(NODE_ID,),
                offline_replicas=(),
            )
            for partition in range(shape.partitions)
        )
        return answer(
            request,
            "MetadataResponseTopic",
            error_code=ErrorCode.none,
            name=name,
            is_internal=False,
            partitions=partitions,
        )

    async def _list_offsets(self, request: Any, client: Client) -> Any:
        topics = tuple(
            answer(
                request,
                "ListOffsetsTopicResponse",
                name=topic.name,
                partitions=tuple(
                    self._offset(request, topic.name, wanted) for wanted in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return answer(request, "ListOffsetsResponse", topics=topics)

    def _offset(self, request: Any, topic: str, wanted: Any) -> Any:
        log = self.store.logs.get((topic, wanted.partition_index))
        error, offset, timestamp = ErrorCode.none, -1, -1
        if log is None:
            error = ErrorCode.unknown_topic_or_partition
        elif wanted.timestamp == _LATEST:
            offset = log.end_offset
        elif wanted.timestamp == _EARLIEST:
            offset = log.start_offset
        elif (found := log.offset_at(wanted.timestamp)) is not None:
            offset, timestamp = found
        return answer(
            request,
            "ListOffsetsPartitionResponse",
            partition_index=wanted.partition_index,
            error_code=error,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=0 if offset >= 0 else -1,
        )

    # -- topics ----------------------------------------------------------------------------

    async def _create_topics(self, request: Any, client: Client) -> Any:
        topics = []
        for wanted in request.topics:
            error, message = self._create_topic(wanted, validate_only=request.validate_only)
            topics.append(
                answer(
                    request,
                    "CreatableTopicResult",
                    name=wanted.name,
                    error_code=error,
                    error_message=message,
                )
            )
        return answer(request, "CreateTopicsResponse", topics=tuple(topics))

    def _create_topic(self, wanted: Any, *, validate_only: bool) -> tuple[ErrorCode, str | None]:
        name = wanted.name
        legal = name.replace(".", "").replace("_", "").replace("-", "")
        if not (legal.isascii() and legal.isalnum() and len(name) <= 249):
            return ErrorCode.invalid_topic_exception, f"{name!r} is no topic name"
        if name in self.store.shapes:
            return ErrorCode.topic_already_exists, f"topic {name} exists"
        partitions = 1 if wanted.num_partitions == -1 else wanted.num_partitions
        if not 0 < partitions <= 1024:
            return ErrorCode.invalid_partitions, f"{partitions} partitions; 1 to 1024 are possible"
        if wanted.replication_factor not in (-1, 1):
            message = f"replication factor {wanted.replication_factor} with one broker"
            return ErrorCode.invalid_replication_factor, message
        shape = Shape(partitions)
        for config in wanted.configs:
            if config.name == "retention.ms" and config.value:
                try:
                    retention_ms = int(config.value)
                except ValueError:
                    return ErrorCode.invalid_config, f"retention.ms={config.value}: no number"
                shape.retention_ms = retention_ms if retention_ms >= 0 else 1 << 60
        if not validate_only:
            try:
                self.store.create(name, shape)
            except TopicExists:
                return ErrorCode.topic_already_exists, None
        return ErrorCode.none, None

    async def _delete_topics(self, request: Any, client: Client) -> Any:
        answers = []
        for name in request.topic_names:
            error = ErrorCode.none
            if name in self.store.shapes:
                self.store.delete(name)
            else:
                error = ErrorCode.unknown_topic_or_partition
            answers.append(answer(request, "DeletableTopicResult", name=name, error_code=error))
        return answer(request, "DeleteTopicsResponse", responses=tuple(answers))

    async def _delete_records(self, request: Any, client: Client) -> Any:
        topics = []
        for topic in request.topics:
            partitions = []
            for wanted in topic.partitions:
                log = self.store.logs.get((topic.name, wanted.partition_index))
                error, start = ErrorCode.none, -1
                if log is None:
                    error = ErrorCode.unknown_topic_or_partition
                else:
                    before = log.end_offset if wanted.offset == -1 else wanted.offset
                    try:
                        start = log.delete_before(before)
                    except OutOfRange:
                        error = ErrorCode.offset_out_of_range
                partitions.append(
                    answer(
                        request,
                        "DeleteRecordsPartitionResult",
                        partition_index=wanted.partition_index,
                        low_watermark=start,
                        error_code=error,
                    )
                )
            topics.append(
                answer(
                    request,
                    "DeleteRecordsTopicResult",
                    name=topic.name,
                    partitions=tuple(partitions),
                )
            )
        return answer(request, "DeleteRecordsResponse", topics=tuple(topics))

    async def _describe_configs(self, request: Any, client: Client) -> Any:
        results = []
        for resource in request.resources:
            shape = self.store.shapes.get(resource.resource_name)
            configs: tuple[Any, ...] = ()
            error = ErrorCode.none
            if resource.resource_type == 2 and shape is None:
                error = ErrorCode.unknown_topic_or_partition
            elif resource.resource_type == 2 and shape is not None:
                values = {"retention.ms": str(shape.retention_ms), "cleanup.policy": "delete"}
                asked = resource.configuration_keys
                configs = tuple(
                    answer(
                        request,
                        "DescribeConfigsResourceResult",
                        name=name,
                        value=value,
                        read_only=False,
                        config_source=1,
                        is_sensitive=False,
                        synonyms=(),
                        config_type=0,
                        documentation=None,
                    )
                    for name, value in values.items()
                    if asked is None or name in asked
                )
            results.append(
                answer(
                    request,
                    "DescribeConfigsResult",
                    error_code=error,
                    error_message=None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=configs,
                )
            )
        return answer(request, "DescribeConfigsResponse", results=tuple(results))

    # -- producers -------------------------------------------------------------------------

    async def _init_producer_id(self, request: Any, client: Client) -> Any:
        error, producer_id, epoch = ErrorCode.none, -1, -1
        if request.transactional_id is None:
            producer_id, epoch = next(self._producer_ids), 0
        elif not request.transactional_id:
            error = ErrorCode.invalid_request
        elif not timedelta(0) < request.transaction_timeout <= _MAX_TRANSACTION_TIMEOUT:
            error = ErrorCode.invalid_transaction_timeout
        else:
            producer_id, epoch = self.store.transactions.begin_epoch(
                request.transactional_id, self._producer_ids.__next__
            )
        return answer(
            request,
            "InitProducerIdResponse",
            error_code=error,
            producer_id=producer_id,
            producer_epoch=epoch,
        )

    async def _add_partitions_to_transaction(self, request: Any, client: Client) -> Any:
        wanted = [
            (topic.name, number)
            for topic in request.v3_and_below_topics
            for number in topic.partitions
        ]
        unknown = {place for place in wanted if place not in self.store.logs}
        error = ErrorCode.none
        if unknown:  # then none is added
            error = ErrorCode.operation_not_attempted
        else:
            try:
                self.store.transactions.add_partitions(
                    request.v3_and_below_transactional_id,
                    request.v3_and_below_producer_id,
                    request.v3_and_below_producer_epoch,
                    wanted,
                )
            except Refused as refused:
                error = _in_version(request, refused.code)
        missing = ErrorCode.unknown_topic_or_partition
        topics = tuple(
            answer(
                request,
                "AddPartitionsToTxnTopicResult",
                name=topic.name,
                results_by_partition=tuple(
                    answer(
                        request,
                        "AddPartitionsToTxnPartitionResult",
                        partition_index=number,
                        partition_error_code=missing if (topic.name, number) in unknown else error,
                    )
                    for number in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        )
        return answer(request, "AddPartitionsToTxnResponse", results_by_topic_v3_and_below=topics)

    async def _end_transaction(self, request: Any, client: Client) -> Any:
        error = ErrorCode.none
        try:
            if not request.committed:
                raise Refused(ErrorCode.invalid_request)  # what is written can be read already
            self.store.transactions.commit(
                request.transactional_id, request.producer_id, request.producer_epoch
            )
        except Refused as refused:
            error = _in_version(request, refused.code)
        return answer(request, "EndTxnResponse", error_code=error)


def _in_version(request: Any, code: ErrorCode) -> ErrorCode:
    """Return a code as the request's version has it: PRODUCER_FENCED came with the second."""
    if code is ErrorCode.producer_fenced and request.__version__ < 2:
        return ErrorCode.invalid_producer_epoch
    return code


def _enough(answers: Iterable[frames.Fetched], min_bytes: int) -> bool:
    """Return whether a fetch can be answered: enough to read, or an error."""
    size = 0
    for partition in answers:
        if partition.error:
            return True
        size += len(partition.records)
    return size >= min_bytes
