"""What a subscriber asked for: filters read from its request, matched against updates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from infra.chain.account_filters import (
    AccountFilters,
    AccountLimits,
    DataSlices,
    InvalidFilter,
    parse_cuckoo,
    parse_key,
    parse_keys,
)
from infra.chain.cuckoo import CuckooFilter
from infra.chain.source import AccountWrite, ChainTransaction
from infra.chain.updates import SlotUpdate, labels_prefix
from schemas.proto.geyser_pb2 import (
    BALANCE_CHANGED,
    SLOT_CONFIRMED,
    SLOT_FINALIZED,
    SLOT_PROCESSED,
    CommitmentLevel,
    SubscribeDeshredRequest,
    SubscribeRequest,
    SubscribeRequestFilterBlocks,
    SubscribeRequestFilterDeshredTransactions,
    SubscribeRequestFilterSlots,
    SubscribeRequestFilterTransactions,
    SubscribeUpdateTransactionInfo,
    TokenAccountExpansionControlFlag,
)
from schemas.solana import base58

# As a Yellowstone node is configured by default.
MAX_LABEL_BYTES: Final = 128
MAX_LABELS_BYTES: Final = 4096

_UNLIMITED: Final = AccountLimits()
_COMMITMENT_OF_STATUS: Final = {
    SLOT_PROCESSED: CommitmentLevel.PROCESSED,
    SLOT_CONFIRMED: CommitmentLevel.CONFIRMED,
    SLOT_FINALIZED: CommitmentLevel.FINALIZED,
}


@dataclass(frozen=True, slots=True)
class Include:
    """Accounts of which a transaction must name one: listed, compressed, or both."""

    listed: frozenset[bytes] = frozenset()
    compressed: CuckooFilter | None = None

    def __bool__(self) -> bool:
        return bool(self.listed) or self.compressed is not None

    def has_any(self, accounts: frozenset[bytes]) -> bool:
        """Return whether one of some accounts is included."""
        if not self.listed.isdisjoint(accounts):
            return True
        compressed = self.compressed
        return compressed is not None and any(address in compressed for address in accounts)


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    """All given conditions must hold; an empty set of keys is no condition."""

    label: str
    vote: bool | None
    failed: bool | None
    signature: bytes | None
    include: Include
    exclude: frozenset[bytes]
    required: frozenset[bytes]
    expansion: TokenAccountExpansionControlFlag | None

    def matches(self, transaction: ChainTransaction) -> bool:
        """Return whether the transaction is asked for."""
        if self.vote is not None and self.vote != transaction.is_vote:
            return False
        if self.failed is not None and self.failed != transaction.failed:
            return False
        if self.signature is not None and self.signature != transaction.signature:
            return False
        accounts = transaction.accounts
        if self.expansion is not None:
            accounts = accounts | token_owners(transaction, self.expansion)
        if self.include and not self.include.has_any(accounts):
            return False
        if self.exclude and not self.exclude.isdisjoint(accounts):
            return False
        return self.required <= accounts


@dataclass(frozen=True, slots=True)
class SlotFilter:
    """Which statuses of slots are asked for."""

    label: str
    filter_by_commitment: bool
    interslot_updates: bool

    def matches(self, update: SlotUpdate, commitment: CommitmentLevel) -> bool:
        """Return whether the status is asked for on a stream of this commitment."""
        level = _COMMITMENT_OF_STATUS.get(update.status)
        if level is None and not self.interslot_updates:
            return False
        return not self.filter_by_commitment or level == commitment


@dataclass(frozen=True, slots=True)
class BlockFilter:
    """Whole blocks, with the transactions that touch the keys (all where there are none)."""

    label: str
    include: Include
    include_transactions: bool
    include_entries: bool

    def chosen(self, transactions: Iterable[ChainTransaction]) -> list[ChainTransaction]:
        """Return the transactions that go with the block."""
        if not self.include_transactions:
            return []
        return [
            transaction
            for transaction in transactions
            if not self.include or self.include.has_any(transaction.accounts)
        ]


class Filters:
    """Everything one request asks for."""

    def __init__(self, request: SubscribeRequest, limits: AccountLimits = _UNLIMITED) -> None:
        """Read a request; raises InvalidFilter."""
        if request.commitment not in CommitmentLevel.values():
            raise InvalidFilter(f"failed to create filter: unknown commitment {request.commitment}")
        self.commitment = request.commitment
        for name in ("accounts", "slots", "transactions", "transactions_status"):
            _check_labels(name, getattr(request, name))
        for name in ("blocks", "blocks_meta", "entry"):
            _check_labels(name, getattr(request, name))
        self.transactions = _transaction_filters("transactions", request.transactions)
        self.transactions_status = _transaction_filters(
            "transactions_status", request.transactions_status
        )
        self.slots = _slot_filters(request.slots)
        self.blocks = [_block_filter(label, item) for label, item in sorted(request.blocks.items())]
        self.blocks_meta = labels_prefix(sorted(request.blocks_meta))
        self.entries = labels_prefix(sorted(request.entry))
        self.accounts = AccountFilters(request.accounts, limits)
        self.data_slices = DataSlices(request.accounts_data_slice)
        self._prefixes = _Prefixes()

    def account_prefix(self, write: AccountWrite, *, has_signature: bool) -> bytes | None:
        """Return the labels that ask for the account, encoded, or None."""
        return self._prefixes.of(self.accounts.matching(write, has_signature=has_signature))

    def transaction_prefix(self, transaction: ChainTransaction) -> bytes | None:
        """Return the labels that ask for the transaction, encoded, or None."""
        return self._prefixes.matching(self.transactions, transaction)

    def transaction_status_prefix(self, transaction: ChainTransaction) -> bytes | None:
        """Return the labels that ask for the transaction's status, encoded, or None."""
        return self._prefixes.matching(self.transactions_status, transaction)

    def slot_prefix(self, update: SlotUpdate) -> bytes | None:
        """Return the labels that ask for the slot's status, encoded, or None."""
        return self._prefixes.of(
            tuple(item.label for item in self.slots if item.matches(update, self.commitment))
        )


