"""How often a process writes to the stores."""

import pytest

from pipeline.agents.settled.flush import EVERY_S, FEW_EVENTS, LONGEST_S, pause_s

PARTITIONS = 8
MANY = FEW_EVENTS + 1


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_sharing_the_partitions_makes_no_more_inserts(workers):
    inserts_per_s = workers / pause_s(PARTITIONS // workers, PARTITIONS, MANY)
    assert inserts_per_s == pytest.approx(1 / EVERY_S)


def test_an_uneven_share_makes_no_more_inserts():
    shares = [3, 3, 2]
    inserts_per_s = sum(1 / pause_s(held, PARTITIONS, MANY) for held in shares)
    assert inserts_per_s == pytest.approx(1 / EVERY_S)


def test_the_stores_stay_less_than_five_slots_behind_whatever_the_share():
    for events in (0, FEW_EVENTS, MANY):
        assert pause_s(1, PARTITIONS, events) == LONGEST_S
        assert pause_s(0, PARTITIONS, events) == LONGEST_S
    assert pause_s(1, 1, MANY) == EVERY_S


def test_few_events_wait_for_the_longest():
    assert pause_s(PARTITIONS, PARTITIONS, FEW_EVENTS) == LONGEST_S
    assert pause_s(PARTITIONS, PARTITIONS, MANY) == EVERY_S
