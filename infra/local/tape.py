"""Whose tape the stores of a data folder keep: a local chain's, or that of a chain elsewhere.

No chain continues the tape of a local one, and what a chain elsewhere sent cannot be had again: a
start empties the former, and never the latter unasked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from infra.local import private_file

FILE: Final = "tape"
LOCAL: Final = "local"


def owner(data: Path) -> str | None:
    """Return LOCAL, the address of a chain elsewhere, a backup, or None where nothing says it.

    Raises OSError, UnicodeDecodeError.
    """
    try:
        return (data / FILE).read_text().strip() or None
    except FileNotFoundError:
        return None


def note(data: Path, owner: str) -> None:
    """Note whose tape the stores keep from now on; raises OSError."""
    private_file.replace(data / FILE, f"{owner}\n")
