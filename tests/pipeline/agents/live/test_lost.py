"""Which slots a gap of the live lane names, and which jumps are none."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from infra.settings import Settings
from pipeline.agents.live import lost
from pipeline.agents.live.lost import BEHIND_SLOTS, LOST, SINCE_UNKNOWN, LostBatches
from pipeline.agents.progress import Progress
from schemas.proto.tape_pb2 import LiveBatch, SlotGap, SlotStatus, Swap, TapeEvent
from schemas.topics import GAPS, LIVE

TP = TopicPartition(LIVE.name, 5)


class Log:
    """Where the lane begins, what the group has committed, and the gaps that were published."""

    def __init__(self, monkeypatch):
        self.begins = 0
        self.committed = None
        self.gaps = []
        app = SimpleNamespace(on_partitions_revoked=SimpleNamespace(connect=lambda _: None))
        self.progress = Progress(app, "live")

        async def committed(tp):
            return self.committed

        async def begins_at(settings, tp):
            assert tp == TP
            return self.begins

        self.progress.consumer.committed = committed
        monkeypatch.setattr(lost, "begins_at", begins_at)
        self.start()

    def start(self):
        self.batches = LostBatches("live", Settings(_env_file=None), self, self.progress)

    async def send(self, messages, acked):
        [message] = messages
        assert (message.topic, message.partition) == (GAPS.name, 0)
        self.gaps.append(SlotGap.FromString(message.value))
        acked()

    async def read(self, offset, *events):
        """Read a message, and return what a commit after it says."""
        return await self._read(
            offset, partial(self.batches.before, batch=LiveBatch(events=events))
        )

    async def skip(self, offset):
        """Read a message that is no batch, and return what a commit after it says."""
        return await self._read(offset, self.batches.skip)

    async def _read(self, offset, take):
        source = SimpleNamespace(topic=TP.topic, partition=TP.partition, offset=offset, tp=TP)
        done = self.progress.begin(source)
        await take(source)
        done()
        # private `_partitions`: what a commit takes, and where a look at a silent lane leaves it.
        partition = self.progress._partitions[TP]
        return partition.next_offset, partition.text

    @property
    def found(self):
        return [(gap.first_slot, gap.last_slot, gap.reason, gap.lost_by) for gap in self.gaps]


def swap(slot):
    return TapeEvent(swap=Swap(slot=slot))


def status(slot, status):
    return TapeEvent(slot_status=SlotStatus(slot=slot, status=status))


@pytest.fixture
def log(monkeypatch):
    return Log(monkeypatch)


async def test_a_group_that_begins_has_lost_nothing(log):
    log.begins = 70
    assert await log.read(70, swap(1000)) == (71, "slot 1000")
    assert log.found == []


async def test_from_the_slot_of_the_commit_to_the_first_that_is_left(log):
    log.committed = OffsetAndMetadata(40, "slot 900")
    log.begins = 70
    assert await log.read(70, swap(1000), swap(1001)) == (71, "slot 1001")
    assert log.found == [(900, 1001, LOST, "live 5")]
    await log.read(71, swap(1001))
    assert len(log.gaps) == 1


async def test_a_jump_within_the_log_is_a_marker(log):
    log.committed = OffsetAndMetadata(40, "slot 900")
    log.begins = 40
    await log.read(42, swap(901))
    await log.read(44, swap(901))
    assert log.found == []


async def test_batches_that_are_lost_while_it_runs(log):
    log.committed = OffsetAndMetadata(40, "slot 900")
    await log.read(40, swap(901))
    log.begins = 60
    await log.read(60, status(950, SlotStatus.PROCESSED))
    assert log.found == [(901, 950, LOST, "live 5")]


async def test_what_was_passed_at_the_end_of_a_silent_lane_is_not_lost(log):
    log.committed = OffsetAndMetadata(40, "slot 900 passed 42")
    log.begins = 42
    await log.read(42, swap(950))
    assert log.found == []
    log.progress._partitions[TP].passed = 45
    log.begins = 45
    await log.read(45, swap(990))
    assert log.found == []


@pytest.mark.parametrize("text", ["", "passed 42", "of another version"])
async def test_without_a_slot_in_the_commit_the_beginning_is_unknown(log, text):
    log.committed = OffsetAndMetadata(40, text)
    log.begins = 70
    await log.read(70, swap(1000))
    assert log.found == [(1000, 1000, SINCE_UNKNOWN, "live 5")]


@pytest.mark.parametrize("late", [SlotStatus.FINALIZED, SlotStatus.ORPHANED])
async def test_a_status_of_an_older_slot_does_not_end_the_gap_too_early(log, late):
    log.committed = OffsetAndMetadata(40, "slot 900")
    log.begins = 70
    assert await log.read(70, status(950, late)) == (71, "slot 950")
    assert log.found == [(900, 950 + BEHIND_SLOTS, LOST, "live 5")]


async def test_a_batch_of_gaps_alone_keeps_the_slot(log):
    log.committed = OffsetAndMetadata(40, "slot 900")
    gap = TapeEvent(slot_gap=SlotGap(first_slot=1, last_slot=2))
    assert await log.read(40, gap) == (41, "slot 900")
    log.begins = 70
    await log.read(70, gap)
    assert log.found == [(900, 900, LOST, "live 5")]


async def test_a_process_that_starts_again_publishes_the_same_gap(log):
    log.committed = OffsetAndMetadata(40, "slot 900")
    log.begins = 70
    await log.read(70, swap(1000))
    log.start()
    await log.read(70, swap(1000))
    [first, second] = log.found
    assert first == second


async def test_what_was_lost_before_a_message_that_is_no_batch(log):
    log.committed = OffsetAndMetadata(40, "slot 900")
    log.begins = 70
    assert await log.skip(70) == (71, "slot 900")
    log.committed = OffsetAndMetadata(71, "slot 900")  # at once, before the next comes
    await log.skip(71)
    await log.read(72, swap(1000))
    assert log.found == [(900, 1000, LOST, "live 5")]


async def test_a_message_that_is_no_batch_is_no_loss_and_keeps_the_slot(log):
    log.committed = OffsetAndMetadata(40, "slot 900")
    log.begins = 40
    assert await log.skip(40) == (41, "slot 900")
    log.begins = 41
    await log.read(41, swap(901))
    assert log.found == []
