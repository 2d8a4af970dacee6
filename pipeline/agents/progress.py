"""How far a group has come on each partition, and the commit of it.

Faust's own commits are not used (its topics are made with `acks=False`): they acknowledge what
an agent was cancelled or failed in, messages it skipped in a rebalance, and may pass a message
in flight (faust-streaming 0.15.3). Here an offset is committed when everything up to it is done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import faust
import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from pipeline.agents import metrics
from pipeline.agents.consumer import GroupConsumer

log = structlog.get_logger(__name__)

COMMIT_EVERY_S: Final = 1.0
NEXT_TO_NOTHING_BATCHES: Final = 256  # of 10 ms: those of `live` wait 100 ms for their prices
_HAND_OVER_S: Final = 1.0  # for what is in flight when partitions are taken away


class Partition:
    """The messages of one partition that are in flight, and the offset after those done."""

    __slots__ = ("_flight", "next_offset", "note", "passed")

    def __init__(self) -> None:
        self.next_offset: int | None = None  # none done yet
        self.note = ""  # of the last message before `next_offset`
        self.passed = 0  # before this offset there is no message that is not done
        self._flight: deque[list[Any]] = deque()  # [offset, done, note] ascending

    @property
    def at(self) -> int | None:
        """The first offset that is not done, None before the first message."""
        return self._flight[0][0] if self._flight else self.next_offset

    @property
    def text(self) -> str:
        """What the commit says beside the offset: the note, and how far there was nothing more."""
        is_beyond = self.next_offset is not None and self.passed > self.next_offset
        return f"{self.note} passed {self.passed}".lstrip() if is_beyond else self.note

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight."""
        return not self._flight

    def let_go(self) -> None:
        """Forget what is in flight."""
        self._flight.clear()

    def begin(self, offset: int) -> Callable[[], None]:
        """Note that a message is being worked on; return what to call when it is done."""
        entry = [offset, False, ""]
        self._flight.append(entry)

        def done() -> None:
            entry[1] = True
            while self._flight and self._flight[0][1]:
                offset, _, self.note = self._flight.popleft()
                self.next_offset = offset + 1

        return done

    def annotate(self, offset: int, note: str) -> None:
        """Have the commit after a message in flight say something of it."""
        for entry in reversed(self._flight):
            if entry[0] == offset:
                entry[2] = note
                return


