"""Whose partition it is: books are open only where the group has given it to this process."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from pipeline.agents.settled import lane as module
from pipeline.agents.settled.books import Writes
from pipeline.agents.settled.lane import Lane
from pipeline.sinks.redis import Watermark
from schemas.topics import SETTLED_BY_MINT

TP = TopicPartition(SETTLED_BY_MINT.name, 0)
STORED = Watermark(100, 7, 0)


class Consumer:
    """Answers as the group's consumer does; None while partitions are shared out."""

    def __init__(self) -> None:
        self.given: set[TopicPartition] | None = {TP}

    async def ours(self) -> set[TopicPartition] | None:
        await asyncio.sleep(0)  # its thread answers
        return self.given

    async def assignment(self) -> set[TopicPartition]:
        return {TP} if self.given is None else self.given  # until then aiokafka has the old ones

    async def position(self, tp: TopicPartition) -> int | None:
        return STORED.offset + 1


class Progress:
    """What a lane needs of how far the group has come."""

    def __init__(self) -> None:
        self.consumer = Consumer()
        self.at = None
        self.let_gone: list[TopicPartition] = []

    def before_handing_over(self, finish: Any) -> None:
        pass

    def caught_up_within(self, slots: int) -> None:
        pass

    def let_go(self, tp: TopicPartition) -> None:
        self.let_gone.append(tp)


class Books:
    """Books with nothing in them."""

    async def load(self, batches: Any) -> None:
        pass

    def apply(self, batch: Any) -> None:
        pass

    def take(self) -> Writes:
        return Writes()

    def written(self) -> None:
        pass


# private `_open_all`, `_hand_over`, `_take`: the look of each second, the end of an assignment and
# what a message does, one after the other: Faust and the clock call them.
# private `_opened`: what `_take` asks for the books of its message.
# private `_attending`: the task of the books, whose end is waited for.
# private `_flush`: its lock, which a flush holds while it writes.
class Opened(Lane):
    """A lane that counts how often books were opened."""

    def __init__(self, progress: Progress) -> None:
        settings = SimpleNamespace(books_checkpoint_s=3600.0)
        redis = SimpleNamespace(register_script=lambda script: None)
        context: Any = SimpleNamespace(
            settings=settings, redis=redis, clickhouse=None, progress=progress, kafka=None
        )
        app: Any = None
        super().__init__(app, context, "counting", SETTLED_BY_MINT, self._open_one)
        self.opened = 0

    async def _open_one(self, partition: int) -> Books:
        self.opened += 1
        return Books()

    @property
    def held(self) -> tuple[int, int]:
        """How many partitions are open, and attended to."""
        return len(self._works), len(self._attending)


@pytest.fixture
def progress(monkeypatch: pytest.MonkeyPatch) -> Progress:
    async def stored(redis: Any, key: str) -> Watermark:
        return STORED

    monkeypatch.setattr(module, "read_watermark", stored)
    return Progress()


async def test_nothing_is_opened_between_a_hand_over_and_what_the_group_gives_then(
    progress: Progress,
) -> None:
    lane = Opened(progress)
    await lane._open_all()
    assert lane.held == (1, 1)
    progress.consumer.given = None
    await lane._hand_over()
    await lane._open_all()
    assert lane.held == (0, 0)
    await lane._take(SimpleNamespace(topic=TP.topic, partition=0, offset=8), b"")
    assert (lane.held, lane.opened) == ((0, 0), 1)
    progress.consumer.given = {TP}
    await lane._open_all()
    assert (lane.held, lane.opened) == ((1, 1), 2)
    await lane._hand_over()


async def test_what_is_open_and_not_ours_is_closed(progress: Progress) -> None:
    lane = Opened(progress)
    await lane._open_all()
    [attending] = lane._attending.values()
    progress.consumer.given = set()
    async with lane._flush.lock:  # not amid a flush
        closing = asyncio.create_task(lane._open_all())
        await asyncio.sleep(0.01)
        assert lane.held == (1, 1)
    await closing
    assert lane.held == (0, 0)
    assert progress.let_gone == [TP]
    await asyncio.wait((attending,), timeout=60)
    assert attending.cancelled()


async def test_a_message_and_the_look_open_the_books_once(progress: Progress) -> None:
    lane = Opened(progress)
    async with asyncio.timeout(60):
        await asyncio.gather(lane._open_all(), lane._opened(TP, STORED.offset + 1))
    assert (lane.held, lane.opened) == ((1, 1), 1)
    await lane._hand_over()
