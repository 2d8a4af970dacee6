"""Transactional ids: one current epoch each, which a restart knows."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from infra.kafka.broker import transactions as module
from infra.kafka.broker.batch import Batch
from infra.kafka.broker.transactions import Refused, Transactions


def batch(producer_id: int, epoch: int, *, transactional: bool = True) -> Batch:
    return Batch(b"", 0, 0, producer_id, epoch, 0, transactional)


def code(transactions: Transactions, sent: Batch, partition: int = 0) -> ErrorCode | None:
    try:
        transactions.check(sent, "tape", partition)
    except Refused as refused:
        return refused.code
    return None


def test_the_state_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "transactions.json"
    ids = count(100)
    before = Transactions(path)
    assert before.begin_epoch("lane", ids.__next__) == (100, 0)
    assert before.begin_epoch("lane", ids.__next__) == (100, 1)
    assert before.begin_epoch("other", ids.__next__) == (101, 0)
    before.add_partitions("lane", 100, 1, [("tape", 0), ("tape", 2)])
    after = Transactions(path)
    assert code(after, batch(100, 0)) is ErrorCode.invalid_producer_epoch
    assert code(after, batch(100, 1)) is None
    assert code(after, batch(100, 1), partition=1) is ErrorCode.invalid_txn_state
    after.commit("lane", 100, 1)
    assert code(Transactions(path), batch(100, 1)) is ErrorCode.invalid_txn_state
    assert Transactions(path).begin_epoch("lane", ids.__next__) == (100, 2)


def test_after_the_last_epoch_comes_another_producer_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_EPOCH", 1)
    ids = count(7)
    transactions = Transactions(tmp_path / "transactions.json")
    epochs = [transactions.begin_epoch("lane", ids.__next__) for _ in range(3)]
    assert epochs == [(7, 0), (7, 1), (8, 0)]
    assert code(transactions, batch(7, 1)) is ErrorCode.invalid_producer_id_mapping


def test_producers_without_a_transactional_id_are_left_alone(tmp_path: Path) -> None:
    transactions = Transactions(tmp_path / "transactions.json")
    assert code(transactions, batch(5, 0, transactional=False)) is None
    assert code(transactions, batch(-1, -1, transactional=False)) is None
