"""Books of agent `store`: all rows of a slot, or none, with the launch platforms of the tokens."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.agents import launchpads
from pipeline.agents.store import TapeBooks
from pipeline.domain.launchpad import Launchpad
from schemas.codec import CodecError
from schemas.proto.tape_pb2 import BUY, Creation, Migration, SlotBatch, Swap, TapeEvent
from schemas.rows import SWAPS
from tests.support.exploring import SLOW, examples

PLATFORM = list(SWAPS.columns).index("platform")


def batch(slot, *swaps):
    made = SlotBatch(slot=slot, complete=True)
    for number, side in enumerate(swaps):
        made.events.add().swap.CopyFrom(Swap(slot=slot, event_index=number, side=side))
    return made


async def nothing(mints, before_slot):
    return {}


async def taken(books, *batches):
    await books.load(batches)
    for each in batches:
        books.apply(each)
    return books.take().rows


async def counts(books, *batches):
    return {table: len(rows) for table, rows in (await taken(books, *batches)).items()}


async def test_rows_of_slots_until_they_are_taken():
    books = TapeBooks(0, nothing)
    third = batch(3, BUY)
    third.events.add().creation.mint = "m"
    third.events.add().migration.mint = "m"
    assert await counts(books, batch(1, BUY, BUY), batch(2), third) == {
        "swaps": 3,
        "creations": 1,
        "migrations": 1,
        "slots": 3,
    }
    assert books.take().rows == {}
    fourth = batch(4)
    for dex in ("orca-whirlpool", "pump-swap"):
        fourth.venues.add(dex=dex)
    assert await counts(books, fourth) == {"slots": 1, "outcomes": 2}


async def test_one_partition_reports_slots():
    books = TapeBooks(5, nothing)
    first = batch(1, BUY)
    first.venues.add(dex="pump-swap")
    assert await counts(books, first) == {"swaps": 1}


async def test_nothing_is_kept_of_a_slot_that_cannot_be_read():
    books = TapeBooks(0, nothing)
    with pytest.raises(CodecError):
        await taken(books, batch(1, BUY, 0))
    assert books.take().rows == {}


# The launch platform of a swap's token.

MINTS = ("coin", "other", "")
SLUGS = st.sampled_from(["", "pump-fun", "bags"])


@st.composite
def events(draw):
    kind = draw(st.sampled_from([Swap, Swap, Creation, Migration]))
    event = kind(mint=draw(st.sampled_from(MINTS)), platform=draw(SLUGS))
    if kind is Swap:
        event.side = BUY
        return TapeEvent(swap=event)
    return TapeEvent(creation=event) if kind is Creation else TapeEvent(migration=event)


def numbered(slots):
    return [SlotBatch(slot=n, complete=True, events=each) for n, each in enumerate(slots, start=1)]


def copies(batches):
    return [SlotBatch.FromString(each.SerializeToString()) for each in batches]


class Tables:
    """What the slots that were written name, as the query answers for the slots before one."""

    def __init__(self, batches):
        self.batches = batches
        self.asked = []

    async def read(self, mints, before_slot):
        self.asked += mints
        found = {}
        for each in self.batches:
            for event in each.events if each.slot < before_slot else ():
                for kind, take in (
                    ("creation", Launchpad.with_creation),
                    ("migration", Launchpad.with_migration),
                ):
                    if event.HasField(kind) and getattr(event, kind).mint in mints:
                        named = getattr(event, kind)
                        known = found.get(named.mint, Launchpad())
                        found[named.mint] = take(known, named.platform)
        return found


@given(st.lists(st.lists(events(), max_size=5), min_size=1, max_size=8), st.sets(st.integers(0, 7)))
@examples(fuzz_factor=SLOW)
async def test_a_platform_is_the_same_however_often_the_books_are_opened(slots, restarts):
    batches = numbered(slots)
    whole = TapeBooks(0, nothing)
    expected = (await taken(whole, *copies(batches))).get("swaps", [])
    tables = Tables(copies(batches))  # all of the tape: slots that are applied again as well
    bounds = sorted({0, len(batches)} | {each for each in restarts if each < len(batches)})
    found = []
    for first, end in pairwise(bounds):
        books = TapeBooks(0, tables.read)
        found += (await taken(books, *copies(batches[first:end]))).get("swaps", [])
    assert [row[PLATFORM] for row in found] == [row[PLATFORM] for row in expected]


async def test_a_mint_is_asked_for_once_while_it_is_in_memory(monkeypatch):
    monkeypatch.setattr(launchpads, "MINTS_IN_MEMORY", 2)
    tables = Tables([])
    books = TapeBooks(0, tables.read)
    for number, mints in enumerate(("ab", "a", "ac", "a", "b"), start=1):
        batch = SlotBatch(slot=number, complete=True)
        for mint in mints:
            batch.events.add().swap.CopyFrom(Swap(mint=mint, side=BUY))
        await taken(books, batch)
    assert tables.asked == ["a", "b", "c", "b"]
