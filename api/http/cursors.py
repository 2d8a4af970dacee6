"""Cursors: where the next page begins. Opaque to callers, checked when they come back.

A cursor is of one list: what that is of is not in it, but its check is over both. So one that went
astray, to another wallet's list or to one of another kind, is refused and not taken for a place.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import astuple, dataclass
from typing import Any, Final
from zlib import crc32

from typing_extensions import TypedDict

from api.http.errors import INVALID_CURSOR, Problem

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

    def cursor(self, of: str) -> str:
        """Return the text that a caller sends back to a list."""
        return seal(_PLACE.pack(*astuple(self)), of)


def place(cursor: str, of: str) -> Place:
    """Return where a cursor of a list points; raises Problem."""
    return Place(*unseal(cursor, _PLACE, of))


def seal(data: bytes, of: str) -> str:
    """Return bytes as a cursor of a list."""
    return _text(_check(data, of) + data)


def unseal(cursor: str, layout: struct.Struct, of: str) -> tuple[Any, ...]:
    """Return what was sealed into a cursor of a list; raises Problem for any other."""
    try:
        sealed = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        data = sealed[_CHECK.size :]
        # Decoding passes over what is no base64; there is one text for the same bytes.
        if _text(sealed) != cursor or sealed[: _CHECK.size] != _check(data, of):
            raise ValueError
        return layout.unpack(data)
    except (ValueError, struct.error):
        raise invalid_cursor() from None


def invalid_cursor() -> Problem:
    """Return the problem of a cursor that no page of this list has."""
    return Problem(
        INVALID_CURSOR, "`cursor` must be the unchanged `next_cursor` of a page of this list"
    )


def _check(data: bytes, of: str) -> bytes:
    return _CHECK.pack(crc32(data, crc32(of.encode())))


def _text(sealed: bytes) -> str:
    return urlsafe_b64encode(sealed).decode().rstrip("=")
