"""One process a data directory: a lock that names its holder and dies with it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DirectoryInUse(Exception):  # noqa: N818 - says what is the case
    """Another process works in the directory; the text names it."""

    def __init__(self, directory: Path, pid: str) -> None:
        super().__init__(f"{directory} is in use by process {pid}: stop it first")
        self.pid = pid


@contextmanager
def hold(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, which is made if missing. Raises DirectoryInUse."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a+") as file:
        try:
            # Held by the kernel for the open file: nothing is left behind after SIGKILL.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise DirectoryInUse(directory, file.read().strip() or "(unknown)") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
