"""The aiokafka consumer under a Faust app: what Faust itself does not offer, or not rightly.

It lives in a thread of its own; everything here runs there and is awaited from our event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import faust
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import IllegalStateError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.transport.consumer import ThreadDelegateConsumer

T = TypeVar("T")


class GroupConsumer:
    """The consumer of one app. Methods raise KafkaError where the broker refuses or is away."""

    def __init__(self, app: faust.App) -> None:
        self._app = app

    async def call(self, work: Callable[[AIOKafkaConsumer], Awaitable[T]]) -> T:
        """Run something with the consumer, in its thread."""
        thread: Any = cast(ThreadDelegateConsumer, self._app.consumer)._thread

        async def work_there() -> T:
            return await work(thread._ensure_consumer())

        return cast(T, await thread.call_thread(work_there))

    async def ends(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return the log's end and the next offset to fetch of partitions fetched from once."""

        async def ends_there(consumer: AIOKafkaConsumer) -> dict[TopicPartition, tuple[int, int]]:
            ends = {}
            for tp in consumer.assignment():
                if (end := consumer.highwater(tp)) is not None:
                    with suppress(IllegalStateError):  # withdrawn while we waited
                        ends[tp] = (end, await consumer.position(tp))
            return ends

        return await self.call(ends_there)

    async def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are ours."""

        async def assignment_there(consumer: AIOKafkaConsumer) -> set[TopicPartition]:
            return set(consumer.assignment())

        return await self.call(assignment_there)

    async def ours(self) -> set[TopicPartition] | None:
        """Return the partitions that are ours, None while the group shares them out.

        Until that is done, `assignment` still has those that were taken away.
        """

        async def ours_there(consumer: AIOKafkaConsumer) -> set[TopicPartition] | None:
            # private `_subscription`: aiokafka says it nowhere else.
            if consumer._subscription.reassignment_in_progress:
                return None
            return set(consumer.assignment())

        return await self.call(ours_there)

    async def position(self, tp: TopicPartition) -> int | None:
        """Return the next offset to fetch, None where the partition is not ours any more."""

        async def position_there(consumer: AIOKafkaConsumer) -> int | None:
            if tp not in consumer.assignment():
                return None
            try:
                offset: int = await consumer.position(tp)
            except IllegalStateError:  # withdrawn while we waited
                return None
            return offset

        return await self.call(position_there)

    async def committed(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        """Return what the group committed last of a partition, with its text; None: nothing."""

        async def committed_there(consumer: AIOKafkaConsumer) -> OffsetAndMetadata | None:
            # private `_coordinator`: aiokafka's `committed` leaves the text out.
            found = await consumer._coordinator.fetch_committed_offsets([tp])
            committed: OffsetAndMetadata | None = found.get(tp)
            return None if committed is None or committed.offset < 0 else committed

        return await self.call(committed_there)

    async def seek(self, tp: TopicPartition, offset: int) -> int | None:
        """Go on at an offset, or at the first there is after it; return which.

        None where the partition is not ours any more. Messages fetched before may come yet.
        """

        async def seek_there(consumer: AIOKafkaConsumer) -> int | None:
            if tp not in consumer.assignment():
                return None
            first: int = (await consumer.beginning_offsets([tp]))[tp]
            if tp not in consumer.assignment():  # withdrawn while we waited
                return None
            consumer.seek(tp, max(offset, first))
            return max(offset, first)

        return await self.call(seek_there)

    def read_again(self) -> None:
        """Let messages through that were through before: Faust drops them otherwise."""
        self._app.consumer._read_offset = _Forgetful()  # type: ignore[attr-defined]


class _Forgetful(dict[Any, Any]):
    """Faust's memory of the last offset a partition was read to, which has none."""

    def __getitem__(self, key: Any) -> None:
        return None