class DeshredFilters:
    """Everything one request for transactions before their execution asks for."""

    def __init__(self, request: SubscribeDeshredRequest) -> None:
        """Read a request; raises InvalidFilter."""
        _check_labels("deshred_transactions", request.deshred_transactions)
        _check_labels("slots", request.slots)
        self.transactions = [
            _deshred_filter(label, item) for label, item in request.deshred_transactions.items()
        ]
        self.slots = _slot_filters(request.slots)
        self._prefixes = _Prefixes()

    def transaction_prefix(self, transaction: ChainTransaction) -> bytes | None:
        """Return the labels that ask for the transaction, encoded, or None."""
        return self._prefixes.matching(self.transactions, transaction)

    def slot_prefix(self, update: SlotUpdate) -> bytes | None:
        """Return the labels that ask for the slot's status, encoded, or None."""
        labels = (
            item.label for item in self.slots if item.matches(update, CommitmentLevel.PROCESSED)
        )
        return self._prefixes.of(tuple(labels))


class _Prefixes:
    """Encoded label sets: there are few, and they are asked for with every transaction."""

    def __init__(self) -> None:
        self._encoded: dict[tuple[str, ...], bytes] = {}

    def matching(
        self, filters: list[TransactionFilter], transaction: ChainTransaction
    ) -> bytes | None:
        if not filters:
            return None
        return self.of(tuple([item.label for item in filters if item.matches(transaction)]))

    def of(self, labels: tuple[str, ...]) -> bytes | None:
        if not labels:
            return None
        encoded = self._encoded.get(labels)
        if encoded is None:
            encoded = self._encoded[labels] = labels_prefix(labels)
        return encoded


