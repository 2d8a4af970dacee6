"""Sets of addresses as a subscriber sends them compressed: Yellowstone's cuckoo filters.

An address is in the set where one of two buckets has its fingerprint; now and then an address that
is not in the set looks as if it were, which the client sorts out.

Source: yellowstone-grpc-proto 14.0.1, `cuckoo/`. SipHash-2-4 has the keys `seed` and `seed` rotated
by 32 bits. It hashes an address behind its length as 8 bytes, and a fingerprint as 2.
"""

from __future__ import annotations

import struct
from typing import Final

from schemas.proto.geyser_pb2 import SIP_HASH
from schemas.proto.geyser_pb2 import CuckooFilter as CuckooMessage

SLOTS: Final = 4  # of a bucket
FINGERPRINT_BITS: Final = 16
_BUCKET_BYTES: Final = SLOTS * FINGERPRINT_BITS // 8
_ADDRESS_LENGTH: Final = struct.pack("<Q", 32)
_FINGERPRINT: Final = struct.Struct("<H").pack
_BUCKET: Final = struct.Struct(f"<{SLOTS}H").unpack_from


class BadCuckooFilter(ValueError):
    """A filter that cannot be; the text names the field."""


class CuckooFilter:
    """A set of addresses; may hold more than were put into it."""

    def __init__(self, message: CuckooMessage) -> None:
        """Read a filter; raises BadCuckooFilter."""
        from siphash24 import siphash24  # `soltape --help` needs no extra

        count, data = message.bucket_count, message.data
        if message.hash_algorithm != SIP_HASH:
            raise BadCuckooFilter(f"hash_algorithm is {message.hash_algorithm}, not SIP_HASH")
        if message.entries_per_bucket != SLOTS:
            raise BadCuckooFilter(
                f"entries_per_bucket is {message.entries_per_bucket}, not {SLOTS}"
            )
        if message.fingerprint_bits != FINGERPRINT_BITS:
            raise BadCuckooFilter(
                f"fingerprint_bits is {message.fingerprint_bits}, not {FINGERPRINT_BITS}"
            )
        if not count or count & (count - 1):
            raise BadCuckooFilter(f"bucket_count is {count}, not a power of two")
        if len(data) != count * _BUCKET_BYTES:
            raise BadCuckooFilter(
                f"data has {len(data)} bytes, {count} buckets have {count * _BUCKET_BYTES}"
            )
        seed = message.hash_seed
        rotated = (seed << 32 | seed >> 32) & (1 << 64) - 1
        self._key = struct.pack("<QQ", seed, rotated)
        self._siphash = siphash24
        self._data = data
        self._mask = count - 1

    def __contains__(self, address: bytes) -> bool:
        hashed = self._hash(_ADDRESS_LENGTH + address)
        fingerprint = (hashed >> 32 & 0xFFFF) or 1  # 0 is a free slot
        first = hashed & self._mask
        if fingerprint in _BUCKET(self._data, first * _BUCKET_BYTES):
            return True
        second = first ^ self._hash(_FINGERPRINT(fingerprint)) & self._mask
        return fingerprint in _BUCKET(self._data, second * _BUCKET_BYTES)

    def _hash(self, data: bytes) -> int:
        return int.from_bytes(self._siphash(data, key=self._key).digest(), "little")
