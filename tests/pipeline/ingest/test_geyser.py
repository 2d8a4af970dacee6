"""When the client resumes, and when it stops trying to."""

from __future__ import annotations

# private `_Checkpoint`: where to resume, without a node that breaks at the given slot.
from pipeline.ingest.geyser import _Checkpoint


def test_a_refused_slot_is_given_up_after_the_limit() -> None:
    checkpoint = _Checkpoint(limit=2)
    assert checkpoint.choose(100) == 100
    checkpoint.refused()
    assert checkpoint.choose(100) == 100
    checkpoint.refused()
    assert checkpoint.choose(100) is None
    assert checkpoint.choose(101) == 101, "progress makes a new checkpoint"


def test_an_outage_is_no_refusal() -> None:
    checkpoint = _Checkpoint(limit=1)
    for _ in range(10):
        assert checkpoint.choose(100) == 100


def test_after_going_live_the_next_stream_resumes_from_there() -> None:
    checkpoint = _Checkpoint(limit=1)
    checkpoint.choose(100)
    checkpoint.refused()
    assert checkpoint.choose(100) is None
    checkpoint.floor = 500  # first slot of the live stream
    assert checkpoint.choose(100) == 500
    assert checkpoint.choose(501) == 501


def test_a_new_tape_goes_live() -> None:
    assert _Checkpoint(limit=1).choose(None) is None
