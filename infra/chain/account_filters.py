"""Account filters as a Yellowstone node reads, limits and matches them.

Sources: yellowstone-grpc-proto `plugin/filter/filter.rs` and `limits.rs`, whose error texts these
are. A cuckoo filter lets through what it has beside the accounts that are listed.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from infra.chain.cuckoo import BadCuckooFilter, CuckooFilter
from infra.chain.source import AccountWrite
from schemas.proto.geyser_pb2 import CuckooFilter as CuckooMessage
from schemas.proto.geyser_pb2 import (
    SubscribeRequestAccountsDataSlice,
    SubscribeRequestFilterAccounts,
    SubscribeRequestFilterAccountsFilter,
    SubscribeRequestFilterAccountsFilterLamports,
    SubscribeRequestFilterAccountsFilterMemcmp,
)
from schemas.solana import base58

MAX_CONDITIONS: Final = 4
MAX_DATA_BYTES: Final = 128
MAX_BASE58_CHARACTERS: Final = 175
MAX_BASE64_CHARACTERS: Final = 172
_TOKEN_ACCOUNT_BYTES: Final = 165
_MULTISIG_BYTES: Final = 355
_STATE_AT: Final = 108
_ACCOUNT_TYPE: Final = 2


class InvalidFilter(ValueError):
    """A request asks for what cannot be; the text is for the client."""


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """What a node's operator allows a subscription; 0 is no limit."""

    max_filters: int = 0
    max_accounts: int = 0  # of one filter
    max_owners: int = 0  # of one filter
    refused_owners: frozenset[bytes] = frozenset()

    def check(self, where: str, item: SubscribeRequestFilterAccounts) -> None:
        """Refuse a filter that is too large; raises InvalidFilter."""
        _most("Pubkeys", len(item.account), self.max_accounts)
        _most("Pubkeys", len(item.owner), self.max_owners)
        for text in item.owner:
            if parse_key(f"{where} owner", text) in self.refused_owners:
                raise InvalidFilter(
                    f"failed to create filter: Pubkey {text} in filters is not allowed"
                )


def _most(what: str, count: int, limit: int) -> None:
    if limit and count > limit:
        raise InvalidFilter(
            f"failed to create filter: Max amount of {what} reached, only {limit} allowed"
        )


Condition = Callable[[AccountWrite], bool]


@dataclass(frozen=True, slots=True)
class _Filter:
    label: str
    accounts: frozenset[bytes]
    compressed: CuckooFilter | None  # more accounts
    owners: frozenset[bytes]
    from_transaction: bool | None
    conditions: tuple[Condition, ...]

    def matches(self, write: AccountWrite, has_signature: bool) -> bool:
        if (
            (self.accounts or self.compressed is not None)
            and write.address not in self.accounts
            and (self.compressed is None or write.address not in self.compressed)
        ):
            return False
        if self.owners and write.owner not in self.owners:
            return False
        if self.from_transaction is not None and self.from_transaction != has_signature:
            return False
        return all(condition(write) for condition in self.conditions)


class AccountFilters:
    """All account filters of a request; an update comes once, with the labels that match."""

    def __init__(
        self, filters: Mapping[str, SubscribeRequestFilterAccounts], limits: AccountLimits
    ) -> None:
        """Read the filters; raises InvalidFilter."""
        _most("filters/data_slices", len(filters), limits.max_filters)
        self._by_account: dict[bytes, list[_Filter]] = {}
        self._by_owner: dict[bytes, list[_Filter]] = {}
        self._others: list[_Filter] = []
        for label, item in sorted(filters.items()):
            self._add(_read(label, item, limits))

    def __bool__(self) -> bool:
        return bool(self._by_account or self._by_owner or self._others)

    def matching(self, write: AccountWrite, *, has_signature: bool) -> tuple[str, ...]:
        """Return the labels of the filters that let an account through, ascending."""
        candidates = (
            *self._by_account.get(write.address, ()),
            *self._by_owner.get(write.owner, ()),
            *self._others,
        )
        if not candidates:
            return ()
        return tuple(
            sorted(item.label for item in candidates if item.matches(write, has_signature))
        )

    def _add(self, item: _Filter) -> None:
        keys, places = item.accounts, self._by_account
        if not keys or item.compressed is not None:
            keys, places = item.owners, self._by_owner
        for key in keys:
            places.setdefault(key, []).append(item)
        if not keys:
            self._others.append(item)


