"""Account filters as a node reads and matches them, and the bytes of what they let through."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.chain.account_filters import AccountLimits, InvalidFilter
from infra.chain.filters import Filters
from infra.chain.source import AccountWrite
from infra.chain.updates import Written, account_update, created_now, labels_prefix
from infra.chain.write_versions import write_version
from schemas.proto.geyser_pb2 import (
    SubscribeRequest,
    SubscribeRequestFilterAccounts,
    SubscribeUpdate,
)
from schemas.solana import base58
from schemas.solana.addresses import STAKE_PROGRAM, SYSTEM_PROGRAM, TOKEN_PROGRAM

A, B = b"\1" * 32, b"\2" * 32
TOKEN_ACCOUNT = A + B + bytes(44) + b"\1" + bytes(56)
STAKE = AccountWrite(A, STAKE_PROGRAM, 5, b"\2\0\0\0" + A + bytes(164), 7)
TOKEN = AccountWrite(B, TOKEN_PROGRAM, 9, TOKEN_ACCOUNT, 8)
CLOSED = AccountWrite(B, SYSTEM_PROGRAM, 0, b"", 9)

Fill = Callable[[SubscribeRequestFilterAccounts], Any]


def request(fill: Fill) -> SubscribeRequest:
    asked = SubscribeRequest()
    asked.accounts["x"].SetInParent()
    fill(asked.accounts["x"])
    return asked


def lets(fill: Fill, write: AccountWrite, *, has_signature: bool = True) -> bool:
    return bool(Filters(request(fill)).accounts.matching(write, has_signature=has_signature))


def owned_by(owner: bytes) -> Fill:
    return lambda item: item.owner.append(base58.encode(owner))


def at(address: bytes) -> Fill:
    return lambda item: item.account.append(base58.encode(address))


def where(**fields: Any) -> Fill:
    def fill(item: SubscribeRequestFilterAccounts) -> None:
        condition = item.filters.add()
        for name, value in fields.items():
            target, _, last = name.rpartition("__")
            setattr(getattr(condition, target) if target else condition, last, value)

    return fill


def both(*fills: Fill) -> Fill:
    return lambda item: [fill(item) for fill in fills]


@pytest.mark.parametrize(
    ("fill", "write", "expected"),
    [
        (lambda item: None, STAKE, True),
        (at(A), STAKE, True),
        (at(A), TOKEN, False),
        (both(at(A), at(B)), TOKEN, True),
        (owned_by(STAKE_PROGRAM), STAKE, True),
        (owned_by(STAKE_PROGRAM), TOKEN, False),
        (owned_by(STAKE_PROGRAM), CLOSED, False),
        (both(owned_by(SYSTEM_PROGRAM), where(lamports__eq=0)), CLOSED, True),
        (both(at(A), owned_by(TOKEN_PROGRAM)), STAKE, False),
        (where(datasize=165), TOKEN, True),
        (where(datasize=165), STAKE, False),
        (where(memcmp__offset=4, memcmp__bytes=A), STAKE, True),
        (where(memcmp__offset=4, memcmp__base58=base58.encode(A)), STAKE, True),
        (where(memcmp__offset=4, memcmp__base64=b64encode(A).decode()), STAKE, True),
        (where(memcmp__offset=5, memcmp__bytes=A), STAKE, False),
        (where(memcmp__offset=180, memcmp__bytes=bytes(32)), STAKE, False),  # ends behind it
        (where(memcmp__offset=0, memcmp__bytes=b"\2"), CLOSED, False),
        (where(token_account_state=True), TOKEN, True),
        (where(token_account_state=True), STAKE, False),
        (where(lamports__eq=5), STAKE, True),
        (where(lamports__ne=5), STAKE, False),
        (where(lamports__lt=9), TOKEN, False),
        (where(lamports__gt=5), TOKEN, True),
        (both(where(datasize=200), where(lamports__gt=5)), STAKE, False),
    ],
)
def test_conditions(fill, write, expected):
    assert lets(fill, write) is expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (TOKEN_ACCOUNT + b"\2\7\0\0\0", True),
        (TOKEN_ACCOUNT + b"\1\7\0\0\0", False),  # a mint
        (TOKEN_ACCOUNT + b"\2" + bytes(189), False),  # as long as a multisig
        (bytes(165), False),  # not initialized
        (bytes(82), False),
    ],
)
def test_token_accounts_are_those_of_both_programs(data, expected):
    write = AccountWrite(A, TOKEN_PROGRAM, 1, data, 1)
    assert lets(where(token_account_state=True), write) is expected


def test_the_banks_own_writes_have_no_signature():
    def by_transaction(item: SubscribeRequestFilterAccounts) -> None:
        item.nonempty_txn_signature = True

    def by_bank(item: SubscribeRequestFilterAccounts) -> None:
        item.nonempty_txn_signature = False

    assert lets(by_transaction, STAKE)
    assert not lets(by_transaction, STAKE, has_signature=False)
    assert lets(by_bank, STAKE, has_signature=False)
    assert not lets(by_bank, STAKE)


def test_an_account_comes_once_with_all_labels():
    asked = SubscribeRequest()
    asked.accounts["c"].account.append(base58.encode(A))
    asked.accounts["b"].owner.append(base58.encode(STAKE_PROGRAM))
    asked.accounts["a"].filters.add().datasize = 200
    asked.accounts["d"].owner.append(base58.encode(TOKEN_PROGRAM))
    filters = Filters(asked)
    assert filters.accounts.matching(STAKE, has_signature=True) == ("a", "b", "c")
    assert filters.account_prefix(STAKE, has_signature=True) == labels_prefix("abc")


@pytest.mark.parametrize(
    ("fill", "text"),
    [
        (where(memcmp__offset=1), "data for memcmp should be defined"),
        (where(memcmp__base58="0"), "invalid base58"),
        (where(memcmp__base64="!"), "invalid base64"),
        (where(memcmp__bytes=bytes(129)), "data too large"),
        (where(memcmp__base58="1" * 176), "data too large"),
        (where(token_account_state=False), "token_account_state only allowed to be true"),
        (lambda item: item.filters.add().lamports.SetInParent(), "cmp for lamports"),
        (both(where(datasize=1), where(datasize=1)), "datasize used more than once"),
        (both(*[where(lamports__gt=1)] * 5), "Too many filters provided; max 4"),
    ],
)
def test_what_cannot_be_is_refused(fill, text):
    with pytest.raises(InvalidFilter, match="failed to create filter: ") as refused:
        Filters(request(fill))
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (
            AccountLimits(max_filters=1),
            "Max amount of filters/data_slices reached, only 1 allowed",
        ),
        (AccountLimits(max_accounts=1), "Max amount of Pubkeys reached, only 1 allowed"),
        (AccountLimits(max_owners=1), "Max amount of Pubkeys reached, only 1 allowed"),
        (
            AccountLimits(refused_owners=frozenset({SYSTEM_PROGRAM})),
            "Pubkey 11111111111111111111111111111111 in filters is not allowed",
        ),
    ],
)
def test_a_node_refuses_what_is_over_its_limits(limits, text):
    asked = request(both(at(A), at(B), owned_by(STAKE_PROGRAM), owned_by(SYSTEM_PROGRAM)))
    asked.accounts["y"].SetInParent()
    Filters(asked)  # without limits
    with pytest.raises(InvalidFilter) as refused:
        Filters(asked, limits)
    assert str(refused.value) == f"failed to create filter: {text}"
    del asked.accounts["y"]
    del asked.accounts["x"].account[1:]
    del asked.accounts["x"].owner[1:]
    Filters(asked, limits)


@given(
    offsets=st.lists(st.integers(0, 40), max_size=6).map(sorted),
    data=st.binary(max_size=60),
)
def test_slices_are_joined_without_those_that_end_behind_the_data(offsets, data):
    asked = SubscribeRequest()
    pairs = list(zip(offsets[::2], offsets[1::2], strict=False))
    for start, end in pairs:
        asked.accounts_data_slice.add(offset=start, length=end - start)
    expected = b"".join(data[start:end] for start, end in pairs if end <= len(data))
    assert Filters(asked).data_slices.of(data) == (expected if pairs else data)


@given(
    lamports=st.integers(0, 2**64 - 1),
    data=st.binary(max_size=400),
    version=st.integers(0, 2**64 - 1),
    executable=st.booleans(),
    signature=st.none() | st.binary(min_size=64, max_size=64),
    slot=st.integers(1, 2**40),
)
def test_updates_have_protobufs_bytes(lamports, data, version, executable, signature, slot):
    write = AccountWrite(A, B, lamports, data, 1, executable)
    created_at = created_now()
    sent = account_update(
        labels_prefix(["x", "y"]), slot, Written(write, signature), data, version, created_at
    )
    expected = SubscribeUpdate(filters=["x", "y"])
    expected.account.slot = slot
    info = expected.account.account
    info.pubkey, info.lamports, info.owner, info.data = A, lamports, B, data
    info.executable, info.rent_epoch, info.write_version = executable, 2**64 - 1, version
    if signature is not None:
        info.txn_signature = signature
    expected.created_at.ParseFromString(created_at)
    assert sent == expected.SerializeToString(deterministic=True)


@given(st.integers(0, 2**40), st.integers(2, 8))
def test_a_nodes_write_versions_ascend(version, nodes):
    for node in range(nodes):
        here = write_version(version, node, nodes)
        assert 0 < here < write_version(version + 1, node, nodes)


def test_two_nodes_write_versions_cannot_be_compared():
    ahead = [write_version(v, 0, 2) > write_version(v, 1, 2) for v in range(0, 20_000, 10)]
    assert 0.3 < sum(ahead) / len(ahead) < 0.7
    assert write_version(5, 0, 1) == 5
