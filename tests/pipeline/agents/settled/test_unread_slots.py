"""A slot that cannot be read becomes a gap before a watermark passes it, whatever happens.

The lane is real, and what it runs on is of lists: the log, the store, what it publishes. Hypothesis
makes logs and interruptions: processes that are killed between any two steps or amid a message to
Kafka, partitions that are taken away and given back, a store that falls back.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from pipeline.agents.settled import flush
from pipeline.agents.settled import lane as module
from pipeline.agents.settled.books import Writes
from pipeline.agents.settled.lane import Lane
from pipeline.sinks.kafka import Message
from pipeline.sinks.redis import Watermark
from schemas.codec import CodecError
from schemas.proto.tape_pb2 import SlotBatch, SlotGap
from schemas.topics import GAPS, SETTLED_BY_WALLET

TP: Final = TopicPartition(SETTLED_BY_WALLET.name, 3)
BEGUN: Final = Watermark(100, 0, 0)
UNREAD: Final = b"\xff\xff\xff no protobuf"

KINDS: Final = ("good", "good", "leap", "unread", "bad", "unloadable", "noise", "again")
"""Of messages. A leap is a slot after some without a block, noise was no slot."""
STEPS: Final = ("take", "take", "take", "flush", "look", "kill", "hand over", "fall back")
AMID: Final = ("killed unsent", "killed unacked", "handed over")
"""What happens while the step waits for Kafka."""


@dataclass
class Log:
    """The messages of the partition, the first at offset 1, and what is to become of them."""

    values: list[bytes] = field(default_factory=list)
    slots: list[int | None] = field(default_factory=list)  # of each message; None: nothing new
    good: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, kinds: Sequence[str]) -> Log:
        log = cls()
        parent = BEGUN.slot
        for kind in kinds:
            if kind == "noise":
                log.add(UNREAD, None)
            elif kind == "again":
                slot = max(log.good, default=BEGUN.slot)
                log.add(SlotBatch(slot=slot, parent=slot - 1).SerializeToString(), None)
            else:
                slot = parent + (4 if kind == "leap" else 1)
                batch = SlotBatch(slot=slot, parent=parent, blockhash=kind)
                log.add(UNREAD if kind == "unread" else batch.SerializeToString(), slot)
                if kind in ("good", "leap"):
                    log.good.append(slot)
                parent = slot
        return log

    def add(self, value: bytes, slot: int | None) -> None:
        self.values.append(value)
        self.slots.append(slot)

    def lost(self, up_to: int | None = None) -> set[int]:
        """The slots that nobody can read, of the messages up to an offset."""
        return {slot for slot in self.slots[:up_to] if slot is not None} - {*self.good}

    def named(self, kafka: Kafka) -> set[int]:
        """The slots of the log that gaps name: their numbers may have some without a block."""
        return {slot for slot in self.slots if slot is not None} & {*kafka.named()}


@dataclass
class Store:
    """State and watermark of the partition, written together, and as they were before."""

    applied: list[int] = field(default_factory=list)
    mark: Watermark = BEGUN
    older: list[tuple[list[int], Watermark]] = field(default_factory=list)

    async def read_watermark(self, redis: Any, key: str) -> Watermark:
        return self.mark

    async def commit(
        self, redis: Any, key: str, believed: Watermark, new: Watermark, commands: Any
    ) -> None:
        assert believed == self.mark
        self.older.append((self.applied, self.mark))
        self.applied, self.mark = commands[0][2], new

    def fall_back(self) -> None:
        if self.older:
            self.applied, self.mark = self.older.pop()


async def has_none_between(*_: Any) -> bool:
    """Whether the log has only markers between two offsets: it has no markers."""
    return False


class Kafka:
    """What was published; `amid` is what happens while the next message is under way."""

    def __init__(self) -> None:
        self.gaps: set[tuple[int, int]] = set()  # a gap's identity
        self.amid: str | None = None
        self.is_under_way = asyncio.Event()
        self.acks = asyncio.Event()

    async def send(self, messages: Sequence[Message], acked: Any) -> None:
        amid, self.amid = self.amid, None
        if amid != "killed unsent":
            for message in messages:
                if message.topic == GAPS.name:
                    gap = SlotGap.FromString(message.value)
                    assert gap.lost_by == "pnl 3"
                    self.gaps.add((gap.first_slot, gap.last_slot))
        if amid is not None:
            self.is_under_way.set()
            await self.acks.wait()
        acked()

    def named(self) -> list[int]:
        """All slots of all gaps."""
        return [slot for first, last in self.gaps for slot in range(first, last + 1)]


class Progress:
    """What a lane needs of the group's consumer and of how far it has come."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.consumer = self
        self.at: Any = None

    async def ours(self) -> set[TopicPartition]:
        return {TP}

    async def position(self, tp: TopicPartition) -> int:
        return self.next_offset

    async def seek(self, tp: TopicPartition, offset: int) -> int:
        self.next_offset = offset
        return offset

    def begin(self, message: Any) -> Any:
        return lambda: None

    def before_handing_over(self, finish: Any) -> None:
        pass

    def caught_up_within(self, slots: int) -> None:
        pass

    def let_go(self, tp: TopicPartition) -> None:
        pass

    def rewind(self, tp: TopicPartition) -> None:
        pass


class Books:
    """Books whose state is the slots that were applied; some they cannot read."""

    def __init__(self, applied: Sequence[int]) -> None:
        self.applied = [*applied]

    async def load(self, batches: Sequence[SlotBatch]) -> None:
        if any(batch.blockhash == "unloadable" for batch in batches):
            raise CodecError("unloadable")

    def apply(self, batch: SlotBatch) -> None:
        self.applied.append(batch.slot)  # half of it, where it fails
        if batch.blockhash == "bad":
            raise CodecError("bad")

    def take(self) -> Writes:
        return Writes(commands=[("SET", "applied", [*self.applied])])

    def written(self) -> None:
        pass


