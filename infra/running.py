"""The one `soltape up` of a folder: a lock that names its pid, and the addresses it publishes.

The lock is the kernel's (flock), so it ends with the process, however that ends; a file left
behind means nothing. Commands run in the same folder find the running stack by its addresses.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK: Final = "up.lock"
ADDRESSES: Final = "addresses.json"
# Readers of the addresses test the lock by holding it for an instant.
_RETRY_FOR_S: Final = 0.5


class AlreadyRunning(Exception):  # noqa: N818 - says what is the case
    """Another `soltape up` holds this folder."""


class FolderUnusable(Exception):  # noqa: N818 - says what is the case
    """The folder cannot be written; the text says why."""


@contextmanager
def hold(data: Path) -> Iterator[None]:
    """Hold the folder; on leaving, remove the lock and the addresses.

    Raises AlreadyRunning with the pid of the holder, FolderUnusable.
    """
    path = data / LOCK
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = _acquire(path)
    except OSError as error:
        raise FolderUnusable(
            f"SOLTAPE_DATA={data}: {error.strerror}; set it to a folder that can be written"
        ) from None
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        (data / ADDRESSES).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
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
                raise AlreadyRunning(
                    f"`soltape up` already runs in this folder, with pid {pid}: "
                    f"stop it first (kill {pid}), or set SOLTAPE_DATA to another folder"
                ) from None
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


def publish(data: Path, addresses: Mapping[str, str]) -> None:
    """Write the addresses for other commands in this folder."""
    new = data / f"{ADDRESSES}.new"
    new.write_text(json.dumps(dict(addresses), indent=2) + "\n")
    new.replace(data / ADDRESSES)


def addresses(data: Path) -> dict[str, str]:
    """Return the addresses of the stack running in this folder, by setting; none: empty."""
    if holder(data) is None:
        return {}
    try:
        published: dict[str, str] = json.loads((data / ADDRESSES).read_text())
    except (OSError, ValueError):
        return {}  # it is starting or stopping at this moment
    return published


def holder(data: Path) -> int | None:
    """Return the pid of the `soltape up` that runs in this folder."""
    try:
        lock = os.open(data / LOCK, os.O_RDONLY)
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


def _pid(lock: int) -> int | None:
    text = os.pread(lock, 20, 0).strip()
    return int(text) if text.isdigit() else None  # None: it is writing it at this moment
