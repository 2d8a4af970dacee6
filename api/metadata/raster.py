"""Raster images by their own bytes: kind and dimensions. What a server calls them does not count.

Sources: PNG (W3C, 5.2 and 11.2.2), GIF89a, JPEG (ITU-T T.81, B.1 and B.2.2), WebP (RFC 9649).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from api.metadata.failures import Failed

MAX_SIDE: Final = 8_192
MAX_PIXELS: Final = 4_096 * 4_096
MAX_SEGMENTS: Final = 512  # of a JPEG before its frame: each costs time of the loop
MAX_BLOCKS: Final = 16_384  # of a GIF: frames, what is said of them, and their parts
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_IHDR: Final = b"\0\0\0\x0dIHDR"
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # SOF; DHT, JPG, DAC are none
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length
_BEGIN, _END, _SCAN = 0xD8, 0xD9, 0xDA


@dataclass(frozen=True, slots=True)
class Raster:
    """What an image is."""

    media_type: str
    width: int
    height: int


def recognise(data: bytes) -> Raster:
    """Return what an image is, by its bytes; raises Failed."""
    found = _png(data) or _gif(data) or _jpeg(data) or _webp(data)
    if found is None or not found.width or not found.height:
        raise Failed("not_an_image", "it is no PNG, JPEG, GIF or WebP")
    if max(found.width, found.height) > MAX_SIDE or found.width * found.height > MAX_PIXELS:
        raise Failed("too_many_pixels", f"it has more than {MAX_PIXELS} pixels, or a longer side")
    return found


def _png(data: bytes) -> Raster | None:
    if not data.startswith(_PNG) or data[8:16] != _IHDR or len(data) < 24:
        return None
    return Raster("image/png", _big(data, 16, 4), _big(data, 20, 4))


def _gif(data: bytes) -> Raster | None:
    """Read a GIF with all its frames: a reader may widen the screen to hold them."""
    if data[:6] not in (b"GIF87a", b"GIF89a") or len(data) < 13:
        return None
    width, height = _little(data, 6, 2), _little(data, 8, 2)
    at = 13 + _color_table(data[10])
    blocks = 0
    while blocks < MAX_BLOCKS:
        match data[at : at + 1]:
            case b"\x21":  # an extension
                at += 2
            case b"\x2c" if at + 10 <= len(data):
                left, top, wide, high = (_little(data, at + n, 2) for n in (1, 3, 5, 7))
                width, height = max(width, left + wide), max(height, top + high)
                at += 11 + _color_table(data[at + 9])
            case b"\x3b":
                return Raster("image/gif", width, height)
            case _:
                return None
        blocks += 1
        while at < len(data) and data[at] and blocks < MAX_BLOCKS:  # parts behind their lengths
            at += 1 + data[at]
            blocks += 1
        at += 1
    return None


def _color_table(flags: int) -> int:
    """Return the bytes of the color table that flags announce."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _jpeg(data: bytes) -> Raster | None:
    if data[:3] != b"\xff\xd8\xff":
        return None
    at = 2
    for _ in range(MAX_SEGMENTS):
        if at + 4 > len(data) or data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # filled up
            at += 1
        elif marker in _ALONE:
            at += 2
        elif marker in _FRAMES:
            if at + 9 > len(data):
                return None
            return Raster("image/jpeg", _big(data, at + 7, 2), _big(data, at + 5, 2))
        elif marker < min(_FRAMES) or marker in (_BEGIN, _END, _SCAN):
            return None
        else:
            at += 2 + max(2, _big(data, at + 2, 2))
    return None


def _webp(data: bytes) -> Raster | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return None
    match data[12:16]:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
        case b"VP8L" if data[20] == 0x2F:
            bits = _little(data, 21, 4)
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            width, height = _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
        case _:
            return None
    return Raster("image/webp", width, height)


def _big(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big")


def _little(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")
