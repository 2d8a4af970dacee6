"""A transaction that is sent to the chain: from wire bytes to values, and what it would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from solders.message import MessageV0, to_bytes_versioned
from solders.transaction import VersionedTransaction

MAX_BYTES: Final = 1_232
"""A transaction fits into a packet."""
MAX_INSTRUCTIONS: Final = 64
"""The runtime's own bound (SIMD-0160)."""


class Unreadable(ValueError):
    """The bytes are no transaction that this chain takes; the text says why."""


class Refused(Exception):
    """A transaction cannot land; `error` is a `TransactionError` as JSON-RPC writes it."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class Submission:
    """A transaction as its signers made it."""

    signatures: tuple[bytes, ...]  # 64 bytes each; the first one names the transaction
    message: bytes  # what every signer signs
    is_signed: bool  # every signature is that of its key over the message
    is_versioned: bool
    header: tuple[int, int, int]  # required signatures; of them read-only; read-only others
    keys: tuple[bytes, ...]
    instructions: tuple[tuple[int, bytes, bytes], ...]  # program's index, accounts' indexes, data
    recent_blockhash: bytes

    @property
    def writable(self) -> frozenset[bytes]:
        """The accounts that the message lets its instructions write."""
        signed, readonly_signed, readonly = self.header
        last = len(self.keys) - readonly
        return frozenset((*self.keys[: signed - readonly_signed], *self.keys[signed:last]))


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a transaction would do now."""

    error: Any  # a `TransactionError` as JSON-RPC writes it; None: it would succeed
    logs: tuple[str, ...]
    units_consumed: int


@runtime_checkable
class Accepts(Protocol):
    """A source that takes transactions from outside."""

    def submit(self, submission: Submission) -> None:
        """Land a transaction in one of the next blocks; raises Refused, Unreadable."""
        ...

    def simulate(self, submission: Submission) -> Simulated:
        """Return what a transaction would do now; raises Unreadable."""
        ...


def parse(wire: bytes) -> Submission:
    """Read a transaction; raises Unreadable."""
    if len(wire) > MAX_BYTES:
        raise Unreadable(f"a transaction has at most {MAX_BYTES} bytes, got {len(wire)}")
    try:
        transaction = VersionedTransaction.from_bytes(wire)
        message = transaction.message
        is_signed = all(transaction.verify_with_results())
        transaction.sanitize()
    except Exception as error:  # solders raises its own kinds, with no common base
        raise Unreadable(f"failed to deserialize a transaction: {type(error).__name__}") from None
    if isinstance(message, MessageV0) and message.address_table_lookups:
        raise Unreadable("address lookup tables are not taken by this chain")
    if len(message.instructions) > MAX_INSTRUCTIONS:
        raise Unreadable(f"a transaction has at most {MAX_INSTRUCTIONS} instructions")
    header = message.header
    return Submission(
        tuple(bytes(each) for each in transaction.signatures),
        bytes(to_bytes_versioned(message)),
        is_signed,
        isinstance(message, MessageV0),
        (
            header.num_required_signatures,
            header.num_readonly_signed_accounts,
            header.num_readonly_unsigned_accounts,
        ),
        tuple(bytes(each) for each in message.account_keys),
        tuple(
            (each.program_id_index, bytes(each.accounts), bytes(each.data))
            for each in message.instructions
        ),
        bytes(message.recent_blockhash),
    )
