"""What the server tells its subscribers, and its bytes on the wire.

A `SubscribeUpdate` is spliced from parts that are serialized once, because building one
protobuf message a transaction and subscriber costs more than all the rest of sending it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from infra.chain.source import BlockHeader, ChainTransaction
from schemas.proto.geyser_pb2 import (
    SlotStatus,
    SubscribeUpdateBlock,
    SubscribeUpdateBlockMeta,
    SubscribeUpdateDeshredTransaction,
    SubscribeUpdatePong,
    SubscribeUpdateSlot,
    SubscribeUpdateTransactionInfo,
    SubscribeUpdateTransactionStatus,
)


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


Update = TransactionUpdate | SlotUpdate | BlockUpdate


# Tags are `number << 3 | 2`: every field spliced here is length-delimited.
_FILTERS: Final = b"\x0a"
_SLOT: Final = b"\x1a"
_TRANSACTION: Final = b"\x22"
_BLOCK: Final = b"\x2a"
_PING: Final = b"\x32"
_BLOCK_META: Final = b"\x3a"
_PONG: Final = b"\x4a"
_TRANSACTION_STATUS: Final = b"\x52"
_CREATED_AT: Final = b"\x5a"
_INFO: Final = b"\x0a"  # in SubscribeUpdateTransaction
_INFO_SLOT: Final = b"\x10"
_BLOCK_TRANSACTION: Final = b"\x32"  # in SubscribeUpdateBlock

_DESHRED_TRANSACTION: Final = b"\x12"
_DESHRED_PING: Final = b"\x1a"
_DESHRED_PONG: Final = b"\x22"
_DESHRED_CREATED_AT: Final = b"\x2a"
_DESHRED_SLOT: Final = b"\x32"


def varint(value: int) -> bytes:
    """Return protobuf's base-128 form of an unsigned number."""
    if value < len(_VARINTS):
        return _VARINTS[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_VARINTS: tuple[bytes, ...] = ()
_VARINTS = tuple(varint(value) for value in range(1 << 14))


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
    )
    meta.rewards.SetInParent()
    meta.block_time.timestamp = header.block_time
    meta.block_height.block_height = header.block_height
    return _spliced(prefix, _BLOCK_META, meta.SerializeToString(), _CREATED_AT, update.created_at)


def block_update(
    prefix: bytes, update: BlockUpdate, transactions: Iterable[ChainTransaction]
) -> bytes:
    """Return the bytes of a SubscribeUpdate with a block and those of its transactions."""
    header = update.header
    block = SubscribeUpdateBlock(
        slot=header.slot,
        blockhash=header.blockhash,
        parent_slot=header.parent_slot,
        parent_blockhash=header.parent_blockhash,
        executed_transaction_count=len(update.transactions),
    )
    block.rewards.SetInParent()
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
