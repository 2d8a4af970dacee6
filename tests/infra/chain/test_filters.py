from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infra.chain.account_filters import InvalidFilter
from infra.chain.filters import DeshredFilters, Filters, token_owners
from infra.chain.source import ChainTransaction
from infra.chain.updates import SlotUpdate, labels_prefix
from schemas.proto.geyser_pb2 import (
    ALL,
    BALANCE_CHANGED,
    CONFIRMED,
    PROCESSED,
    SLOT_CONFIRMED,
    SLOT_CREATED_BANK,
    SLOT_FINALIZED,
    SLOT_PROCESSED,
    SubscribeDeshredRequest,
    SubscribeRequest,
    SubscribeUpdateTransactionInfo,
)
from schemas.solana import base58

A, B, C, D = (bytes([number]) * 32 for number in (1, 2, 3, 4))


def transaction(*accounts: bytes, failed: bool = False, vote: bool = False) -> ChainTransaction:
    return ChainTransaction(bytes(64), 0, b"", frozenset(accounts), vote, failed)


def filters(**fields: Any) -> Filters:
    request = SubscribeRequest()
    for name, value in fields.items():
        target = request.transactions["x"]
        if isinstance(value, list):
            getattr(target, name).extend(base58.encode(key) for key in value)
        else:
            setattr(target, name, value)
    request.transactions["x"].SetInParent()
    return Filters(request)


@pytest.mark.parametrize(
    ("conditions", "given", "expected"),
    [
        ({}, transaction(A), True),
        ({"vote": False}, transaction(A, vote=True), False),
        ({"vote": True}, transaction(A, vote=True), True),
        ({"failed": False}, transaction(A, failed=True), False),
        ({"failed": True}, transaction(A), False),
        ({"account_include": [A, B]}, transaction(B, C), True),
        ({"account_include": [A, B]}, transaction(C), False),
        ({"account_exclude": [A, B]}, transaction(B, C), False),
        ({"account_exclude": [A, B]}, transaction(C), True),
        ({"account_required": [A, B]}, transaction(A, B, C), True),
        ({"account_required": [A, B]}, transaction(A, C), False),
        ({"account_include": [A, D], "account_required": [B]}, transaction(A, B), True),
        ({"account_include": [A, D], "account_required": [B]}, transaction(A, C), False),
        ({"account_include": [A], "account_exclude": [B]}, transaction(A, B), False),
        ({"signature": base58.encode(bytes(64))}, transaction(A), True),
        ({"signature": base58.encode(b"\1" * 64)}, transaction(A), False),
    ],
)
def test_all_conditions_must_hold(
    conditions: dict[str, Any], given: ChainTransaction, expected: bool
) -> None:
    matched = filters(**conditions).transaction_prefix(given)
    assert matched == (labels_prefix(["x"]) if expected else None)


def test_a_transaction_carries_every_label_that_asks_for_it() -> None:
    request = SubscribeRequest()
    request.transactions["b"].account_include.append(base58.encode(A))
    request.transactions["a"].failed = False
    request.transactions["no"].vote = True
    request.transactions_status["status"].SetInParent()
    read = Filters(request)
    assert read.transaction_prefix(transaction(A)) == labels_prefix(["a", "b"])
    assert read.transaction_prefix(transaction(B)) == labels_prefix(["a"])
    assert read.transaction_prefix(transaction(B, failed=True)) is None
    assert read.transaction_status_prefix(transaction(B)) == labels_prefix(["status"])


@pytest.mark.parametrize(
    ("by_commitment", "interslot", "commitment", "expected"),
    [
        (False, False, PROCESSED, [SLOT_PROCESSED, SLOT_CONFIRMED, SLOT_FINALIZED]),
        (True, False, PROCESSED, [SLOT_PROCESSED]),
        (True, True, CONFIRMED, [SLOT_CONFIRMED]),
        (
            False,
            True,
            CONFIRMED,
            [SLOT_PROCESSED, SLOT_CONFIRMED, SLOT_FINALIZED, SLOT_CREATED_BANK],
        ),
    ],
)
def test_slot_statuses(
    by_commitment: bool, interslot: bool, commitment: Any, expected: list[Any]
) -> None:
    request = SubscribeRequest(commitment=commitment)
    request.slots["s"].filter_by_commitment = by_commitment
    request.slots["s"].interslot_updates = interslot
    read = Filters(request)
    statuses = [SLOT_PROCESSED, SLOT_CONFIRMED, SLOT_FINALIZED, SLOT_CREATED_BANK]
    seen = [status for status in statuses if read.slot_prefix(SlotUpdate(2, 1, status, b""))]
    assert seen == expected


