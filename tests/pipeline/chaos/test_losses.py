"""What a group that lost slots of its log is excused for, and how a gap must name them."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.chaos.differences import Differences
from pipeline.chaos.losses import KIND, Hole
from pipeline.chaos.losses import compare as compare_gaps
from pipeline.chaos.truth import Slot, Tx
from schemas.topics import SETTLED_BY_MINT, SETTLED_BY_WALLET, Topic


def named(lane: Topic, partition: int, letter: str) -> str:
    """Return something that looks like an address, of a partition."""
    names = (f"{letter}{number:031d}" for number in range(1_000))
    return next(name for name in names if lane.partition(name) == partition)


def traded(signature: str, wallet: str, mint: str) -> Tx:
    swap = {"wallet": wallet, "mint": mint, "signature": signature}
    return Tx(signature, 0, swaps=[swap], flow={"signers": [wallet], "tokens": [], "seen": True})


def slots(*transactions: Tx) -> list[Slot]:
    """A slot each, from 10 on."""
    return [Slot(10 + at, 9 + at, f"hash-{at}", 0, [each]) for at, each in enumerate(transactions)]


def test_books_are_excused_for_names_of_the_partition_in_the_slots():
    hole = Hole("pnl", SETTLED_BY_WALLET, 3, 11, 12)
    ours, others = (named(SETTLED_BY_WALLET, at, "w") for at in (3, 4))
    later, mint = named(SETTLED_BY_WALLET, 3, "x"), named(SETTLED_BY_WALLET, 5, "m")
    chain = slots(
        *(traded("s0", later, mint), traded("s1", ours, mint)),
        *(traded("s2", others, mint), traded("s3", later, mint)),
    )
    assert hole.rests_on(chain) == {ours}


def test_a_tape_is_excused_for_its_swaps_and_for_those_whose_platform_it_lacks():
    hole = Hole("store", SETTLED_BY_MINT, 3, 11, 11)
    created, old, other = (
        named(SETTLED_BY_MINT, at, name) for at, name in ((3, "c"), (3, "o"), (4, "p"))
    )
    first = traded("s1", "w", created)
    first.creations.append({"mint": created})
    chain = slots(
        *(traded("s0", "w", old), first),
        *(traded("s2", "w", created), traded("s3", "w", old), traded("s4", "w", other)),
    )
    assert hole.rests_on(chain) == {"s1", "s2"}


HOLE = Hole("pnl", SETTLED_BY_WALLET, 3, 11, 12)
ROW = {"first_slot": 11, "last_slot": 12, "lost_by": "pnl 3"}
OF_ALL = {"first_slot": 30, "last_slot": 30, "lost_by": ""}


@pytest.mark.parametrize(
    ("hole", "rows", "differences"),
    [
        (HOLE, [ROW, OF_ALL], 0),
        (None, [OF_ALL], 0),
        (HOLE, [OF_ALL], 1),
        (HOLE, [ROW | {"last_slot": 13}], 1),
        (HOLE, [ROW, ROW | {"first_slot": 20}], 1),
        (HOLE, [ROW, ROW | {"lost_by": "pnl 4"}], 1),
        (None, [ROW], 1),
    ],
)
def test_a_gap_must_name_exactly_what_was_lost(
    hole: Hole | None, rows: list[dict[str, Any]], differences: int
) -> None:
    found = Differences()
    compare_gaps(hole, rows, found)
    assert found.total == found.counts[KIND] == differences