def _read(label: str, item: SubscribeRequestFilterAccounts, limits: AccountLimits) -> _Filter:
    where = f"accounts {label!r}"
    limits.check(where, item)
    if len(item.filters) > MAX_CONDITIONS:
        raise InvalidFilter(
            f"failed to create filter: Too many filters provided; max {MAX_CONDITIONS}"
        )
    if sum(each.HasField("datasize") for each in item.filters) > 1:
        raise InvalidFilter("failed to create filter: datasize used more than once")
    return _Filter(
        label=label,
        accounts=parse_keys(f"{where} account", item.account),
        compressed=parse_cuckoo(f"{where} cuckoo_accounts_filter", item.cuckoo_accounts_filter)
        if item.HasField("cuckoo_accounts_filter")
        else None,
        owners=parse_keys(f"{where} owner", item.owner),
        from_transaction=item.nonempty_txn_signature
        if item.HasField("nonempty_txn_signature")
        else None,
        conditions=tuple(_condition(where, each) for each in item.filters),
    )


def _condition(where: str, item: SubscribeRequestFilterAccountsFilter) -> Condition:
    match item.WhichOneof("filter"):
        case "memcmp":
            return _memcmp(item.memcmp)
        case "datasize":
            size = item.datasize
            return lambda write: len(write.data) == size
        case "token_account_state":
            if not item.token_account_state:
                raise InvalidFilter(
                    "failed to create filter: token_account_state only allowed to be true"
                )
            return lambda write: is_token_account(write.data)
        case "lamports":
            return _lamports(item.lamports)
    raise InvalidFilter(f"failed to create filter: {where}: a filter without condition")


def _memcmp(item: SubscribeRequestFilterAccountsFilterMemcmp) -> Condition:
    match item.WhichOneof("data"):
        case "bytes":
            data = item.bytes
        case "base58":
            _fits(len(item.base58), MAX_BASE58_CHARACTERS)
            try:
                data = base58.decode(item.base58)
            except ValueError:
                raise InvalidFilter("failed to create filter: invalid base58") from None
        case "base64":
            _fits(len(item.base64), MAX_BASE64_CHARACTERS)
            try:
                data = b64decode(item.base64, validate=True)
            except binascii.Error:
                raise InvalidFilter("failed to create filter: invalid base64") from None
        case _:
            raise InvalidFilter("failed to create filter: data for memcmp should be defined")
    _fits(len(data), MAX_DATA_BYTES)
    offset, end = item.offset, item.offset + len(data)
    return lambda write: len(write.data) >= end and write.data[offset:end] == data


def _fits(size: int, most: int) -> None:
    if size > most:
        raise InvalidFilter("failed to create filter: data too large")


def _lamports(item: SubscribeRequestFilterAccountsFilterLamports) -> Condition:
    match item.WhichOneof("cmp"):
        case "eq":
            return lambda write: write.lamports == item.eq
        case "ne":
            return lambda write: write.lamports != item.ne
        case "lt":
            return lambda write: write.lamports < item.lt
        case "gt":
            return lambda write: write.lamports > item.gt
    raise InvalidFilter("failed to create filter: cmp for lamports should be defined")


def is_token_account(data: bytes) -> bool:
    """Return whether data is an initialized account of either token program."""
    if len(data) == _TOKEN_ACCOUNT_BYTES:
        return data[_STATE_AT] != 0
    return (
        len(data) > _TOKEN_ACCOUNT_BYTES
        and len(data) != _MULTISIG_BYTES
        and data[_TOKEN_ACCOUNT_BYTES] == _ACCOUNT_TYPE
        and data[_STATE_AT] != 0
    )


class DataSlices:
    """Which parts of accounts' data are sent, joined; all of it where nothing is asked."""

    def __init__(self, slices: Iterable[SubscribeRequestAccountsDataSlice]) -> None:
        """Read the slices; raises InvalidFilter."""
        self._parts = [(item.offset, item.offset + item.length) for item in slices]
        for (_, end), (start, _) in pairwise(self._parts):
            if start < end:
                raise InvalidFilter(
                    "failed to create filter: accounts_data_slice must be sorted and not overlap"
                )

    def of(self, data: bytes) -> bytes:
        """Return the parts; one that ends behind the data is left out."""
        if not self._parts:
            return data
        return b"".join(data[start:end] for start, end in self._parts if end <= len(data))


def parse_cuckoo(where: str, message: CuckooMessage) -> CuckooFilter:
    """Return a set of addresses from its compressed form; raises InvalidFilter."""
    try:
        return CuckooFilter(message)
    except BadCuckooFilter as error:
        raise InvalidFilter(f"failed to create filter: {where}: {error}") from None


def parse_keys(where: str, texts: Iterable[str]) -> frozenset[bytes]:
    """Return addresses from base58; raises InvalidFilter."""
    return frozenset(parse_key(where, text) for text in texts)


def parse_key(where: str, text: str, length: int = 32) -> bytes:
    """Return `length` bytes from base58; raises InvalidFilter."""
    try:
        key = base58.decode(text)
    except ValueError as error:
        raise InvalidFilter(f"failed to create filter: {where}: {text[:100]!r}: {error}") from None
    if len(key) != length:
        raise InvalidFilter(
            f"failed to create filter: {where}: {text!r} is {len(key)} bytes, {length} are expected"
        )
    return key
