"""Compressed sets of addresses: what is in one, what one lets through, what cannot be one.

`SET` was written by the official Node client, of three addresses; that client judges more of them
in `tests/integration/chain/test_accounts.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from infra.chain.account_filters import InvalidFilter
from infra.chain.cuckoo import CuckooFilter
from infra.chain.filters import Filters
from infra.chain.source import AccountWrite, ChainTransaction
from schemas.proto.geyser_pb2 import CuckooFilter as CuckooMessage
from schemas.proto.geyser_pb2 import SubscribeRequest
from schemas.solana import base58
from schemas.solana.addresses import STAKE_PROGRAM, SYSTEM_PROGRAM

SET = CuckooMessage(
    data=bytes.fromhex("8b530000000000005ac5f0bc00000000"),
    bucket_count=2,
    entries_per_bucket=4,
    fingerprint_bits=16,
    hash_seed=0x796C6C777374_6E21,
)
EMPTY = CuckooMessage(data=bytes(8), bucket_count=1, entries_per_bucket=4, fingerprint_bits=16)


def address(number: int) -> bytes:
    return bytes([number]) * 32


def write(number: int, owner: bytes = STAKE_PROGRAM) -> AccountWrite:
    return AccountWrite(address(number), owner, 1, b"", number)


def test_what_the_official_client_put_in_is_in_it() -> None:
    found = CuckooFilter(SET)
    assert [number for number in range(256) if address(number) in found] == [1, 2, 3]


def test_another_seed_is_another_set() -> None:
    other = CuckooMessage.FromString(SET.SerializeToString())
    other.hash_seed += 1
    assert not any(address(number) in CuckooFilter(other) for number in (1, 2, 3))


def test_nothing_is_in_an_empty_set() -> None:
    assert not any(address(number) in CuckooFilter(EMPTY) for number in range(256))


def test_accounts_are_listed_or_in_the_set_and_keep_the_other_conditions() -> None:
    request = SubscribeRequest()
    asked = request.accounts["x"]
    asked.cuckoo_accounts_filter.CopyFrom(SET)
    asked.account.append(base58.encode(address(9)))
    asked.owner.append(base58.encode(STAKE_PROGRAM))
    accounts = Filters(request).accounts

    def lets(each: AccountWrite) -> bool:
        return bool(accounts.matching(each, has_signature=True))

    assert [number for number in range(12) if lets(write(number))] == [1, 2, 3, 9]
    assert not any(lets(write(number, SYSTEM_PROGRAM)) for number in range(12))


def test_an_empty_set_lets_no_account_through() -> None:
    request = SubscribeRequest()
    request.accounts["x"].cuckoo_accounts_filter.CopyFrom(EMPTY)
    assert not Filters(request).accounts.matching(write(1), has_signature=True)


def test_transactions_and_blocks_include_by_the_set() -> None:
    request = SubscribeRequest()
    request.transactions["x"].cuckoo_account_include.CopyFrom(SET)
    request.blocks["x"].cuckoo_account_include.CopyFrom(SET)
    request.blocks["x"].account_include.append(base58.encode(address(9)))
    filters = Filters(request)
    made = [
        ChainTransaction(bytes(64), 0, b"", frozenset({address(number), address(77)}), False, False)
        for number in range(12)
    ]
    asked = [at for at, each in enumerate(made) if filters.transaction_prefix(each) is not None]
    assert asked == [1, 2, 3]
    [block] = filters.blocks
    assert [made.index(each) for each in block.chosen(made)] == [1, 2, 3, 9]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"hash_algorithm": 1}, "hash_algorithm is 1, not SIP_HASH"),
        ({"entries_per_bucket": 8}, "entries_per_bucket is 8, not 4"),
        ({"fingerprint_bits": 8}, "fingerprint_bits is 8, not 16"),
        ({"bucket_count": 0}, "bucket_count is 0, not a power of two"),
        ({"bucket_count": 3}, "bucket_count is 3, not a power of two"),
        ({"data": bytes(15)}, "data has 15 bytes, 2 buckets have 16"),
        ({"bucket_count": 1 << 31}, "data has 16 bytes, 2147483648 buckets have 17179869184"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], says: str) -> None:
    request = SubscribeRequest()
    message = request.accounts["x"].cuckoo_accounts_filter
    message.CopyFrom(SET)
    for name, value in fields.items():
        setattr(message, name, value)
    with pytest.raises(InvalidFilter) as refused:
        Filters(request)
    assert str(refused.value) == (
        f"failed to create filter: accounts 'x' cuckoo_accounts_filter: {says}"
    )
