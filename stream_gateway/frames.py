"""WebSocket frames as a server sends them (RFC 6455): whole, final, unmasked, uncompressed.

Such a frame is the same for every client, so it is built once and written to many.
"""

from __future__ import annotations

from struct import pack
from typing import Final

_TEXT: Final = 0x81  # final, opcode 1
_CLOSE: Final = 0x88
_PING: Final = 0x89
_PONG: Final = 0x8A
_ONE_BYTE: Final = 126  # lengths below are their own byte
_TWO_BYTES: Final = 1 << 16
_CONTROL_BYTES: Final = 125
_REASON_BYTES: Final = _CONTROL_BYTES - 2  # after the code


def text_frame(payload: bytes) -> bytes:
    """Return a text frame; `payload` is UTF-8."""
    size = len(payload)
    if size < _ONE_BYTE:
        return bytes((_TEXT, size)) + payload
    if size < _TWO_BYTES:
        return pack("!BBH", _TEXT, 126, size) + payload
    return pack("!BBQ", _TEXT, 127, size) + payload


def close_frame(code: int, reason: str = "") -> bytes:
    """Return a close frame; a reason of more than 123 bytes is cut."""
    text = reason.encode()[:_REASON_BYTES].decode(errors="ignore").encode()
    return pack("!BBH", _CLOSE, 2 + len(text), code) + text


def ping_frame() -> bytes:
    """Return a ping without payload."""
    return bytes((_PING, 0))


def pong_frame(payload: bytes) -> bytes:
    """Return the answer to a ping, whose payload it repeats: at most 125 bytes."""
    return bytes((_PONG, len(payload))) + payload
