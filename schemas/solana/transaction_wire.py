"""Transactions as they are signed and sent: bytes to protobuf and back, legacy and version 0."""

from __future__ import annotations

from collections.abc import Sequence

from solders.message import Message, MessageV0
from solders.transaction import VersionedTransaction

from schemas.proto.solana_storage_pb2 import CompiledInstruction, Transaction
from schemas.proto.solana_storage_pb2 import Message as WireMessage


def transaction_from_wire(wire: bytes) -> Transaction:
    """Parse the bytes that were signed and sent; raises ValueError."""
    try:
        parsed = VersionedTransaction.from_bytes(wire)
    except Exception as error:  # solders raises its own kinds, with no common base
        raise ValueError(f"transaction: not a serialized transaction: {error}") from None
    message = parsed.message
    if not isinstance(message, (Message, MessageV0)):
        raise ValueError(f"transaction: a message of kind {type(message).__name__} is not read")
    header = message.header
    out = Transaction(
        signatures=[bytes(signature) for signature in parsed.signatures],
        message=WireMessage(
            account_keys=[bytes(key) for key in message.account_keys],
            recent_blockhash=bytes(message.recent_blockhash),
            versioned=isinstance(message, MessageV0),
            instructions=[
                CompiledInstruction(
                    program_id_index=instruction.program_id_index,
                    accounts=bytes(instruction.accounts),
                    data=bytes(instruction.data),
                )
                for instruction in message.instructions
            ],
        ),
    )
    out.message.header.num_required_signatures = header.num_required_signatures
    out.message.header.num_readonly_signed_accounts = header.num_readonly_signed_accounts
    out.message.header.num_readonly_unsigned_accounts = header.num_readonly_unsigned_accounts
    if isinstance(message, MessageV0):
        for lookup in message.address_table_lookups:
            out.message.address_table_lookups.add(
                account_key=bytes(lookup.account_key),
                writable_indexes=bytes(lookup.writable_indexes),
                readonly_indexes=bytes(lookup.readonly_indexes),
            )
    return out


def transaction_to_wire(transaction: Transaction) -> bytes:
    """Return the bytes that were signed and sent.

    Raises ValueError for a version other than legacy and 0.
    """
    message = transaction.message
    if message.HasField("config"):
        raise ValueError("version 1 transactions have no known wire encoding here")
    header = message.header
    out = bytearray()
    _put_short_vec(out, transaction.signatures)
    if message.versioned:
        out.append(0x80)
    out += bytes(
        (
            header.num_required_signatures,
            header.num_readonly_signed_accounts,
            header.num_readonly_unsigned_accounts,
        )
    )
    _put_short_vec(out, message.account_keys)
    out += message.recent_blockhash
    _put_short_u16(out, len(message.instructions))
    for instruction in message.instructions:
        out.append(instruction.program_id_index)
        _put_short_bytes(out, instruction.accounts)
        _put_short_bytes(out, instruction.data)
    if message.versioned:
        _put_short_u16(out, len(message.address_table_lookups))
        for lookup in message.address_table_lookups:
            out += lookup.account_key
            _put_short_bytes(out, lookup.writable_indexes)
            _put_short_bytes(out, lookup.readonly_indexes)
    return bytes(out)


# The wire's lengths: compact-u16, seven bits a byte.


def _put_short_u16(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_short_bytes(out: bytearray, data: bytes) -> None:
    _put_short_u16(out, len(data))
    out += data


def _put_short_vec(out: bytearray, items: Sequence[bytes]) -> None:
    _put_short_u16(out, len(items))
    for item in items:
        out += item
