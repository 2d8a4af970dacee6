"""The SQL of a reader: `name.sql` beside it; and how many names a query is asked about at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final

NAMES_AT_ONCE: Final = 2_000
"""Addresses in a parameter: a server takes 128 KiB of one (http_max_field_value_size)."""


def load(package: str, name: str) -> str:
    """Return the text of `name.sql` in a package."""
    return files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8")


def parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield names, as many at a time as a query may be given in a parameter."""
    for at in range(0, len(names), NAMES_AT_ONCE):
        yield names[at : at + NAMES_AT_ONCE]
