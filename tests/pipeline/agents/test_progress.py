"""Offsets are passed in order only, in whatever order their messages are done."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.agents.progress import Partition


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
