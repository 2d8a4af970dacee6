"""Anchor's events: their bytes, and the same values in words for the ground truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from infra.chain.market.runtime.programs import event_tag
from schemas.solana.addresses import text

Value = int | bool | bytes | None
Values = Mapping[str, Value]
Json = str | bool | None

_SIZES: Final = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i64": 8, "u128": 16, "i128": 16}


class Field(NamedTuple):
    """A field of an event; `kind` is Anchor's name of its type."""

    name: str
    kind: str
    is_optional: bool


class EventLayout:
    """The fields of an event in their order, as an IDL has them.

    They are given as `name:type`, an optional one as `name:type?`.
    """

    def __init__(self, name: str, fields: str) -> None:
        self.name = name
        self._tag = event_tag(name)
        self.fields = tuple(
            Field(field, kind.removesuffix("?"), kind.endswith("?"))
            for field, kind in (each.split(":") for each in fields.split())
        )

    def encode(self, values: Values) -> bytes:
        """Return the event's tag and borsh."""
        return self._tag + b"".join(_encoded(each, values[each.name]) for each in self.fields)

    def as_json(self, values: Values) -> dict[str, Json]:
        """Return the values in words: integers as text, addresses in base58."""
        return {each.name: _as_json(values[each.name]) for each in self.fields}


def _encoded(field: Field, value: Value) -> bytes:
    if field.is_optional:
        return b"\0" if value is None else b"\1" + _plain(field.kind, value)
    return _plain(field.kind, value)


def _plain(kind: str, value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    if kind == "bool":
        return bytes((bool(value),))
    assert value is not None
    return value.to_bytes(_SIZES[kind], "little", signed=kind[0] == "i")


def _as_json(value: Value) -> Json:
    if isinstance(value, bytes):
        return text(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
