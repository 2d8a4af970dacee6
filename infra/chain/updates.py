"""What the server sends its subscribers, and its bytes on the wire.

A `SubscribeUpdate` is spliced from parts that are serialized once, because building one
protobuf message a transaction and subscriber costs more than all the rest of sending it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from infra.chain.entries import TICKS, entries
from infra.chain.fields import varint
from infra.chain.source import AccountWrite, BlockHeader, ChainTransaction, Reward
from schemas.proto import solana_storage_pb2
from schemas.proto.geyser_pb2 import (
    SlotStatus,
    SubscribeUpdateBlock,
    SubscribeUpdateBlockMeta,
    SubscribeUpdateDeshredTransaction,
    SubscribeUpdateEntry,
    SubscribeUpdatePong,
    SubscribeUpdateSlot,
    SubscribeUpdateTransactionInfo,
    SubscribeUpdateTransactionStatus,
)
from schemas.solana import base58
from schemas.solana.addresses import text


@dataclass(frozen=True, slots=True)
class TransactionUpdate:
    """A transaction was executed.

    `cut_bytes` is a delivery fault: so many bytes are missing at the end of the update.
    """

    slot: int
    transaction: ChainTransaction
    created_at: bytes
    cut_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SlotUpdate:
    """A slot reached a status.

    `silent` is a delivery fault: the status is not sent, though what it releases to
    subscribers of that commitment is.
    """

    slot: int
    parent_slot: int
    status: SlotStatus
    created_at: bytes
    dead_error: str | None = None
    silent: bool = False


@dataclass(frozen=True, slots=True)
class BlockUpdate:
    """A block is complete: what it says beside its transactions, and these."""

    slot: int
    header: BlockHeader
    transactions: tuple[ChainTransaction, ...]
    created_at: bytes
    rewards: tuple[Reward, ...] = ()
    has_entries: bool = False

    def entries(self) -> Iterator[SubscribeUpdateEntry]:
        """Yield the entries; none where the source has none."""
        if self.has_entries:
            for entry in entries(base58.decode(self.header.blockhash), len(self.transactions)):
                yield SubscribeUpdateEntry(
                    slot=self.slot,
                    index=entry.number,
                    num_hashes=entry.num_hashes,
                    hash=entry.hash,
                    executed_transaction_count=entry.transactions,
                    starting_transaction_index=entry.first_transaction,
                )

    def entries_count(self) -> int:
        """Return how many entries there are."""
        if not self.has_entries:
            return 0
        return TICKS + min(len(self.transactions), TICKS)


WRITE_BYTES: Final = 250  # what a kept write takes beside its data


class Written(NamedTuple):
    """An account write, and the signature of the transaction that made it; none: the bank."""

    write: AccountWrite
    signature: bytes | None


@dataclass(frozen=True, slots=True)
class AccountsUpdate:
    """Accounts were written, in this order; some time before the transactions that did it."""

    slot: int
    written: tuple[Written, ...]
    created_at: bytes


Update = TransactionUpdate | SlotUpdate | BlockUpdate | AccountsUpdate


# Tags are `number << 3 | 2`: every field spliced here is length-delimited.
_FILTERS: Final = b"\x0a"
_ACCOUNT: Final = b"\x12"
_SLOT: Final = b"\x1a"
_TRANSACTION: Final = b"\x22"
_BLOCK: Final = b"\x2a"
_PING: Final = b"\x32"
_BLOCK_META: Final = b"\x3a"
_ENTRY: Final = b"\x42"
_PONG: Final = b"\x4a"
_TRANSACTION_STATUS: Final = b"\x52"
_CREATED_AT: Final = b"\x5a"
_INFO: Final = b"\x0a"  # in SubscribeUpdateTransaction
_INFO_SLOT: Final = b"\x10"
_BLOCK_TRANSACTION: Final = b"\x32"  # in SubscribeUpdateBlock

_RENT_EPOCH: Final = b"\x28" + b"\xff" * 9 + b"\x01"  # exempt: the greatest 64-bit number

_DESHRED_TRANSACTION: Final = b"\x12"
_DESHRED_PING: Final = b"\x1a"
_DESHRED_PONG: Final = b"\x22"
_DESHRED_CREATED_AT: Final = b"\x2a"
_DESHRED_SLOT: Final = b"\x32"


def created_now() -> bytes:
    """Return the serialized google.protobuf.Timestamp of this moment."""
    seconds, nanos = divmod(time.time_ns(), 1_000_000_000)
    return b"\x08" + varint(seconds) + b"\x10" + varint(nanos)


def labels_prefix(labels: Iterable[str]) -> bytes:
    """Return the `filters` field: the labels of the filters that let an update through."""
    encoded = [label.encode() for label in labels]
    return b"".join(_FILTERS + varint(len(label)) + label for label in encoded)


def transaction_update(prefix: bytes, update: TransactionUpdate) -> bytes:
    """Return the bytes of a SubscribeUpdate with a transaction."""
    info = update.transaction.info
    info_size = varint(len(info))
    slot = varint(update.slot)
    created_at = update.created_at
    out = b"".join(
        (
            prefix,
            _TRANSACTION,
            varint(2 + len(info_size) + len(info) + len(slot)),
            _INFO,
            info_size,
            info,
            _INFO_SLOT,
            slot,
            _CREATED_AT,
            varint(len(created_at)),
            created_at,
        )
    )
    return out[: -update.cut_bytes] if update.cut_bytes else out


def account_update(
    prefix: bytes, slot: int, written: Written, data: bytes, write_version: int, created_at: bytes
) -> bytes:
    """Return the bytes of a SubscribeUpdate with an account; `data` is what of it was asked."""
    write, signature = written
    info = b"".join(
        (
            b"\x0a\x20",
            write.address,
            b"\x10" + varint(write.lamports) if write.lamports else b"",
            b"\x1a\x20",
            write.owner,
            b"\x20\x01" if write.executable else b"",
            _RENT_EPOCH,
            b"\x32" + varint(len(data)) + data if data else b"",
            b"\x38" + varint(write_version) if write_version else b"",
            b"\x42\x40" + signature if signature else b"",
        )
    )
    body = _INFO + varint(len(info)) + info + _INFO_SLOT + varint(slot)
    return _spliced(prefix, _ACCOUNT, body, _CREATED_AT, created_at)


def transaction_status_update(prefix: bytes, update: TransactionUpdate) -> bytes:
    """Return the bytes of a SubscribeUpdate with a transaction's status alone."""
    transaction = update.transaction
    status = SubscribeUpdateTransactionStatus(
        slot=update.slot,
        signature=transaction.signature,
        is_vote=transaction.is_vote,
        index=transaction.index,
    )
    if transaction.failed:
        info = SubscribeUpdateTransactionInfo.FromString(transaction.info)
        status.err.CopyFrom(info.meta.err)
    return _spliced(
        prefix, _TRANSACTION_STATUS, status.SerializeToString(), _CREATED_AT, update.created_at
    )


