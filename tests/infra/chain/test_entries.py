"""Entries of a simulated block: all of its transactions, once, among the ticks of a slot."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from infra.chain import updates
from infra.chain.entries import HASHES_PER_TICK, TICKS, entries
from infra.chain.source import BlockHeader, ChainTransaction
from infra.chain.updates import BlockUpdate
from schemas.proto.geyser_pb2 import SubscribeUpdate
from schemas.solana import base58

HASH = bytes(range(32))


@given(st.integers(0, 5_000))
def test_a_blocks_entries_have_its_transactions_and_ticks(count: int) -> None:
    found = list(entries(HASH, count))
    assert [entry.number for entry in found] == list(range(len(found)))
    assert found[-1].hash == HASH
    assert len({entry.hash for entry in found}) == len(found)
    assert sum(entry.num_hashes for entry in found) == TICKS * HASHES_PER_TICK
    ticks = [entry for entry in found if not entry.transactions]
    assert len(ticks) == TICKS
    first = 0
    for entry in found:
        assert entry.first_transaction == first
        first += entry.transactions
    assert first == count


@given(st.integers(0, 200))
def test_a_block_says_how_many_entries_it_has(count: int) -> None:
    header = BlockHeader(7, 6, base58.encode(HASH), base58.encode(HASH), 1, 1)
    transaction = ChainTransaction(bytes(64), 0, b"", frozenset(), False, False)
    block = BlockUpdate(7, header, (transaction,) * count, updates.created_now(), (), True)
    meta = SubscribeUpdate.FromString(updates.block_meta_update(b"", block)).block_meta
    assert meta.entries_count == len(list(block.entries()))
    message = SubscribeUpdate.FromString(updates.block_update(b"", block, (), with_entries=True))
    assert list(message.block.entries) == list(block.entries())
    none = replace(block, has_entries=False)  # of a chain that was recorded without
    message = SubscribeUpdate.FromString(updates.block_update(b"", none, (), with_entries=True))
    assert (message.block.entries_count, len(message.block.entries)) == (0, 0)


def test_an_entry_is_spliced_as_protobuf_writes_it() -> None:
    header = BlockHeader(7, 6, base58.encode(HASH), base58.encode(HASH), 1, 1)
    block = BlockUpdate(7, header, (), updates.created_now(), (), True)
    for entry in block.entries():
        data = updates.entry_update(updates.labels_prefix(["x"]), entry, block.created_at)
        message = SubscribeUpdate.FromString(data)
        expected = SubscribeUpdate(filters=["x"], entry=entry, created_at=message.created_at)
        assert data == expected.SerializeToString(deterministic=True)
