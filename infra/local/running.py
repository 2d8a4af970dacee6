"""The one `soltape up` of a folder: a lock that names its pid, and the addresses it publishes,
with the passwords that belong to them.

Commands run in the same folder find the running stack by its addresses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from infra.local import folder_lock, private_file

LOCK: Final = "up.lock"
ADDRESSES: Final = "addresses.json"
DEMO_KEY: Final = "demo-key"


class AlreadyRunning(Exception):
    """Another `soltape up` holds this folder."""


class FolderUnusable(Exception):
    """The folder cannot be written; the text says why."""


@contextmanager
def hold(data: Path) -> Iterator[None]:
    """Hold the folder; on leaving, remove the lock and the addresses.

    Raises AlreadyRunning with the pid of the holder, FolderUnusable.
    """
    with ExitStack() as held:
        try:
            held.enter_context(folder_lock.hold(data / LOCK))
        except folder_lock.FolderInUse as other:
            raise AlreadyRunning(
                f"`soltape up` already runs in this folder, with pid {other.pid}: "
                f"stop it first (kill {other.pid}), or set SOLTAPE_DATA to another folder"
            ) from None
        except OSError as error:
            raise FolderUnusable(
                f"SOLTAPE_DATA={data}: {error.strerror}; set it to a folder that can be written"
            ) from None
        held.callback((data / ADDRESSES).unlink, missing_ok=True)
        yield


def publish(data: Path, addresses: Mapping[str, str]) -> None:
    """Write the addresses for other commands in this folder."""
    private_file.replace(data / ADDRESSES, json.dumps(dict(addresses), indent=2) + "\n")


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
    return folder_lock.holder(data / LOCK)
