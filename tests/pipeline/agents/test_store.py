"""Books of agent `store`: all rows of a slot, or none."""

import pytest

from pipeline.agents.store import TapeBooks
from schemas.codec import CodecError
from schemas.proto.tape_pb2 import BUY, SlotBatch


def batch(slot, *swaps):
    made = SlotBatch(slot=slot, complete=True)
    for number, side in enumerate(swaps):
        made.events.add().swap.CopyFrom(
            made.events[number].swap.__class__(slot=slot, event_index=number, side=side)
        )
    return made


def counts(books):
    return {table: len(rows) for table, rows in books.take().rows.items()}


def test_rows_of_slots_until_they_are_taken():
    books = TapeBooks(0)
    books.apply(batch(1, BUY, BUY))
    books.apply(batch(2))
    third = batch(3, BUY)
    third.events.add().creation.mint = "m"
    third.events.add().migration.mint = "m"
    books.apply(third)
    assert counts(books) == {"swaps": 3, "creations": 1, "migrations": 1, "slots": 3}
    assert counts(books) == {}
    fourth = batch(4)
    for dex in ("orca-whirlpool", "pump-swap"):
        fourth.venues.add(dex=dex)
    books.apply(fourth)
    assert counts(books) == {"slots": 1, "outcomes": 2}


def test_one_partition_tells_of_slots():
    books = TapeBooks(5)
    told = batch(1, BUY)
    told.venues.add(dex="pump-swap")
    books.apply(told)
    assert counts(books) == {"swaps": 1}


def test_nothing_is_kept_of_a_slot_that_cannot_be_read():
    books = TapeBooks(0)
    with pytest.raises(CodecError):
        books.apply(batch(1, BUY, 0))
    assert counts(books) == {}
