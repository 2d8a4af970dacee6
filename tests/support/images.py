"""Small pictures for tests."""

from __future__ import annotations

import zlib
from struct import pack


def png(width: int, height: int, color: bytes = b"\x33\x66\x99") -> bytes:
    """Return a PNG of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + color * width) * height
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
