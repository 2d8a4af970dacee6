"""Values out of foreign JSON, each refused with the path to it and the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.solana import base58


def kind(value: Any) -> str:
    """Name what a value is, for a message."""
    return "null" if value is None else type(value).__name__


def read_object(value: Any, path: str) -> Mapping[str, Any]:
    """Return an object."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{path}: an object is expected, not {kind(value)}")
    return value


def read_list(value: Any, path: str) -> Sequence[Any]:
    """Return a list; missing and null are an empty one."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError(f"{path}: a list is expected, not {kind(value)}")
    return value


def read_text(value: Any, path: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ValueError(f"{path}: text is expected, not {kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{path}: text with half a surrogate pair") from None
    return value


def read_texts(value: Any, path: str) -> list[str]:
    """Return a list of texts."""
    return [read_text(item, f"{path}[{i}]") for i, item in enumerate(read_list(value, path))]


def read_pair_of_text(value: Any, path: str) -> tuple[str, str]:
    """Return both texts of `[text, encoding]`."""
    if not (isinstance(value, list) and len(value) == 2):
        raise ValueError(f"{path}: an object or [text, encoding] is expected, not {kind(value)}")
    return read_text(value[0], f"{path}[0]"), read_text(value[1], f"{path}[1]")


def read_integer(value: Any, path: str, *, signed: bool = False) -> int:
    """Return a whole number of 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{path}: a whole number is expected, not {kind(value)}")
    lowest, highest = (-(2**63), 2**63 - 1) if signed else (0, 2**64 - 1)
    if not lowest <= value <= highest:
        raise ValueError(f"{path}: {value} does not fit into 64 bits")
    return value


def read_integers(value: Any, path: str) -> list[int]:
    """Return a list of unsigned whole numbers."""
    return [read_integer(item, f"{path}[{i}]") for i, item in enumerate(read_list(value, path))]


def read_byte(value: Any, path: str) -> int:
    """Return a whole number from 0 to 255."""
    number = read_integer(value, path)
    if number > 255:
        raise ValueError(f"{path}: {number} does not fit into a byte")
    return number


def read_bytes(value: Any, path: str) -> bytes:
    """Return a list of numbers from 0 to 255 as bytes."""
    items = read_list(value, path)
    try:
        return bytes(items)
    except (TypeError, ValueError):
        raise ValueError(f"{path}: numbers from 0 to 255 are expected") from None


def read_base58(value: Any, path: str, length: int) -> bytes:
    """Return base58 text as bytes, of this length unless it is 0."""
    text = read_text(value, path)
    try:
        data = base58.decode(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if length and len(data) != length:
        raise ValueError(f"{path}: {len(data)} bytes, {length} are expected")
    return data
