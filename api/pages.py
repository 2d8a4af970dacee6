"""Cursors: where the next page begins. Opaque to callers, checked when they come back."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import astuple, dataclass
from typing import Any, Final
from zlib import crc32

from typing_extensions import TypedDict

from api.errors import INVALID_CURSOR, Problem

_PLACE: Final = struct.Struct("<QQIQQQ")
_CHECK: Final = struct.Struct("<I")


class Page(TypedDict):
    """Whether there is more, and how to ask for it."""

    next_cursor: str | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class Place:
    """The last row of a page: the next one begins after it, towards the past."""

    time_ms: int
    slot: int
    tx_index: int
    index: int  # of an event in its transaction, or of a lot
    since_ms: int  # the list's range of time, which stays while one turns pages
    until_ms: int  # not included

    def cursor(self) -> str:
        """Return the text that a caller sends back."""
        return seal(_PLACE.pack(*astuple(self)))


def place(cursor: str) -> Place:
    """Return where a cursor points; raises Problem."""
    return Place(*unseal(cursor, _PLACE))


def seal(data: bytes) -> str:
    """Return bytes as a cursor."""
    return urlsafe_b64encode(_CHECK.pack(crc32(data)) + data).decode().rstrip("=")


def unseal(cursor: str, layout: struct.Struct) -> tuple[Any, ...]:
    """Return what was sealed into a cursor; raises Problem for one that is none of ours."""
    try:
        data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        (check,) = _CHECK.unpack_from(data)
        if check != crc32(data[_CHECK.size :]):
            raise ValueError
        return layout.unpack(data[_CHECK.size :])
    except (ValueError, struct.error):
        raise Problem(
            INVALID_CURSOR, "send `next_cursor` of an answer as it was, or leave it out"
        ) from None
