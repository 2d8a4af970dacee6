"""What agent `live` reads and what it makes of it."""

from __future__ import annotations

import pytest

from pipeline.agents.live.agent import Poison, parse, public_messages
from pipeline.agents.poison import MAX_UNDECODED_BYTES, undecoded
from schemas.proto.tape_pb2 import (
    Creation,
    LiveBatch,
    Migration,
    SlotBatch,
    SlotGap,
    SlotStatus,
    Swap,
    TapeEvent,
    Undecoded,
)
from schemas.topics import CREATIONS, SLOT_STATUS, SWAPS, UNDECODED


def test_one_message_an_event_in_order_keyed_and_placed():
    swaps = [Swap(signature=f"s{n}", mint=f"mint{n % 3}", event_index=n) for n in range(9)]
    batch = LiveBatch(events=[TapeEvent(swap=swap) for swap in swaps])
    messages = list(public_messages(batch))
    assert [Swap.FromString(message.value) for message in messages] == swaps
    assert [message.key for message in messages] == [swap.mint.encode() for swap in swaps]
    assert {message.topic for message in messages} == {SWAPS.name}
    assert [message.partition for message in messages] == [SWAPS.partition(s.mint) for s in swaps]


def test_each_kind_has_its_topic_and_the_rest_stays_inside():
    creation, status = Creation(mint="m"), SlotStatus(slot=77, status=SlotStatus.ORPHANED)
    batch = LiveBatch(
        events=[
            TapeEvent(migration=Migration(mint="m")),
            TapeEvent(creation=creation),
            TapeEvent(slot_gap=SlotGap(first_slot=1, last_slot=2)),
            TapeEvent(),  # a kind that a later version may send
            TapeEvent(slot_status=status),
        ]
    )
    made, counts = public_messages(batch)
    assert (made.topic, made.key, made.value) == (
        CREATIONS.name,
        b"m",
        creation.SerializeToString(),
    )
    assert (counts.topic, counts.key, counts.partition) == (SLOT_STATUS.name, b"77", 0)
    assert counts.value == status.SerializeToString()


def test_a_batch_is_read_as_it_was_written():
    batch = LiveBatch(events=[TapeEvent(swap=Swap(mint="m"))], sent_ms=5)
    assert parse(batch.SerializeToString()) == batch


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"", "holds no events"),
        (LiveBatch(sent_ms=7).SerializeToString(), "holds no events"),
        (SlotBatch(slot=9, blockhash="h").SerializeToString(), "holds no events"),
        (b"\xff\xff\xff", "parsing"),
        (LiveBatch(events=[TapeEvent()], sol_usd="1e3").SerializeToString(), "is no price"),
        (LiveBatch(events=[TapeEvent()], sol_usd="nan").SerializeToString(), "is no price"),
        (
            LiveBatch(events=[TapeEvent(swap=Swap(decimals=256))]).SerializeToString(),
            "256 decimals",
        ),
        (LiveBatch(events=[TapeEvent(swap=Swap(mint="mint"))]).SerializeToString()[:-1], "parsing"),
    ],
)
def test_poison_is_logged_with_its_reason(value, reason):
    with pytest.raises(Poison, match=f"(?i){reason}"):
        parse(value)


def test_poison_is_kept_with_place_reason_and_as_much_as_fits():
    message = undecoded(b"x" * (MAX_UNDECODED_BYTES + 1), "tape-live[3]@17", "why")
    record = Undecoded.FromString(message.value)
    assert (message.topic, message.key) == (UNDECODED.name, None)
    assert 0 <= message.partition < UNDECODED.partitions
    assert record.detail == "tape-live[3]@17: why"
    assert record.reason == Undecoded.MALFORMED
    assert len(record.data) == MAX_UNDECODED_BYTES
    assert Undecoded.FromString(undecoded(None, "p", "no value").value).data == b""
