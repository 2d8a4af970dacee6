"""A coin's picture, made of its address: a symmetric pattern as PNG."""

from __future__ import annotations

import zlib
from hashlib import sha256
from struct import Struct
from typing import Final

CELLS: Final = 8
CELL_PIXELS: Final = 12
SIDE: Final = CELLS * CELL_PIXELS
_BACK: Final = bytes((24, 24, 32))
_HEAD: Final = Struct(">IIBBBBB").pack
_LENGTH: Final = Struct(">I").pack


def coin_image(mint: bytes) -> bytes:
    """Return a PNG of SIDE by SIDE pixels, the same for the same mint."""
    digest = sha256(b"image" + mint).digest()
    color = bytes(96 + part % 160 for part in digest[:3])
    rows = bytearray()
    for row in range(CELLS):
        half = [digest[3 + row] >> bit & 1 for bit in range(CELLS // 2)]
        line = b"".join(
            (color if cell else _BACK) * CELL_PIXELS for cell in (*half, *reversed(half))
        )
        rows += (b"\0" + line) * CELL_PIXELS  # 0: the line is not filtered
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", _HEAD(SIDE, SIDE, 8, 2, 0, 0, 0))  # 8 bits each of red, green, blue
        + _chunk(b"IDAT", zlib.compress(bytes(rows)))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return _LENGTH(len(data)) + kind + data + _LENGTH(zlib.crc32(kind + data))