def slot_update(prefix: bytes, update: SlotUpdate) -> bytes:
    """Return the bytes of a SubscribeUpdate with a slot's status."""
    return _spliced(prefix, _SLOT, _slot_message(update), _CREATED_AT, update.created_at)


def block_meta_update(prefix: bytes, update: BlockUpdate) -> bytes:
    """Return the bytes of a SubscribeUpdate with a block's own fields."""
    header = update.header
    meta = SubscribeUpdateBlockMeta(
        slot=header.slot,
        blockhash=header.blockhash,
        parent_slot=header.parent_slot,
        parent_blockhash=header.parent_blockhash,
        executed_transaction_count=len(update.transactions),
        entries_count=update.entries_count(),
    )
    meta.rewards.SetInParent()
    meta.rewards.rewards.extend(map(reward_message, update.rewards))
    meta.block_time.timestamp = header.block_time
    meta.block_height.block_height = header.block_height
    return _spliced(prefix, _BLOCK_META, meta.SerializeToString(), _CREATED_AT, update.created_at)


def entry_update(prefix: bytes, entry: SubscribeUpdateEntry, created_at: bytes) -> bytes:
    """Return the bytes of a SubscribeUpdate with an entry."""
    return _spliced(prefix, _ENTRY, entry.SerializeToString(), _CREATED_AT, created_at)