class Progress:
    """The partitions of one app; commits them every second and before they are taken away."""

    def __init__(self, app: faust.App, group: str) -> None:
        self.consumer = GroupConsumer(app)
        self.at: Callable[[TopicPartition], int | None] = self._at
        """The first offset of a partition that is not done, None before the first message."""
        self.lacking: str | None = "starting"
        """What keeps the group from having caught up, None when it has."""
        self._group = group
        self._slots_allowed: int | None = None  # where a message is a slot
        self._finish: Callable[[], Awaitable[None]] | None = None
        self._partitions: dict[TopicPartition, Partition] = {}
        self._committed: dict[TopicPartition, tuple[int, str]] = {}
        self._looks: dict[TopicPartition, tuple[int | None, int]] = {}
        app.on_partitions_revoked.connect(self._on_revoked)  # type: ignore[arg-type]

    def begin(self, message: Any) -> Callable[[], None]:
        """Note that a message is being worked on; return what to call when it is done."""
        partition = self._partitions.get(message.tp)
        if partition is None:
            partition = self._partitions[message.tp] = Partition()
        return partition.begin(message.offset)

    def passed(self, tp: TopicPartition) -> int:
        """Return an offset before which the log has no message that is not done; 0: not known."""
        partition = self._partitions.get(tp)
        return 0 if partition is None else partition.passed

    def note(self, message: Any, note: str) -> None:
        """Have the commit after a message in flight carry a text."""
        if (partition := self._partitions.get(message.tp)) is not None:
            partition.annotate(message.offset, note)

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight on any partition."""
        return all(partition.idle for partition in self._partitions.values())

    async def run(self) -> None:
        """Commit, and measure how far behind we are, every second until cancelled."""
        while True:
            await asyncio.sleep(COMMIT_EVERY_S)
            await self.commit()
            await self._measure()

    async def commit(self) -> bool:
        """Commit what is done of every partition that is ours, whether or not messages came since.

        A broker that refuses is asked again next time.
        """
        try:
            ours = await self.consumer.assignment()
        except KafkaError as error:
            log.warning("offsets not committed", reason=type(error).__name__)
            return False
        # Not before what is in flight, but after what is done: where the log lost what is between,
        # that is not passed before it is on record (`live.lost`).
        is_ours_to_say = self.at == self._at
        done = {tp: self._next(tp) if is_ours_to_say else self.at(tp) for tp in ours}
        return await self._commit(done, self._partitions)

    async def _commit(
        self, done: dict[TopicPartition, int | None], held: dict[TopicPartition, Partition]
    ) -> bool:
        committed = self._committed  # another one after the partitions changed hands
        offsets = {
            tp: (offset, held[tp].text if tp in held else "")
            for tp, offset in done.items()
            if offset is not None
        }
        offsets = {tp: at for tp, at in offsets.items() if at != committed.get(tp)}

        async def commit_there(consumer: AIOKafkaConsumer) -> None:
            # Not Faust's commit: that ends the app when it fails.
            for tp in offsets.keys() - consumer.assignment():  # withdrawn while we waited
                del offsets[tp]
            if offsets:
                await consumer.commit(
                    {
                        TopicPartition(tp.topic, tp.partition): OffsetAndMetadata(*at)
                        for tp, at in offsets.items()
                    }
                )

        if offsets:
            try:
                await self.consumer.call(commit_there)
            except KafkaError as error:
                log.warning("offsets not committed", reason=type(error).__name__)
                return False
            committed |= offsets
        return True

    async def _measure(self) -> None:
        try:
            async with asyncio.timeout(COMMIT_EVERY_S):
                ends = await self.consumer.ends()
        except (KafkaError, TimeoutError):  # a rebalance is under way, or the broker has gone
            self._caught_up("Kafka does not answer, or partitions change hands")
            return
        lags = [max(0, end - self._reached(tp, position)) for tp, (end, position) in ends.items()]
        metrics.LAG_BATCHES.labels(self._group).set(sum(lags))
        metrics.PARTITIONS.labels(self._group).set(len(ends))
        self._caught_up(self._behind(lags) if lags else "no partition yet")

    def _reached(self, tp: TopicPartition, position: int) -> int:
        """Return the first offset that is not done, markers of transactions passed.

        They take offsets and are no messages. Fetching passes them: where nothing has begun since
        the last look although more was fetched, what was fetched were markers.
        """
        at = self.at(tp)
        before, self._looks[tp] = self._looks.get(tp), (at, position)
        partition = self._partitions.get(tp)
        if at is None:
            return position
        if partition is None or not partition.idle or self.at != self._at:
            return at
        if before != (at, position):
            return at
        partition.passed = position
        return position

    def caught_up_within(self, slots: int) -> None:
        """Say that messages are slots, and how many a partition may lack of having caught up."""
        self._slots_allowed = slots

    def _behind(self, lags: list[int]) -> str | None:
        """Return how far behind the partitions are, None where it is next to nothing."""
        if self._slots_allowed is None:
            lag = sum(lags)
            return f"{lag} batches behind" if lag > NEXT_TO_NOTHING_BATCHES else None
        lag = max(lags)
        return f"{lag} slots behind" if lag > self._slots_allowed else None

    def _caught_up(self, lacking: str | None) -> None:
        self.lacking = lacking
        metrics.CAUGHT_UP.labels(self._group).set(lacking is None)

    def _at(self, tp: TopicPartition) -> int | None:
        partition = self._partitions.get(tp)
        return None if partition is None else partition.at

    def _next(self, tp: TopicPartition) -> int | None:
        partition = self._partitions.get(tp)
        return None if partition is None else partition.next_offset

    def before_handing_over(self, finish: Callable[[], Awaitable[None]]) -> None:
        """Have `finish` called first when partitions are taken away."""
        self._finish = finish

    def let_go(self, tp: TopicPartition) -> None:
        """Forget what is in flight on a partition, not what is done: the next owner does it."""
        if (partition := self._partitions.get(tp)) is not None:
            partition.let_go()

    def rewind(self, tp: TopicPartition) -> None:
        """Forget a partition: its messages come again, from an earlier one on."""
        self._partitions.pop(tp, None)
        self._committed.pop(tp, None)

    async def _on_revoked(self, app: faust.App, revoked: Any, **_: Any) -> None:
        """Finish what is in flight before others begin at what we have committed."""
        held = self._partitions
        try:
            async with asyncio.timeout(_HAND_OVER_S):
                if self._finish is not None:
                    await self._finish()
                # All of them: Faust reads those that stay from the committed offset again. What
                # begins from here on is not handed over, and is committed later.
                self._partitions = {}
                while not all(partition.idle for partition in held.values()):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        except TimeoutError:
            pass  # the next owner does it again
        if self._partitions is held:
            self._partitions = {}
        await self._commit({tp: partition.next_offset for tp, partition in held.items()}, held)
        self._committed = {}
