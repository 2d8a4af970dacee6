"""Updates of a mint: at most one in 100 ms, the last one never lost, batches wait for theirs."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pipeline.agents.live.conflation import EVERY_S, Conflation
from pipeline.agents.live.receipt import Receipt


class Batch:
    def __init__(self) -> None:
        self.done = 0
        self.receipt = Receipt(self._release)

    def _release(self) -> None:
        self.done += 1


def taken(conflation, now):
    mints = []
    for mint, receipts in conflation.take(now):
        mints.append(mint)
        for receipt in receipts:
            receipt.release()
    return mints


def test_a_quiet_mint_goes_at_once_and_then_waits_out_the_interval():
    conflation, batch = Conflation(), Batch()
    assert conflation.next_at is None
    conflation.changed("a", batch.receipt)
    assert conflation.next_at == 0.0
    assert taken(conflation, 10.0) == ["a"]
    assert conflation.next_at is None
    conflation.changed("a", batch.receipt)
    conflation.changed("b", batch.receipt)
    assert taken(conflation, 10.01) == ["b"]
    assert conflation.next_at == 10.0 + EVERY_S
    assert taken(conflation, 10.09) == []
    batch.receipt.release()
    assert batch.done == 0
    assert taken(conflation, 10.0 + EVERY_S) == ["a"]
    assert batch.done == 1
    assert taken(conflation, 99.0) == []


STEPS = st.lists(st.tuples(st.integers(0, 40), st.sampled_from("abc"), st.booleans()), max_size=80)


@given(STEPS)
def test_never_two_within_the_interval_and_always_one_after_the_last_change(steps):
    conflation, now = Conflation(), 0.0
    sent, changed, batches = defaultdict(list), {}, []
    for ms, mint, looks in steps:
        now += ms / 1000
        batch = Batch()
        batches.append(batch)
        conflation.changed(mint, batch.receipt)
        batch.receipt.release()
        changed[mint] = now
        if looks:
            for out in taken(conflation, now):
                sent[out].append(now)
    while (next_at := conflation.next_at) is not None:
        now = max(now, next_at)
        for out in taken(conflation, now):
            sent[out].append(now)
    for mint, at in changed.items():
        assert sent[mint][-1] >= at
        assert sent[mint][-1] <= now
    for times in sent.values():
        assert all(later - earlier >= EVERY_S - 1e-9 for earlier, later in pairwise(times))
    assert all(batch.done == 1 for batch in batches)
