from __future__ import annotations

from dataclasses import replace

import pytest

from infra.chain.history import BrokenSource, History
from infra.chain.source import (
    AccountWrite,
    BlockHeader,
    ChainTransaction,
    SlotCompleted,
    SlotConfirmed,
    SlotDead,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
)
from infra.chain.updates import WRITE_BYTES
from schemas.proto.geyser_pb2 import CONFIRMED, FINALIZED, PROCESSED


def transaction(number: int, size: int = 100) -> ChainTransaction:
    return ChainTransaction(number.to_bytes(64), 0, b"x" * size, frozenset(), False, False)


def block(slot: int, parent: int, *transactions: ChainTransaction) -> list[SlotEvent]:
    header = BlockHeader(slot, parent, f"hash{slot}", f"hash{parent}", 1_795_233_522, slot)
    return [
        SlotStarted(slot, parent),
        SlotTransactions(slot, transactions),
        SlotCompleted(header),
    ]


def history(*events: SlotEvent, max_slots: int = 100, max_bytes: int = 1 << 20) -> History:
    out = History(max_slots, max_bytes)
    for event in events:
        out.apply(event)
    return out


def test_commitments_rise_one_by_one() -> None:
    kept = history(*block(10, 9), *block(11, 10), *block(12, 11), SlotConfirmed(10))
    kept.apply(SlotConfirmed(11))
    kept.apply(SlotFinalized(10))
    tips = [kept.tip(level) for level in (PROCESSED, CONFIRMED, FINALIZED)]
    assert [tip and tip.slot for tip in tips] == [12, 11, 10]
    assert [record.slot for record in kept.blocks(0, 99, CONFIRMED)] == [10, 11]
    assert [record.slot for record in kept.blocks(11, 99, CONFIRMED)] == [11]
    assert kept.block(12, PROCESSED) is not None
    assert kept.block(12, CONFIRMED) is None


def test_a_transaction_on_two_forks_is_found_on_the_one_that_won() -> None:
    twice = transaction(1)
    kept = history(*block(10, 9), *block(11, 10, twice), *block(12, 10, twice))
    assert kept.transaction(twice.signature, CONFIRMED) is None
    kept.apply(SlotConfirmed(12))
    found = kept.transaction(twice.signature, CONFIRMED)
    assert found is not None
    assert found[0].slot == 12
    assert kept.transaction(twice.signature, FINALIZED) is None


def test_a_confirmed_slot_that_was_rolled_back_is_no_block_of_the_chain() -> None:
    twice = transaction(1)
    kept = history(*block(10, 9), *block(11, 10, twice), SlotConfirmed(10), SlotConfirmed(11))
    for event in (*block(12, 10, twice), SlotConfirmed(12), SlotFinalized(10)):
        kept.apply(event)
    assert [record.slot for record in kept.blocks(0, 99, CONFIRMED)] == [10, 11, 12]
    kept.apply(SlotFinalized(12))
    assert [record.slot for record in kept.blocks(0, 99, CONFIRMED)] == [10, 12]
    found = kept.transaction(twice.signature, CONFIRMED)
    assert found is not None
    assert found[0].slot == 12


def test_the_oldest_slots_are_dropped() -> None:
    kept = history(max_slots=3)
    for slot in range(10, 20):
        for event in block(slot, slot - 1, transaction(slot)):
            kept.apply(event)
        kept.apply(SlotConfirmed(slot))
    assert kept.first_block() == 17
    assert kept.record(16) is None
    assert kept.transaction(transaction(16).signature, CONFIRMED) is None
    assert kept.transaction(transaction(17).signature, CONFIRMED) is not None
    assert kept.size_bytes == 300


def test_beyond_the_memory_limit_blocks_lose_their_transactions_but_not_their_votes() -> None:
    kept = history(max_bytes=250)
    for slot in range(10, 15):
        for event in block(slot, slot - 1, transaction(slot)):
            kept.apply(event)
    kept.apply(SlotConfirmed(10))
    assert kept.block(10, CONFIRMED) is None
    assert kept.tip(CONFIRMED) is not None
    assert kept.size_bytes <= 300  # the limit is held when a slot starts
    assert kept.block(14, PROCESSED) is not None


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([SlotTransactions(10, ())], "slot 10 was never started"),
        ([SlotStarted(10, 9), SlotStarted(10, 9)], "started twice"),
        ([SlotStarted(10, 10)], "not after its parent"),
        ([SlotStarted(10, 9), SlotConfirmed(10)], "before it was completed"),
        ([*block(10, 9), SlotTransactions(10, ())], "after it was completed"),
        ([*block(10, 9), block(10, 9)[-1]], "completed twice"),
        ([SlotDead(10, "gone")], "slot 10 was never started"),
    ],
)
def test_a_source_of_nonsense_is_stopped(events: list[SlotEvent], message: str) -> None:
    with pytest.raises(BrokenSource, match=message):
        history(*events)


def written(number: int, *addresses: int, size: int = 1_000) -> ChainTransaction:
    writes = tuple(
        AccountWrite(bytes([address]) * 32, bytes(32), 1, bytes(size), number * 100 + place)
        for place, address in enumerate(addresses)
    )
    return replace(transaction(number), writes=writes)


def test_the_last_write_of_each_account_is_kept_and_counted() -> None:
    bank = AccountWrite(b"\2" * 32, bytes(32), 5, bytes(500), 900)
    one, other = written(1, 1, 2), written(2, 1, 3)
    events = block(10, 9, one, other)
    kept = history(*events[:-1], replace(events[-1], writes=(bank,)))
    record = kept.record(10)
    assert record is not None
    assert record.written is not None
    assert {key[0]: item.write.write_version for key, item in record.written.items()} == {
        1: 200,
        2: 900,
        3: 201,
    }
    assert record.written[b"\2" * 32].signature is None
    assert record.written[b"\3" * 32].signature == other.signature
    assert all(not each.writes for each in record.transactions)  # their bytes are not kept twice
    assert kept.size_bytes == 2 * 100 + 2 * 1_000 + 500 + 3 * WRITE_BYTES


def test_writes_of_old_slots_are_forgotten_and_of_many_bounded() -> None:
    kept = History(1_000, 1 << 30, written_slots=20)
    for slot in range(10, 300):
        for event in block(slot, slot - 1, written(slot, 1, 2)):
            kept.apply(event)
    with_writes = [record for slot in range(10, 300) if (record := kept.record(slot)).written]
    assert [record.slot for record in with_writes] == list(range(300 - 148, 300))
    assert kept.size_bytes == 290 * 100 + 148 * 2 * (1_000 + WRITE_BYTES)
    small = History(1_000, 50_000, written_slots=1_000)
    for slot in range(10, 300):
        for event in block(slot, slot - 1, written(slot, 1, 2)):
            small.apply(event)
        assert small.size_bytes <= 50_000 + 2_600
    assert small.size_bytes > 40_000
