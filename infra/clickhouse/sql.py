"""The SQL of a reader: `name.sql` beside it."""

from __future__ import annotations

from importlib.resources import files


def load(package: str, name: str) -> str:
    """Return the text of `name.sql` in a package."""
    return files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8")