def test_token_owners_are_matched_where_asked_for() -> None:
    info = SubscribeUpdateTransactionInfo()
    for balances, amounts in (
        (info.meta.pre_token_balances, ("5", "7")),
        (info.meta.post_token_balances, ("5", "8", "1")),
    ):
        for index, (amount, owner) in enumerate(zip(amounts, (A, B, C), strict=False)):
            balance = balances.add(account_index=index, owner=base58.encode(owner))
            balance.ui_token_amount.amount = amount
    given = ChainTransaction.from_info(info)
    assert token_owners(given, ALL) == {A, B, C}
    assert token_owners(given, BALANCE_CHANGED) == {B, C}  # C's account was created
    for owner, plain, every, changed in ((A, False, True, False), (C, False, True, True)):
        asked = {"account_include": [owner]}
        assert bool(filters(**asked).transaction_prefix(given)) == plain
        assert bool(filters(**asked, token_accounts=ALL).transaction_prefix(given)) == every
        expanded = filters(**asked, token_accounts=BALANCE_CHANGED)
        assert bool(expanded.transaction_prefix(given)) == changed


def _bad_key(request: SubscribeRequest) -> None:
    request.transactions["x"].account_include.append("not base58!")


def _short_key(request: SubscribeRequest) -> None:
    request.blocks["x"].account_include.append("2222")


def _bad_signature(request: SubscribeRequest) -> None:
    request.transactions["x"].signature = base58.encode(A)


def _bad_account(request: SubscribeRequest) -> None:
    request.accounts["x"].owner.append("0")


def _empty_account_condition(request: SubscribeRequest) -> None:
    request.accounts["x"].filters.add()


def _long_label(request: SubscribeRequest) -> None:
    request.slots["x" * 129].SetInParent()


def _many_labels(request: SubscribeRequest) -> None:
    for number in range(40):
        request.slots[f"{number:0128d}"].SetInParent()


def _cuckoo(request: SubscribeRequest) -> None:
    request.transactions["x"].cuckoo_account_include.data = b"1"


def _overlapping_slices(request: SubscribeRequest) -> None:
    request.accounts_data_slice.add(offset=0, length=10)
    request.accounts_data_slice.add(offset=9, length=1)


def _unknown_commitment(request: SubscribeRequest) -> None:
    request.commitment = 9  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_bad_key, "transactions 'x' account_include: 'not base58!': ' ' is not"),
        (_short_key, "blocks 'x' account_include: '2222' is 3 bytes, 32"),
        (_bad_signature, "is 32 bytes, 64"),
        (_bad_account, "accounts 'x' owner: '0'"),
        (_empty_account_condition, "a filter without condition"),
        (_long_label, "slots: name of 129 bytes"),
        (_many_labels, "slots: names of 5120 bytes"),
        (_cuckoo, "transactions 'x' cuckoo_account_include: entries_per_bucket is 0, not 4"),
        (_overlapping_slices, "sorted and not overlap"),
        (_unknown_commitment, "unknown commitment 9"),
    ],
)
def test_what_cannot_be_is_refused(spoil: Callable[[SubscribeRequest], None], message: str) -> None:
    request = SubscribeRequest()
    spoil(request)
    with pytest.raises(InvalidFilter, match=message):
        Filters(request)


def test_deshred_filters() -> None:
    request = SubscribeDeshredRequest()
    request.deshred_transactions["x"].account_required.append(base58.encode(A))
    request.deshred_transactions["x"].vote = False
    request.slots["s"].filter_by_commitment = True
    read = DeshredFilters(request)
    assert read.transaction_prefix(transaction(A, B)) == labels_prefix(["x"])
    assert read.transaction_prefix(transaction(B)) is None
    assert read.transaction_prefix(transaction(A, vote=True)) is None
    assert read.slot_prefix(SlotUpdate(2, 1, SLOT_PROCESSED, b"")) == labels_prefix(["s"])
    assert read.slot_prefix(SlotUpdate(2, 1, SLOT_CONFIRMED, b"")) is None
