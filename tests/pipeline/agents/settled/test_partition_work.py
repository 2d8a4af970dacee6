"""Which messages of a partition are applied, in which order: the slot is the truth."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiokafka.errors import RequestTimedOutError
from aiokafka.structs import TopicPartition

from pipeline.agents.settled import partition_work
from pipeline.agents.settled.books import Writes
from pipeline.agents.settled.lost import LOG_LACKS, UNREADABLE, because
from pipeline.agents.settled.partition_work import (
    BadSlot,
    BooksFailed,
    Entry,
    PartitionWork,
    Reopen,
)
from pipeline.sinks.redis import Watermark
from schemas.codec import CodecError
from schemas.proto.tape_pb2 import SlotBatch

TP = TopicPartition("lane", 3)


class Log:
    """Where the consumer is asked to go on; the log begins at `first` and lacks `holes`."""

    def __init__(self, first=0, refusals=0, holes=()):
        self.first = first
        self.refusals = refusals
        self.holes = holes
        self.sought = []

    async def first_from(self, tp, offset):
        offset = max(offset, self.first)
        while offset in self.holes:
            offset += 1
        return offset

    async def none_between(self, tp, first, offset):
        return first >= self.first and all(each in self.holes for each in range(first, offset))

    async def seek(self, tp, offset):
        if self.refusals:
            self.refusals -= 1
            raise RequestTimedOutError
        self.sought.append(offset)
        return max(offset, self.first)


class Recording:
    """Books that write down what happens to them."""

    def __init__(self):
        self.applied = []
        self.at_hand = set()  # of the last load
        self.calls = []

    async def load(self, batches):
        await asyncio.sleep(0)
        assert batches
        self.at_hand = {batch.slot for batch in batches}
        if len(batches) > 1 and any(batch.blockhash == "unloadable" for batch in batches):
            raise CodecError("one of them")
        if batches[0].blockhash == "unloadable":
            raise CodecError("this one")

    def apply(self, batch):
        self.at_hand.remove(batch.slot)
        if batch.blockhash == "bad":
            raise CodecError("bad")
        if batch.blockhash == "bug":
            raise KeyError("mint")
        self.applied.append(batch.slot)

    def take(self):
        self.calls.append("take")
        return Writes(commands=[("SET", "slots", len(self.applied))])

    def written(self):
        self.calls.append("written")


@asynccontextmanager
async def opened(watermark=None, log=None):
    """A partition with its books; `work.books` and `work.finished` hold the outcome."""
    books = Recording()
    log = log or Log()
    work = PartitionWork(TP, "wm", "changed", log, lambda: None, log.first_from, log.none_between)

    async def open_books(partition):
        assert partition == TP.partition
        return books

    await work.open(watermark, open_books)
    running = asyncio.create_task(work.run())
    try:
        yield work, books, running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def message(offset, slot, blockhash="", parent=None):
    return Entry(offset, SlotBatch(slot=slot, parent=parent, blockhash=blockhash), 1, 10)


async def offer(work, entry, finished=None):
    """Offer a message as the lane does; say whether it was wanted."""
    if not await work.wants(entry.offset):
        return False
    if lost := work.lost_before(entry):
        LOST.append((lost.first_slot, lost.last_slot))
    work.accept(
        entry, lambda: lambda: (finished if finished is not None else []).append(entry.offset)
    )
    return True


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


LOST = []  # slots, first and last, that the lane puts on record


@pytest.fixture(autouse=True)
def nothing_lost():
    LOST.clear()


async def test_slots_are_applied_in_order_each_once():
    async with opened() as (work, books, _):
        for offset, slot in enumerate([5, 6, 6, 4, 9]):
            assert await offer(work, message(offset, slot))
        await settle()
        assert books.applied == [5, 6, 9]
        assert work.applied == Watermark(9, 4, 0)


async def test_up_to_the_watermark_nothing_is_applied_again():
    async with opened(Watermark(100, 7, 0)) as (work, books, _):
        for offset, slot in [(5, 98), (6, 99), (7, 100), (8, 101)]:
            assert await offer(work, message(offset, slot))
        await settle()
        assert books.applied == [101]


async def test_a_consumer_ahead_of_the_store_goes_back_and_what_was_fetched_passes():
    log = Log()
    async with opened(Watermark(100, 7, 0), log) as (work, books, _):
        assert not await offer(work, message(20, 113))
        assert not await offer(work, message(21, 114))
        assert log.sought == [8]
        for offset in range(8, 23):
            assert await offer(work, message(offset, 93 + offset))
        await settle()
        assert books.applied == list(range(101, 116))
        assert log.sought == [8]


async def test_a_broker_that_refuses_to_go_back_is_asked_again(monkeypatch):
    monkeypatch.setattr(partition_work, "SEEK_AGAIN_S", 0)
    log = Log(refusals=partition_work.SEEKS + 1)
    async with opened(Watermark(100, 7, 0), log) as (work, books, _):
        assert not await offer(work, message(9, 102))
        assert log.sought == []
        while not log.sought:
            await work.seek_again()
            assert not await offer(work, message(9, 102)), "nothing is taken for the first there is"
        for offset in (8, 9):
            assert await offer(work, message(offset, 93 + offset))
        await settle()
        assert books.applied == [101, 102]


async def test_without_a_watermark_the_log_is_read_from_its_first_message():
    log = Log(first=2)
    async with opened(None, log) as (work, books, _):
        assert not await offer(work, message(20, 70)), "Faust dropped what came before"
        assert log.sought == [0]
        for offset in range(2, 22):
            assert await offer(work, message(offset, 50 + offset))
        await settle()
        assert books.applied == list(range(52, 72))


async def test_only_the_log_says_that_it_does_not_have_a_message(monkeypatch):
    monkeypatch.setattr(partition_work, "SEEK_AGAIN_S", 0)
    log = Log()
    async with opened(Watermark(100, 7, 0), log) as (work, books, _):
        for _ in range(5 * partition_work.SEEKS):  # the consumer is slow
            assert not await offer(work, message(12, 105))
            await work.seek_again()
        log.holes = (8, 9)
        while work.expected == 8:
            assert not await offer(work, message(12, 105))
            await work.seek_again()
        for offset in range(10, 13):
            assert await offer(work, message(offset, 93 + offset, parent=92 + offset))
        await settle()
        assert books.applied == [103, 104, 105]
        assert LOST == [(101, 102)]


async def test_a_hole_in_the_middle_is_read_again_as_well():
    log = Log()
    async with opened(None, log) as (work, books, _):
        for offset in (0, 1, 2):
            assert await offer(work, message(offset, 50 + offset))
        assert not await offer(work, message(6, 56))
        assert log.sought == [3]
        for offset in range(3, 8):
            assert await offer(work, message(offset, 50 + offset))
        await settle()
        assert books.applied == list(range(50, 58))


async def test_what_the_log_has_lost_is_counted_and_the_rest_applied():
    log = Log(first=30)
    async with opened(Watermark(100, 7, 0), log) as (work, books, _):
        assert not await offer(work, message(31, 131))
        assert await offer(work, message(30, 130, parent=128))
        assert await offer(work, message(31, 131, parent=130))
        await settle()
        assert books.applied == [130, 131]
        assert LOST == [(101, 128)]


async def test_a_watermark_before_any_offset_loses_what_came_before_the_first_message():
    """`soltape rebuild --from-log --accept-loss` of lanes that began when they were raised."""
    async with opened(Watermark(5, -2, 0)) as (work, books, _):
        await work.pass_markers(0)
        await work.go_back()
        first = message(0, 50, parent=49)
        assert work.lost_before(first) == (6, 49, because([LOG_LACKS]))
        await offer(work, first)
        await settle()
        assert books.applied == [50]


async def test_slots_of_a_topic_made_anew_are_applied_whatever_their_offsets():
    async with opened(Watermark(100, 5000, 0)) as (work, books, _):
        for offset, slot in enumerate([99, 100, 101, 102]):
            assert await offer(work, message(offset, slot, parent=slot - 1))
        await settle()
        assert books.applied == [101, 102]
        assert work.applied == Watermark(102, 3, 0)
        assert LOST == []


async def test_messages_are_done_when_they_are_in_the_stores_and_not_before():
    finished = []
    async with opened() as (work, books, _):
        for offset in range(3):
            await offer(work, message(offset, 10 + offset), finished)
        await settle()
        taken = await work.take()
        assert taken.mark == Watermark(12, 2, 0)
        await offer(work, message(3, 13), finished)
        await settle()
        assert books.applied == [10, 11, 12, 13]
        assert finished == []
        await work.wrote(taken)
        assert finished == [0, 1, 2]
        assert work.at == 3
        assert not work.idle
        await work.wrote(await work.take())
        assert finished == [0, 1, 2, 3]
        assert work.idle
        assert books.calls == ["take", "written"] * 2
        assert await work.take() is None


def unread(offset):
    return Entry(offset, None, 1, 10)


def left_out(offset, slot, parent=None):
    entry = message(offset, slot, parent=parent)
    entry.is_left_out = True
    return entry


async def mark(work):
    """The watermark that a flush would write now."""
    await settle()
    return (await work.take()).mark


async def test_a_slot_that_is_there_already_moves_the_offset_alone():
    async with opened(Watermark(100, 7, 400)) as (work, books, _):
        assert await offer(work, message(8, 100))
        assert await mark(work) == Watermark(100, 8, 400)
        assert books.applied == []


async def test_a_message_that_cannot_be_read_holds_the_offset_until_the_next_slot_is_applied():
    async with opened(Watermark(100, 7, 400)) as (work, books, _):
        for entry in (unread(8), unread(9), message(10, 100, parent=99)):
            assert await offer(work, entry)
        assert await mark(work) == Watermark(100, 7, 400), "who opens the books next reads it again"
        assert await offer(work, message(11, 103, parent=102))
        assert await mark(work) == Watermark(103, 11, 0)
        assert books.applied == [103]
        assert LOST == [(101, 102)]


async def test_what_is_read_again_is_lost_once():
    async with opened(Watermark(100, 7, 0)) as (work, books, _):
        assert await offer(work, unread(8))
        assert await offer(work, message(9, 102, parent=101))
        for entry in (unread(8), message(9, 102, parent=101), message(10, 103, parent=102)):
            assert await offer(work, entry)
        await settle()
        assert books.applied == [102, 103]
        assert LOST == [(101, 101)]


async def test_a_message_that_was_no_slot_loses_nothing():
    async with opened(Watermark(100, 7, 0)) as (work, books, _):
        for entry in (unread(8), message(9, 103, parent=100)):
            assert await offer(work, entry)
        assert await mark(work) == Watermark(103, 9, 0)
        assert books.applied == [103]
        assert LOST == []


async def test_before_a_slot_without_a_parent_any_may_be_lost():
    async with opened(Watermark(100, 7, 0)) as (work, _, _):
        for entry in (unread(8), message(9, 104)):
            assert await offer(work, entry)
        assert LOST == [(101, 103)]


@pytest.mark.parametrize("watermark", [None, Watermark(0, -1, 0)], ids=["new", "from-log"])
async def test_before_the_first_slot_of_books_the_last_that_cannot_be_read_is_lost(watermark):
    async with opened(watermark) as (work, books, _):
        for entry in (unread(0), message(1, 500, parent=498), unread(2), message(3, 502)):
            assert await offer(work, entry)
        await settle()
        assert books.applied == [500, 502]
        assert LOST == [(498, 498), (501, 501)]


async def test_the_reason_has_all_that_is_wrong():
    log = Log(first=30)
    async with opened(Watermark(100, 7, 0), log) as (work, _, _):
        assert not await offer(work, message(31, 131))
        assert await offer(work, unread(30))
        found = work.lost_before(message(31, 131, parent=130))
        assert found == (101, 130, because([LOG_LACKS, UNREADABLE]))


async def test_a_slot_that_is_left_out_moves_the_offset_and_what_was_lost_before_it_is_named():
    async with opened(Watermark(100, 7, 400)) as (work, books, _):
        assert await offer(work, unread(8))
        assert await offer(work, left_out(9, 103, parent=102))
        assert await mark(work) == Watermark(100, 9, 400)
        assert LOST == [(101, 102)]
        for entry in (unread(10), message(11, 105, parent=104)):
            assert await offer(work, entry)
        await settle()
        assert books.applied == [105]
        assert LOST == [(101, 102), (104, 104)]


async def test_books_that_are_half_way_through_a_slot_are_never_written():
    async with opened() as (work, books, running):
        await offer(work, message(0, 10))
        await offer(work, message(1, 11, "bad"))
        await offer(work, message(2, 12))
        with pytest.raises(BadSlot) as bad:
            await running
        assert (bad.value.slot, bad.value.offset) == (11, 1)
        assert SlotBatch.FromString(bad.value.data).slot == 11
        assert books.applied == [10]
        assert await work.take() is None


async def test_one_batch_that_cannot_be_loaded_is_found_among_many():
    async with opened() as (work, books, running):
        for offset, blockhash in enumerate(["", "", "unloadable", ""]):
            await offer(work, message(offset, 10 + offset, blockhash))
        with pytest.raises(BadSlot) as bad:
            await running
        assert bad.value.slot == 12
        assert books.applied == [10, 11]


async def test_batches_that_cannot_be_loaded_together_are_loaded_apart():
    async with opened() as (work, books, _):
        load = books.load

        async def load_few(batches):
            if len(batches) > 2:
                raise CodecError("too many")
            await load(batches)

        books.load = load_few
        for offset in range(11):
            await offer(work, message(offset, 10 + offset))
        for _ in range(5):
            await settle()
        assert books.applied == list(range(10, 21))


async def test_a_bug_is_logged_with_its_place_and_nothing_is_written():
    async with opened() as (work, _, running):
        await offer(work, message(0, 10, "bug"))
        with pytest.raises(BooksFailed, match=r"lane\[3\]@0 slot 10: KeyError: 'mint' \(test_"):
            await running
        assert await work.take() is None


async def test_books_of_another_watermark_are_opened_again():
    async with opened() as (work, _, running):
        await offer(work, message(0, 10))
        await settle()
        work.open_again("slot 12")
        assert await work.take() is None
        with pytest.raises(Reopen, match="slot 12"):
            await running


async def test_while_much_is_unwritten_no_more_is_applied():
    async with opened() as (work, books, _):
        for offset in range(5):
            entry = message(offset, 10 + offset)
            entry.size = 15_000
            await offer(work, entry)
        await settle()
        assert books.applied == [10, 11, 12]
        await work.wrote(await work.take())
        await settle()
        assert books.applied == [10, 11, 12, 13, 14]


async def test_offsets_of_markers_are_passed_and_those_of_messages_are_not():
    log = Log(holes=(1, 2, 5))
    async with opened(Watermark(4, 0, 0), log) as (work, books, _):
        await work.pass_markers(3)
        assert await offer(work, message(3, 5, parent=4))
        # Of a parent that was accepted, as where the slot between was rolled back.
        await work.pass_markers(6)
        assert not await offer(work, message(6, 7, parent=5))
        assert log.sought == [4]
        await settle()
        assert books.applied == [5]
        assert LOST == []