class Process:
    """An agent's process over the log, from the offset that its group committed last."""

    def __init__(self, log: Log, store: Store, kafka: Kafka, committed: int) -> None:
        self._log, self._store = log, store
        self._progress = Progress(committed)
        context: Any = SimpleNamespace(
            settings=SimpleNamespace(books_checkpoint_s=3600.0),
            redis=SimpleNamespace(register_script=lambda script: None),
            clickhouse=None,
            progress=self._progress,
            kafka=kafka,
            stop=sys.exit,
        )
        app: Any = None
        self._lane = Lane(app, context, "pnl", SETTLED_BY_WALLET, self._open_books)

    async def _open_books(self, partition: int) -> Books:
        return Books(self._store.applied)

    # private `_take`, `_flush`, `_open_all`, `_compare`, `_hand_over`, `_at`: Faust and the clock
    # call them, at times that a test has to choose.
    # private `_works`, `_attending`, `_waiting`: whether the lane has dealt with what it was given.

    @property
    def committed(self) -> int:
        """The offset that the group commits, which may be ahead of the store."""
        at = self._lane._at(TP)
        return self._progress.next_offset if at is None else at

    async def do(self, step: str) -> None:
        """Do a step, and what comes of it."""
        if step == "take":
            offset = self._progress.next_offset
            if offset <= len(self._log.values):
                self._progress.next_offset += 1
                source = SimpleNamespace(topic=TP.topic, partition=TP.partition, offset=offset)
                await self._lane._take(source, self._log.values[offset - 1])
        elif step == "flush":
            await self._lane._flush.once()
        elif step == "look":
            await self._lane._open_all()
            await self._lane._compare()
        elif step == "fall back":
            self._store.fall_back()
        await self._until_done()

    async def _until_done(self) -> None:
        while self._lane._attending:
            work = self._lane._works.get(TP.partition)
            if work is not None and work.reopen is None and not work._waiting:
                return
            await asyncio.sleep(0)

    async def hand_over(self) -> None:
        """Have the partition taken away, and given back."""
        committed = self.committed
        await self._lane._hand_over()
        self._progress.next_offset = committed

    def end(self) -> None:
        for task in self._lane._attending.values():
            task.cancel()

    @property
    def is_at_end(self) -> bool:
        return self._progress.next_offset > len(self._log.values)


async def run(log: Log, steps: Sequence[tuple[str, str | None]]) -> Kafka:
    """Read a log with interruptions, then to its end; return what was published."""
    store, kafka = Store(), Kafka()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "read_watermark", store.read_watermark)
        patched.setattr(module, "has_none_between", has_none_between)
        patched.setattr(flush.redis_sink, "read_watermark", store.read_watermark)
        patched.setattr(flush.redis_sink, "commit", store.commit)
        process = Process(log, store, kafka, committed=1)
        for step, kafka.amid in steps:
            amid = kafka.amid
            doing = asyncio.create_task(process.do(step))
            under_way = asyncio.create_task(kafka.is_under_way.wait())
            await asyncio.wait((doing, under_way), return_when=asyncio.FIRST_COMPLETED)
            under_way.cancel()
            if amid == "handed over" or step == "hand over":
                await process.hand_over()
            elif kafka.is_under_way.is_set() or step == "kill":
                doing.cancel()
                process.end()
                process = Process(log, store, kafka, process.committed)
            kafka.is_under_way.clear()
            kafka.acks.set()
            await asyncio.wait((doing,))
            kafka.acks.clear()
            if not doing.cancelled():
                doing.result()
            check(log, store, kafka)
        kafka.amid = None
        while store.applied != log.good:
            await process.do("take")
            if process.is_at_end:
                await process.do("flush")
                await process.do("look")
            check(log, store, kafka)
        process.end()
    return kafka


def check(log: Log, store: Store, kafka: Kafka) -> None:
    """What holds at any moment, as if the process were killed now."""
    assert store.applied == log.good[: len(store.applied)]
    passed = store.mark.offset
    if store.applied:
        passed = max(passed, log.slots.index(store.applied[-1]) + 1)
    assert log.lost(passed) <= {*kafka.named()}
    assert not {*kafka.named()} & {*log.good}


@pytest.mark.parametrize("has_flushes", [True, False])
@pytest.mark.parametrize("amid", [None, *AMID])
def test_interrupted_anywhere_a_slot_is_applied_or_a_gap(
    has_flushes: bool, amid: str | None
) -> None:
    """Every order of two messages of each kind, interrupted before or amid each message."""
    step = ("take", None), *([("flush", None)] * has_flushes)
    for kinds in itertools.product(("good", "unread", "bad", "noise"), repeat=2):
        log = Log.of([*kinds, "good"])
        for before in range(len(log.values)):
            interrupted = [("kill", None)] if amid is None else [("take", amid)]
            kafka = asyncio.run(run(log, [*step * before, *interrupted, *step * 2]))
            assert log.named(kafka) == log.lost()


@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=7),
    st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from((None, None, *AMID))), max_size=20),
)
def test_every_slot_is_applied_or_a_gap(
    kinds: list[str], steps: list[tuple[str, str | None]]
) -> None:
    log = Log.of([*kinds, "good"])
    kafka = asyncio.run(run(log, steps))
    assert log.named(kafka) == log.lost()


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=7))
def test_without_interruptions_no_slot_is_in_two_gaps(kinds: list[str]) -> None:
    kafka = asyncio.run(run(Log.of([*kinds, "good"]), []))
    assert len(kafka.named()) == len({*kafka.named()})
