"""What every slot left of the accounts it wrote, put into a file as it happens: the judge's notes.

A file is records of one size, in the order of the chain's events, forks among them:

    <slot: u64><address: 32><owner: 32><lamports: u64><size: u32><digest: 16><first data: 72>

`digest` is BLAKE2b of the data. What was there before the first event has the slot 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import IO, Final, NamedTuple

from infra.chain.source import AccountWrite, SlotCompleted, SlotEvent, SlotStarted, SlotTransactions

GENESIS: Final = 0
FIRST_DATA: Final = 72  # of a token account: mint, owner, amount
_RECORD: Final = Struct(f"<Q32s32sQI16s{FIRST_DATA}s")


class Noted(NamedTuple):
    """An account as a slot left it; closed where it has no lamports."""

    slot: int
    address: bytes
    owner: bytes
    lamports: int
    size: int
    digest: bytes
    first_data: bytes  # zeros where there is less


def digest(data: bytes) -> bytes:
    """Return what is noted of data."""
    return hashlib.blake2b(data, digest_size=16).digest()


class AccountTruth:
    """Writes the file."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self._writes: dict[int, dict[bytes, AccountWrite]] = {}  # of slots that are not complete

    def genesis(self, accounts: Iterable[AccountWrite]) -> Iterator[AccountWrite]:
        """Note what there is before the first event, and hand it on."""
        for account in accounts:
            self._note(GENESIS, account)
            yield account
        self._sink.flush()

    async def events(self, source: AsyncIterator[SlotEvent]) -> AsyncIterator[SlotEvent]:
        """Note what the events say, and hand them on."""
        async for event in source:
            match event:
                case SlotStarted(slot):
                    self._writes[slot] = {}
                case SlotTransactions(slot, transactions):
                    for each in transactions:
                        self._writes[slot] |= {write.address: write for write in each.writes}
                case SlotCompleted(header, writes):
                    last = self._writes.pop(header.slot)
                    for write in (last | {write.address: write for write in writes}).values():
                        self._note(header.slot, write)
                    self._sink.flush()
            yield event

    def _note(self, slot: int, write: AccountWrite) -> None:
        record = _RECORD.pack(
            slot,
            write.address,
            write.owner,
            write.lamports,
            len(write.data),
            digest(write.data),
            write.data[:FIRST_DATA],
        )
        self._sink.write(record)


def read(file: Path) -> Iterator[Noted]:
    """Yield the records of a file; one at the end that is cut short is left out."""
    with file.open("rb") as source:
        while len(record := source.read(_RECORD.size)) == _RECORD.size:
            yield Noted(*_RECORD.unpack(record))
