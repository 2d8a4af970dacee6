"""Pauses between attempts: bounds, jitter, and the way back to the first one."""

import time

from infra.backoff import Backoff


def test_pauses_double_up_to_the_longest():
    backoff = Backoff(0.5, 3.0, jitter=False)
    assert [backoff.next_s() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_a_reset_begins_with_the_first_pause_again():
    backoff = Backoff(0.5, 3.0, jitter=False)
    for _ in range(4):
        backoff.next_s()
    backoff.reset()
    assert backoff.next_s() == 0.5


def test_jitter_shortens_a_pause_by_up_to_a_half_and_each_one_differently():
    pauses = [Backoff(1.0, 8.0) for _ in range(200)]
    for whole_s in (1.0, 2.0, 4.0, 8.0, 8.0):
        found = [each.next_s() for each in pauses]
        assert all(whole_s / 2 <= pause_s <= whole_s for pause_s in found)
        assert len(set(found)) > 100


async def test_wait_lasts_as_long_as_the_pause():
    backoff = Backoff(0.05, 1.0, jitter=False)
    began = time.monotonic()
    await backoff.wait()
    assert time.monotonic() - began >= 0.05
    assert backoff.next_s() == 0.1
