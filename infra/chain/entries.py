"""Entries of a simulated block: its transactions in the order in which its leader hashed them.

A slot has 64 ticks; an entry with transactions comes before the tick in which they were hashed,
and the last tick's hash is the blockhash, as on the chain. Between these the hashes stand for a
proof of history that nobody computes.

Source: solana-entry `Entry`; agave's `DEFAULT_TICKS_PER_SLOT` and mainnet's hashes a tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Final, NamedTuple

TICKS: Final = 64
HASHES_PER_TICK: Final = 62_500


class Entry(NamedTuple):
    """A step of a slot's proof of history, with the transactions that are mixed in."""

    number: int  # in the block, from 0
    num_hashes: int  # since the entry before
    hash: bytes  # 32 bytes
    transactions: int
    first_transaction: int  # index in the block of the first of them, or of the next there is


def entries(blockhash: bytes, transactions: int) -> Iterator[Entry]:
    """Yield the entries of a block that has so many transactions."""
    index = done = 0
    for tick in range(TICKS):
        hashes = HASHES_PER_TICK
        if due := transactions * (tick + 1) // TICKS - done:
            yield Entry(index, 1, _hash(blockhash, index), due, done)
            index, done, hashes = index + 1, done + due, hashes - 1
        is_last = tick == TICKS - 1
        yield Entry(index, hashes, blockhash if is_last else _hash(blockhash, index), 0, done)
        index += 1


def _hash(blockhash: bytes, index: int) -> bytes:
    return sha256(blockhash + index.to_bytes(8, "little")).digest()
