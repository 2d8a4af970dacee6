"""When a process writes to the stores, and how often."""

from dataclasses import dataclass

import pytest

from pipeline.agents.settled.pacing import (
    ENOUGH_EVENTS,
    EVERY_S,
    GATHER_S,
    LONGEST_S,
    TICKED_S,
    Pacing,
    pause_s,
)

PARTITIONS = 8
SLOT_CS = 40


@dataclass
class Partition:
    """A partition that has applied slots, or what no slot brought."""

    at_slot: int | None = 1
    has_slots: bool = False
    has_changes: bool = False
    unwritten_events: int = 0

    def apply(self, slot: int) -> None:
        self.at_slot, self.has_slots, self.has_changes = slot, True, True
        self.unwritten_events += 1

    def write(self) -> None:
        self.has_slots = self.has_changes = False
        self.unwritten_events = 0


@pytest.fixture
def partitions() -> list[Partition]:
    return [Partition() for _ in range(PARTITIONS)]


@pytest.fixture
def pacing() -> Pacing:
    return Pacing(PARTITIONS)


def test_a_slot_is_written_when_the_last_partition_has_it(pacing, partitions):
    for each in partitions[:-1]:
        each.apply(2)
        assert not pacing.is_due(0.0, partitions)
    partitions[-1].apply(2)
    assert pacing.is_due(0.0, partitions)


def test_a_partition_that_lags_is_not_waited_for(pacing, partitions):
    partitions[0].apply(2)
    assert not pacing.is_due(0.0, partitions)
    assert pacing.is_due(GATHER_S, partitions)
    for each in partitions:
        each.apply(3)
    partitions[0].at_slot = None  # more waits: it reads what it was behind with
    assert not pacing.is_due(EVERY_S, partitions)
    assert pacing.is_due(EVERY_S + GATHER_S, partitions)


def test_each_slot_of_the_chain_is_written_as_it_comes(pacing, partitions):
    written = []  # hundredths of a second
    for now in range(1_000):
        if now % SLOT_CS == 0:
            for each in partitions:
                each.apply(now)
        if pacing.is_due(now / 100, partitions):
            written.append(now)
            for each in partitions:
                each.write()
    assert written == [*range(0, 1_000, SLOT_CS)]


def test_slots_that_come_faster_are_written_at_the_pace(pacing, partitions):
    written = []  # hundredths of a second
    for now in range(1_000):
        for each in partitions:
            each.apply(now)
        if pacing.is_due(now / 100, partitions):
            written.append(now)
            for each in partitions:
                each.write()
    assert len(written) == pytest.approx(10 / EVERY_S, abs=2)


def test_a_slot_that_comes_early_after_a_late_one_does_not_wait(pacing, partitions):
    for now in (0.0, 0.7, 0.8, 1.2, 1.9, 2.0):
        for each in partitions:
            each.apply(round(now * 10))
        assert pacing.is_due(now, partitions)
        for each in partitions:
            each.write()


def test_what_no_slot_brought_goes_with_the_next_or_when_none_comes(pacing, partitions):
    partitions[3].has_changes = True
    assert not pacing.is_due(0.0, partitions)
    assert not pacing.is_due(TICKED_S - 0.01, partitions)
    assert pacing.is_due(TICKED_S, partitions)
    for each in partitions:
        each.apply(2)
    assert pacing.is_due(TICKED_S + EVERY_S, partitions)


def test_much_is_written_without_waiting(pacing, partitions):
    for each in partitions:
        each.apply(2)
    assert pacing.is_due(0.0, partitions)
    partitions[0].unwritten_events = ENOUGH_EVENTS
    for step in range(100):
        assert pacing.is_due(step / 100, partitions)
    partitions[0].unwritten_events = 1
    assert pacing.is_due(0.99 + EVERY_S, partitions), "the next pause is no longer for that"


def test_nothing_is_never_due(pacing, partitions):
    assert not any(pacing.is_due(now, partitions) for now in range(100))
    assert not pacing.is_due(100.0, [])


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_sharing_the_partitions_makes_no_more_inserts(workers):
    inserts_per_s = workers / pause_s(PARTITIONS // workers, PARTITIONS)
    assert inserts_per_s == pytest.approx(1 / EVERY_S)


def test_an_uneven_share_makes_no_more_inserts():
    shares = [3, 3, 2]
    inserts_per_s = sum(1 / pause_s(held, PARTITIONS) for held in shares)
    assert inserts_per_s == pytest.approx(1 / EVERY_S)


def test_the_stores_stay_less_than_five_slots_behind_whatever_the_share():
    assert pause_s(1, PARTITIONS) == LONGEST_S
    assert pause_s(0, PARTITIONS) == LONGEST_S
    assert pause_s(1, 1) == EVERY_S
