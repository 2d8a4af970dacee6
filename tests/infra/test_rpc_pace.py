"""Calls go to a node at the rate that was set, and a process that is late makes up for a little."""

from __future__ import annotations

import pytest

from infra.solana_rpc.client import MADE_UP_S, Pace

PER_S = 200
AT_ONCE = int(MADE_UP_S * PER_S) + 1


def test_calls_that_all_come_at_once_go_at_the_rate() -> None:
    pace = Pace(PER_S)
    turns = [pace.pause_s(50.0) for _ in range(1_000)]
    assert turns[:AT_ONCE] == pytest.approx([0.0] * AT_ONCE)
    assert turns[-1] == pytest.approx((1_000 - AT_ONCE) / PER_S)


def test_no_second_has_more_than_a_tenth_above_the_rate() -> None:
    pace = Pace(PER_S)
    asked = [*(0.0 for _ in range(300)), *(9.0 for _ in range(900))]
    turns = [at + pace.pause_s(at) for at in asked]
    for begin in turns:
        within = sum(begin <= turn < begin + 1 for turn in turns)
        assert within <= PER_S * (1 + MADE_UP_S) + 1


def test_a_moment_that_was_missed_is_made_up_for() -> None:
    pace = Pace(PER_S)
    waiting = [pace.pause_s(0.0) for _ in range(AT_ONCE + 10)]
    assert waiting[-1] == pytest.approx(10 / PER_S)
    late = [pace.pause_s(0.08) for _ in range(7)]
    assert late[:6] == pytest.approx([0.0] * 6), "16 turns had come by then, 10 were taken"
    assert late[6] == pytest.approx(1 / PER_S)


def test_a_slow_rate_has_nothing_to_make_up() -> None:
    pace = Pace(2)
    assert [pace.pause_s(7.0) for _ in range(3)] == pytest.approx([0.0, 0.4, 0.9])
