"""Offsets are passed in order only, in whatever order messages are done; and when each is ready."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from aiokafka.errors import RebalanceInProgressError
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from infra.redis.client import connect
from infra.settings import Settings
from pipeline.agents import metrics
from pipeline.agents.progress import NEXT_TO_NOTHING_BATCHES, Partition, Progress
from pipeline.agents.settled.lane import NEXT_TO_NOTHING_SLOTS, Lane
from schemas.topics import LIVE, SETTLED_BY_MINT
from tests.support.metrics import value_of


@given(st.permutations(range(8)), st.integers(min_value=0, max_value=8))
def test_never_past_a_message_in_flight(order, finished):
    offsets = [10, 11, 12, 20, 21, 22, 23, 40]  # with holes, as a compacted log has them
    partition = Partition()
    assert (partition.at, partition.next_offset, partition.idle) == (None, None, True)
    done = [partition.begin(offset) for offset in offsets]
    for index in order[:finished]:
        done[index]()
    in_flight = sorted(offsets[index] for index in order[finished:])
    before = [offset for offset in offsets if not in_flight or offset < in_flight[0]]
    assert partition.next_offset == (before[-1] + 1 if before else None)
    assert partition.at == (in_flight[0] if in_flight else 41)
    assert partition.idle == (not in_flight)


@pytest.fixture
def app():
    return SimpleNamespace(on_partitions_revoked=SimpleNamespace(connect=lambda _: None))


@pytest.fixture
def gauge():
    return lambda group: value_of(metrics.LAG_BATCHES.labels(group))


async def lacking(progress, topic, lags):
    """What keeps a group from being ready whose partitions are so many messages behind."""

    async def ends():
        return {TopicPartition(topic.name, n): (100 + lag, 100) for n, lag in enumerate(lags)}

    progress.consumer.ends = ends
    # private `_measure`: one look at the ends, which a task takes by the clock.
    await progress._measure()
    return progress.lacking


async def test_live_is_ready_with_what_waits_for_its_prices(app):
    progress = Progress(app, "live")
    each = NEXT_TO_NOTHING_BATCHES // LIVE.partitions
    assert progress.lacking == "starting"
    assert await lacking(progress, LIVE, []) == "no partition yet"
    assert await lacking(progress, LIVE, [each] * 8) is None
    assert await lacking(progress, LIVE, [each] * 7 + [each + 1]) == "257 batches behind"


async def test_markers_at_the_end_of_an_idle_partition_are_no_lag(app, gauge):
    progress = Progress(app, "live")
    tp = TopicPartition(LIVE.name, 3)
    message = SimpleNamespace(tp=tp, offset=7)

    async def lag(position):
        async def ends():
            return {tp: (position, position)}

        progress.consumer.ends = ends
        await progress._measure()
        return gauge("live")

    done = progress.begin(message)
    assert [await lag(9), await lag(9)] == [2, 2], "one in flight, and what follows it"
    done()
    assert await lag(9) == 1, "which may be fetched and not begun yet"
    assert progress.passed(tp) == 0
    assert [await lag(9), await lag(9)] == [0, 0], "a marker"
    assert progress.passed(tp) == 9
    broker = Broker(progress, {tp})
    assert await progress.commit()
    assert (broker.committed, broker.texts) == ({tp: 8}, {tp: "passed 9"})
    assert await lag(10) == 2
    progress.begin(SimpleNamespace(tp=tp, offset=9))
    assert [await lag(10), await lag(10)] == [1, 1]


class Broker:
    """Takes commits, or refuses them."""

    def __init__(self, progress, ours):
        self.committed = {}
        self.texts = {}
        self.refuses = False
        self._ours = ours
        progress.consumer.assignment = self.ours
        progress.consumer.call = self.call

    async def ours(self):
        return self._ours

    async def call(self, work):
        await work(self)

    def assignment(self):
        return self._ours

    async def commit(self, offsets):
        if self.refuses:
            raise RebalanceInProgressError
        self.committed |= {tp: each.offset for tp, each in offsets.items()}
        self.texts |= {tp: each.metadata for tp, each in offsets.items()}


async def test_what_a_hand_over_could_not_commit_is_committed_without_another_message(app):
    progress = Progress(app, "market")
    tp, other = (TopicPartition(SETTLED_BY_MINT.name, number) for number in range(2))
    broker = Broker(progress, {tp})
    progress.at = {tp: 8, other: 9}.get  # what the stores have
    progress.begin(SimpleNamespace(tp=tp, offset=7))()
    broker.refuses = True
    # private `_on_revoked`: what Faust calls; the handler is no method of the contract.
    await progress._on_revoked(app, {tp})
    assert not await progress.commit()
    assert broker.committed == {}
    broker.refuses = False
    assert await progress.commit()
    assert broker.committed == {tp: 8}, "the other one is not ours"
    broker.committed.clear()
    assert await progress.commit()
    assert broker.committed == {}, "once"
    progress.rewind(tp)
    assert await progress.commit()
    assert broker.committed == {tp: 8}


async def test_commits_carry_what_was_noted_and_pass_no_hole_that_is_looked_at(app):
    progress = Progress(app, "live")
    tp = TopicPartition(LIVE.name, 3)
    broker = Broker(progress, {tp})
    messages = [SimpleNamespace(tp=tp, offset=offset) for offset in (7, 8, 50)]
    first, second, after_hole = (progress.begin(message) for message in messages)
    assert await progress.commit()
    assert broker.committed == {}, "nothing is done"
    progress.note(messages[0], "slot 100")
    progress.note(messages[1], "slot 101")
    second()
    assert await progress.commit()
    assert broker.committed == {}
    first()
    assert await progress.commit()
    assert (broker.committed, broker.texts) == ({tp: 9}, {tp: "slot 101"})
    after_hole()
    assert await progress.commit()
    assert (broker.committed, broker.texts) == ({tp: 51}, {tp: ""})


async def test_a_settled_group_is_ready_when_no_partition_lacks_more_than_a_few_slots(app):
    progress = Progress(app, "market")
    settings = Settings(_env_file=None)
    context = SimpleNamespace(
        progress=progress, settings=settings, redis=connect(settings), clickhouse=None
    )
    Lane(app, context, "market", SETTLED_BY_MINT, None)
    few = NEXT_TO_NOTHING_SLOTS
    assert 1 < few < 25
    assert await lacking(progress, SETTLED_BY_MINT, [few] * 8) is None
    assert (
        await lacking(progress, SETTLED_BY_MINT, [0] * 7 + [few + 1]) == f"{few + 1} slots behind"
    )
    assert await lacking(progress, SETTLED_BY_MINT, [0] * 8) is None
