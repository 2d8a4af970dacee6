"""Protobuf fields written by hand, for messages that are made too often to build them one by one.

A field without content is left out, as proto3 does.
"""

from __future__ import annotations


def varint(value: int) -> bytes:
    """Return protobuf's base-128 form of an unsigned number."""
    if value < len(_VARINTS):
        return _VARINTS[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_VARINTS: tuple[bytes, ...] = ()
_VARINTS = tuple(varint(value) for value in range(1 << 14))


class Numbers(dict[int, bytes]):
    """Varint fields by their value, for values of which there are few."""

    def __init__(self, field: int) -> None:
        super().__init__({0: b""})
        self._tag = varint(field << 3)

    def __missing__(self, number: int) -> bytes:
        made = self[number] = self._tag + varint(number)
        return made


class Leads(dict[int, bytes]):
    """What precedes the content of a length-delimited field, by the content's size."""

    def __init__(self, field: int) -> None:
        super().__init__({0: b""})
        self._tag = varint(field << 3 | 2)

    def __missing__(self, size: int) -> bytes:
        made = self[size] = self._tag + varint(size)
        return made


class Keys:
    """A repeated field of addresses, 32 bytes each."""

    def __init__(self, field: int) -> None:
        self._lead = varint(field << 3 | 2) + b"\x20"

    def joined(self, keys: list[bytes]) -> bytes:
        """Return the fields of all keys."""
        return self._lead + self._lead.join(keys) if keys else b""
