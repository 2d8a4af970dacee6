"""An account of the chain as Redis keeps it: a header, then its data as a zstd frame.

    <slot: u64><lamports: u64><program: u16><flags: u8><size: u32><frame>

`program` is the number of its owner in `schemas.protocols.programs`, 65,535 for an owner without
one: of a wallet's own account, whose data is not kept then. A closing has no data.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct, error
from threading import local
from typing import Final, NamedTuple

import zstandard

from schemas.protocols import programs

_HEADER: Final = Struct("<QQHBI")
_HEADER_SIZE: Final = _HEADER.size
_CLOSED: Final = 1
MAX_SIZE: Final = 10 << 20
"""The largest account there can be, in bytes."""
MOST_OF_WALLET: Final = 2_000
"""Accounts of a wallet that are kept and read: one with more token accounts is not followed."""
TOO_MANY_ACCOUNTS: Final = "more than 2,000 token accounts, or 1 MiB of them from RPC"
"""Why coverage of a wallet is withdrawn that will not get fewer soon."""


class _Zstd(local):
    """Of each thread its own: one that two use at once corrupts data, or ends the process."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=3, write_content_size=True)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd: Final = _Zstd()


class BadAccount(ValueError):
    """Stored bytes are no account; the text says what is wrong."""


class StoredAccount(NamedTuple):
    """The last version of an account that is known."""

    slot: int
    lamports: int
    program: bytes  # its owner, 32 bytes, or `programs.OTHER`; that it had, where it is closed
    size: int  # of the data
    frame: bytes  # the data, compressed; empty where there is none
    closed: bool = False

    def data(self) -> bytes:
        """Return the account's data; raises BadAccount."""
        return decompress(self.frame, self.size)


def mint_account_of(mint: bytes) -> bytes:
    """Return what the coverage of a mint's account is kept under: 32 bytes.

    The mint's own address is that of the coverage of the wallet with that address: tokens are sent
    to mints by mistake.
    """
    return sha256(b"mint account " + mint).digest()


def largest_of(mint: bytes) -> bytes:
    """Return what the coverage of a mint's largest token accounts is kept under: 32 bytes."""
    return sha256(b"largest accounts of " + mint).digest()


def followed_of(address: bytes) -> bytes:
    """Return what the coverage of an account that was asked for by address is kept under: 32 bytes.

    The address itself may have coverage of its own, as a wallet.
    """
    return sha256(b"followed account " + address).digest()


def compress(data: bytes) -> bytes:
    """Return the frame of an account's data."""
    return _zstd.compressor.compress(data) if data else b""


def decompress(frame: bytes, size: int) -> bytes:
    """Return an account's data of `size` bytes from its frame; raises BadAccount."""
    if not frame:
        data = b""
    elif size > MAX_SIZE:
        raise BadAccount(f"size is {size}, {MAX_SIZE} is the most an account has")
    else:
        try:
            data = _zstd.decompressor.decompress(frame, max_output_size=size)
        except zstandard.ZstdError as reason:
            raise BadAccount(f"frame of {len(frame)} bytes: {reason}") from None
    if len(data) != size:
        raise BadAccount(f"data has {len(data)} bytes, its header says {size}")
    return data


def pack(account: StoredAccount) -> bytes:
    """Return the stored form; raises KeyError for a program without a number, but for OTHER."""
    program = account.program
    number = programs.OTHER_NUMBER if program == programs.OTHER else programs.NUMBERS[program]
    return (
        _HEADER.pack(
            account.slot,
            account.lamports,
            number,
            _CLOSED if account.closed else 0,
            account.size,
        )
        + account.frame
    )


def unpack(stored: bytes) -> StoredAccount:
    """Return what was stored; raises BadAccount. The frame is not opened."""
    try:
        slot, lamports, number, flags, size = _HEADER.unpack_from(stored)
    except error:
        raise BadAccount(f"{len(stored)} bytes, {_HEADER.size} are a header") from None
    program = programs.OTHER if number == programs.OTHER_NUMBER else programs.ADDRESSES.get(number)
    if program is None:
        raise BadAccount(f"program {number} has no address")
    return StoredAccount(slot, lamports, program, size, stored[_HEADER_SIZE:], flags & _CLOSED != 0)
