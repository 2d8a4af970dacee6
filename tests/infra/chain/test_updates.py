"""Spliced bytes must be what protobuf itself would have written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infra.chain import updates
from infra.chain.source import BlockHeader, ChainTransaction, Reward
from infra.chain.updates import BlockUpdate, SlotUpdate, TransactionUpdate
from schemas.proto.geyser_pb2 import (
    SLOT_DEAD,
    SubscribeUpdate,
    SubscribeUpdateDeshred,
    SubscribeUpdateTransactionInfo,
)
from schemas.solana import base58
from schemas.solana.rpc_json import reward_to_json

SLOT = 527_251_336
LABELS = ["a", "ünï", "b" * 200]


def _parsed(data: bytes) -> SubscribeUpdate:
    message = SubscribeUpdate.FromString(data)
    assert message.HasField("created_at")
    assert abs(message.created_at.ToDatetime().timestamp()) > 0
    return message


def _expected(data: bytes, labels: list[str]) -> SubscribeUpdate:
    message = SubscribeUpdate(filters=labels)
    message.created_at.CopyFrom(_parsed(data).created_at)
    return message


def test_transactions(transactions: list[ChainTransaction]) -> None:
    for transaction in transactions[:200]:
        update = TransactionUpdate(SLOT, transaction, updates.created_now())
        data = updates.transaction_update(updates.labels_prefix(LABELS), update)
        expected = _expected(data, LABELS)
        expected.transaction.slot = SLOT
        expected.transaction.transaction.CopyFrom(
            SubscribeUpdateTransactionInfo.FromString(transaction.info)
        )
        assert data == expected.SerializeToString(deterministic=True)


def test_a_cut_transaction_cannot_be_parsed(transactions: list[ChainTransaction]) -> None:
    created_at = updates.created_now()
    update = TransactionUpdate(SLOT, transactions[0], created_at, cut_bytes=len(created_at) + 3)
    with pytest.raises(Exception, match="Error parsing message"):
        SubscribeUpdate.FromString(updates.transaction_update(b"", update))


def test_transaction_statuses_have_the_error(transactions: list[ChainTransaction]) -> None:
    failed = next(transaction for transaction in transactions if transaction.failed)
    for transaction in (failed, transactions[0]):
        update = TransactionUpdate(SLOT, transaction, updates.created_now())
        info = SubscribeUpdateTransactionInfo.FromString(transaction.info)
        status = _parsed(updates.transaction_status_update(b"", update)).transaction_status
        assert (status.slot, status.signature) == (SLOT, transaction.signature)
        assert (status.index, status.is_vote) == (transaction.index, transaction.is_vote)
        assert status.HasField("err") == transaction.failed
        assert status.err == info.meta.err


def test_slots() -> None:
    update = SlotUpdate(SLOT, SLOT - 3, SLOT_DEAD, updates.created_now(), "gone")
    data = updates.slot_update(updates.labels_prefix(LABELS), update)
    expected = _expected(data, LABELS)
    expected.slot.slot, expected.slot.parent = SLOT, SLOT - 3
    expected.slot.status, expected.slot.dead_error = SLOT_DEAD, "gone"
    assert data == expected.SerializeToString(deterministic=True)


def test_blocks(transactions: list[ChainTransaction]) -> None:
    header = BlockHeader(SLOT, SLOT - 2, "hash", "parent", 1_795_233_522, 100_000_021)
    update = BlockUpdate(SLOT, header, tuple(transactions[:5]), updates.created_now())
    update = replace(update, rewards=(Reward(b"\1" * 32, 7, 107, "Staking", 5),))
    meta = _parsed(updates.block_meta_update(b"", update)).block_meta
    block = _parsed(updates.block_update(b"", update, transactions[1:3])).block
    for part in (meta, block):
        assert (part.slot, part.parent_slot) == (SLOT, SLOT - 2)
        assert (part.blockhash, part.parent_blockhash) == ("hash", "parent")
        assert part.block_time.timestamp == 1_795_233_522
        assert part.block_height.block_height == 100_000_021
        assert part.executed_transaction_count == 5
        (reward,) = part.rewards.rewards
        assert reward_to_json(reward) == {
            "pubkey": base58.encode(b"\1" * 32),
            "lamports": 7,
            "postBalance": 107,
            "rewardType": "Staking",
            "commission": 5,
        }
    assert [item.SerializeToString() for item in block.transactions] == [
        transaction.info for transaction in transactions[1:3]
    ]


def test_keepalive() -> None:
    assert _parsed(updates.ping_update()).WhichOneof("update_oneof") == "ping"
    assert _parsed(updates.pong_update(7)).pong.id == 7
    deshred = SubscribeUpdateDeshred.FromString
    assert deshred(updates.deshred_ping_update()).WhichOneof("update_oneof") == "ping"
    assert deshred(updates.deshred_pong_update(7)).pong.id == 7


def test_deshred_transactions_have_no_outcome(transactions: list[ChainTransaction]) -> None:
    update = TransactionUpdate(SLOT, transactions[0], updates.created_now())
    data = updates.deshred_transaction_update(updates.labels_prefix(["x"]), update)
    message = SubscribeUpdateDeshred.FromString(data)
    info = SubscribeUpdateTransactionInfo.FromString(transactions[0].info)
    assert list(message.filters) == ["x"]
    assert message.HasField("created_at")
    assert message.deshred_transaction.slot == SLOT
    deshred = message.deshred_transaction.transaction
    assert deshred.transaction == info.transaction
    assert deshred.signature == info.signature
    assert list(deshred.loaded_writable_addresses) == list(info.meta.loaded_writable_addresses)