def token_owners(
    transaction: ChainTransaction, expansion: TokenAccountExpansionControlFlag
) -> frozenset[bytes]:
    """Return the owners of the token accounts in a transaction, or of those that changed."""
    meta = SubscribeUpdateTransactionInfo.FromString(transaction.info).meta
    before = {item.account_index: item for item in meta.pre_token_balances}
    after = {item.account_index: item for item in meta.post_token_balances}
    owners: set[str] = set()
    for index in before.keys() | after.keys():
        pair = [balances[index] for balances in (before, after) if index in balances]
        unchanged = len(pair) == 2 and (
            pair[0].ui_token_amount.amount == pair[1].ui_token_amount.amount
        )
        if not (expansion == BALANCE_CHANGED and unchanged):
            owners.update(item.owner for item in pair if item.owner)
    return frozenset(base58.decode(owner) for owner in owners)


def _check_labels(name: str, filters: Iterable[str]) -> None:
    sizes = [len(label.encode()) for label in filters]
    if any(size > MAX_LABEL_BYTES for size in sizes):
        raise InvalidFilter(
            f"failed to create filter: {name}: name of {max(sizes)} bytes, "
            f"at most {MAX_LABEL_BYTES}"
        )
    if sum(sizes) > MAX_LABELS_BYTES:
        raise InvalidFilter(
            f"failed to create filter: {name}: names of {sum(sizes)} bytes, "
            f"at most {MAX_LABELS_BYTES}"
        )


def _transaction_filters(
    name: str, filters: Mapping[str, SubscribeRequestFilterTransactions]
) -> list[TransactionFilter]:
    out = []
    for label, item in sorted(filters.items()):
        where = f"{name} {label!r}"
        if (
            item.HasField("token_accounts")
            and item.token_accounts not in TokenAccountExpansionControlFlag.values()
        ):
            raise InvalidFilter(f"failed to create filter: {where}: unknown token_accounts flag")
        out.append(
            TransactionFilter(
                label=label,
                vote=item.vote if item.HasField("vote") else None,
                failed=item.failed if item.HasField("failed") else None,
                signature=parse_key(f"{where} signature", item.signature, 64)
                if item.HasField("signature")
                else None,
                include=_include(where, item),
                exclude=parse_keys(f"{where} account_exclude", item.account_exclude),
                required=parse_keys(f"{where} account_required", item.account_required),
                expansion=item.token_accounts if item.HasField("token_accounts") else None,
            )
        )
    return out


def _include(
    where: str, item: SubscribeRequestFilterTransactions | SubscribeRequestFilterBlocks
) -> Include:
    compressed = None
    if item.HasField("cuckoo_account_include"):
        compressed = parse_cuckoo(f"{where} cuckoo_account_include", item.cuckoo_account_include)
    return Include(parse_keys(f"{where} account_include", item.account_include), compressed)


def _deshred_filter(
    label: str, item: SubscribeRequestFilterDeshredTransactions
) -> TransactionFilter:
    where = f"deshred_transactions {label!r}"
    return TransactionFilter(
        label=label,
        vote=item.vote if item.HasField("vote") else None,
        failed=None,
        signature=None,
        include=Include(parse_keys(f"{where} account_include", item.account_include)),
        exclude=parse_keys(f"{where} account_exclude", item.account_exclude),
        required=parse_keys(f"{where} account_required", item.account_required),
        expansion=None,
    )


def _slot_filters(filters: Mapping[str, SubscribeRequestFilterSlots]) -> list[SlotFilter]:
    return [
        SlotFilter(label, item.filter_by_commitment, item.interslot_updates)
        for label, item in sorted(filters.items())
    ]


def _block_filter(label: str, item: SubscribeRequestFilterBlocks) -> BlockFilter:
    where = f"blocks {label!r}"
    return BlockFilter(
        label=label,
        include=_include(where, item),
        include_transactions=item.include_transactions
        if item.HasField("include_transactions")
        else True,
        include_entries=item.include_entries,
    )
