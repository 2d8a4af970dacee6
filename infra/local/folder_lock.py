"""One process a folder: a lock file that names its holder.

The lock is the kernel's (flock), so it ends with the process, however that ends; a file left
behind means nothing.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# `holder` tests a lock by holding it for an instant.
_RETRY_FOR_S: Final = 0.5


class FolderInUse(Exception):
    """Another process works in the folder; the text names both."""

    def __init__(self, folder: Path, pid: int | None) -> None:
        super().__init__(f"{folder} is in use by process {pid or '(unknown)'}: stop it first")
        self.pid = pid


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the lock file of a folder, which is made if missing; on leaving, remove the file.

    Raises FolderInUse, and OSError where the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = _acquire(path)
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def holder(path: Path) -> int | None:
    """Return the pid of the process that holds a lock file."""
    try:
        lock = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid(lock)
    else:
        return None
    finally:
        os.close(lock)


def _acquire(path: Path) -> int:
    deadline = time.monotonic() + _RETRY_FOR_S
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _pid(lock)
            os.close(lock)
            if time.monotonic() >= deadline:
                raise FolderInUse(path.parent, pid) from None
            time.sleep(0.05)
            continue
        # A holder that just left has removed the file we opened: then this lock guards nothing.
        if _is_still(path, lock):
            return lock
        os.close(lock)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _pid(lock: int) -> int | None:
    text = os.pread(lock, 20, 0).strip()
    return int(text) if text.isdigit() else None  # None: it is writing it at this moment
