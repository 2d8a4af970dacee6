"""Files that only their owner may read (mode 0600), written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def create(file: Path, text: str) -> bool:
    """Write a new file; return False where there is one already. Raises OSError."""
    beside = _write_beside(file, text)
    try:
        os.link(beside, file)
    except FileExistsError:
        return False
    finally:
        beside.unlink()
    return True


def replace(file: Path, text: str) -> None:
    """Write a file in place of the one that may be there. Raises OSError."""
    _write_beside(file, text).replace(file)


def _write_beside(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
    return beside
