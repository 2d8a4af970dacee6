"""Readers of little-endian and borsh data.

`Reader` walks sequentially and knows when the data has ended: programs append fields to
their events, so a decoder reads what is there and stops quietly. The plain functions read
at a known offset. All raise `struct.error` past the end.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from schemas.solana.addresses import text

_U16: Final = Struct("<H").unpack_from
_I16: Final = Struct("<h").unpack_from
_U32: Final = Struct("<I").unpack_from
_U64: Final = Struct("<Q").unpack_from
_I64: Final = Struct("<q").unpack_from
_F64: Final = Struct("<d").unpack_from
_U128: Final = Struct("<QQ").unpack_from
_I128: Final = Struct("<Qq").unpack_from
_KEY: Final = Struct("32s").unpack_from


def u16(data: bytes, offset: int) -> int:
    """Read an unsigned 16-bit integer."""
    value: int = _U16(data, offset)[0]
    return value


def i16(data: bytes, offset: int) -> int:
    """Read a signed 16-bit integer."""
    value: int = _I16(data, offset)[0]
    return value


def u32(data: bytes, offset: int) -> int:
    """Read an unsigned 32-bit integer."""
    value: int = _U32(data, offset)[0]
    return value


def u64(data: bytes, offset: int) -> int:
    """Read an unsigned 64-bit integer."""
    value: int = _U64(data, offset)[0]
    return value


def i64(data: bytes, offset: int) -> int:
    """Read a signed 64-bit integer."""
    value: int = _I64(data, offset)[0]
    return value


def f64(data: bytes, offset: int) -> float:
    """Read a 64-bit float."""
    value: float = _F64(data, offset)[0]
    return value


def u128(data: bytes, offset: int) -> int:
    """Read an unsigned 128-bit integer."""
    low, high = _U128(data, offset)
    return int(low | high << 64)


def i128(data: bytes, offset: int) -> int:
    """Read a signed 128-bit integer."""
    low, high = _I128(data, offset)
    return int(low | high << 64)


def raw_pubkey(data: bytes, offset: int) -> bytes:
    """Read a 32-byte key."""
    value: bytes = _KEY(data, offset)[0]
    return value


def pubkey(data: bytes, offset: int) -> str:
    """Read a 32-byte key as base58 text."""
    return text(_KEY(data, offset)[0])


class Reader:
    """A cursor over borsh data."""

    __slots__ = ("data", "offset")

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self.data = data
        self.offset = offset

    def has(self, size: int) -> bool:
        """Return True if `size` more bytes are there."""
        return self.offset + size <= len(self.data)

    def skip(self, size: int) -> None:
        """Step over `size` bytes."""
        if not self.has(size):
            raise error(f"{size} bytes at {self.offset} of {len(self.data)}")
        self.offset += size

    def u8(self) -> int:
        """Read an unsigned byte."""
        self.skip(1)
        return self.data[self.offset - 1]

    def flag(self) -> bool:
        """Read a bool."""
        return self.u8() != 0

    def u16(self) -> int:
        """Read an unsigned 16-bit integer."""
        self.offset += 2
        return u16(self.data, self.offset - 2)

    def u32(self) -> int:
        """Read an unsigned 32-bit integer."""
        self.offset += 4
        return u32(self.data, self.offset - 4)

    def u64(self) -> int:
        """Read an unsigned 64-bit integer."""
        self.offset += 8
        return u64(self.data, self.offset - 8)

    def i64(self) -> int:
        """Read a signed 64-bit integer."""
        self.offset += 8
        return i64(self.data, self.offset - 8)

    def u128(self) -> int:
        """Read an unsigned 128-bit integer."""
        self.offset += 16
        return u128(self.data, self.offset - 16)

    def i128(self) -> int:
        """Read a signed 128-bit integer."""
        self.offset += 16
        return i128(self.data, self.offset - 16)

    def pubkey(self) -> str:
        """Read a 32-byte key as base58 text."""
        self.offset += 32
        return pubkey(self.data, self.offset - 32)

    def raw_pubkey(self) -> bytes:
        """Read a 32-byte key."""
        self.offset += 32
        return raw_pubkey(self.data, self.offset - 32)

    def string(self) -> str:
        """Read a length-prefixed text; bytes that are no UTF-8 become U+FFFD."""
        size = self.u32()
        self.skip(size)
        return self.data[self.offset - size : self.offset].decode("utf-8", "replace")