def reward_message(reward: Reward) -> solana_storage_pb2.Reward:
    """Return a reward as blocks carry it."""
    return solana_storage_pb2.Reward(
        pubkey=text(reward.address),
        lamports=reward.lamports,
        post_balance=reward.post_lamports,
        reward_type=reward.kind,
        commission=str(reward.commission),
    )


def block_update(
    prefix: bytes,
    update: BlockUpdate,
    transactions: Iterable[ChainTransaction],
    *,
    with_entries: bool = False,
) -> bytes:
    """Return the bytes of a SubscribeUpdate with a block and those of its transactions."""
    header = update.header
    block = SubscribeUpdateBlock(
        slot=header.slot,
        blockhash=header.blockhash,
        parent_slot=header.parent_slot,
        parent_blockhash=header.parent_blockhash,
        executed_transaction_count=len(update.transactions),
        entries_count=update.entries_count(),
        entries=update.entries() if with_entries else (),
    )
    block.rewards.SetInParent()
    block.rewards.rewards.extend(map(reward_message, update.rewards))
    block.block_time.timestamp = header.block_time
    block.block_height.block_height = header.block_height
    parts = [block.SerializeToString()]
    for transaction in transactions:
        parts += (_BLOCK_TRANSACTION, varint(len(transaction.info)), transaction.info)
    return _spliced(prefix, _BLOCK, b"".join(parts), _CREATED_AT, update.created_at)


def ping_update() -> bytes:
    """Return the bytes of the server's keepalive."""
    return _spliced(b"", _PING, b"", _CREATED_AT, created_now())


def pong_update(ping_id: int) -> bytes:
    """Return the bytes of the answer to a client's ping."""
    pong = SubscribeUpdatePong(id=ping_id).SerializeToString()
    return _spliced(b"", _PONG, pong, _CREATED_AT, created_now())


def deshred_transaction_update(prefix: bytes, update: TransactionUpdate) -> bytes:
    """Return the bytes of a SubscribeUpdateDeshred: a transaction before its execution."""
    info = SubscribeUpdateTransactionInfo.FromString(update.transaction.info)
    message = SubscribeUpdateDeshredTransaction(slot=update.slot)
    deshred = message.transaction
    deshred.signature = info.signature
    deshred.is_vote = info.is_vote
    deshred.transaction.CopyFrom(info.transaction)
    deshred.loaded_writable_addresses.extend(info.meta.loaded_writable_addresses)
    deshred.loaded_readonly_addresses.extend(info.meta.loaded_readonly_addresses)
    body = message.SerializeToString()
    return _spliced(prefix, _DESHRED_TRANSACTION, body, _DESHRED_CREATED_AT, update.created_at)


def deshred_slot_update(prefix: bytes, update: SlotUpdate) -> bytes:
    """Return the bytes of a SubscribeUpdateDeshred with a slot's status."""
    body = _slot_message(update)
    return _spliced(prefix, _DESHRED_SLOT, body, _DESHRED_CREATED_AT, update.created_at)


def deshred_ping_update() -> bytes:
    """Return the bytes of the server's keepalive on a deshred stream."""
    return _spliced(b"", _DESHRED_PING, b"", _DESHRED_CREATED_AT, created_now())


def deshred_pong_update(ping_id: int) -> bytes:
    """Return the bytes of the answer to a client's ping on a deshred stream."""
    pong = SubscribeUpdatePong(id=ping_id).SerializeToString()
    return _spliced(b"", _DESHRED_PONG, pong, _DESHRED_CREATED_AT, created_now())


def _slot_message(update: SlotUpdate) -> bytes:
    return SubscribeUpdateSlot(
        slot=update.slot,
        parent=update.parent_slot,
        status=update.status,
        dead_error=update.dead_error,
    ).SerializeToString()


def _spliced(prefix: bytes, tag: bytes, body: bytes, time_tag: bytes, created_at: bytes) -> bytes:
    return b"".join(
        (prefix, tag, varint(len(body)), body, time_tag, varint(len(created_at)), created_at)
    )
