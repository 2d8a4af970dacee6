"""Where tests write: to memory, where the machine has room for it.

A ClickHouse with many small inserts takes a third more CPU on a disk, for the files it creates and
deletes, and every `fsync` waits for one.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

import psutil

_IN_MEMORY: Final = Path("/dev/shm")
_ROOM_BYTES: Final = 12 * 1024**3
"""What has to be free: a run has up to 2 GB there, and its processes take 8 GB."""


def prefer_memory() -> None:
    """Let this process and those it starts write there, unless TMPDIR says where."""
    if "TMPDIR" not in os.environ and _has_room():
        os.environ["TMPDIR"] = str(_IN_MEMORY)
        tempfile.tempdir = None  # looked up again


def _has_room() -> bool:
    if not os.access(_IN_MEMORY, os.W_OK | os.X_OK):
        return False
    volume = os.statvfs(_IN_MEMORY)
    free_bytes = min(volume.f_bavail * volume.f_frsize, psutil.virtual_memory().available)
    # Containers often mount it without execution, which some tests need.
    return free_bytes >= _ROOM_BYTES and not volume.f_flag & os.ST_NOEXEC
