"""Debian's Chromium, without a window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from tests.support import npm

# The first is the same browser without a user interface that nobody sees: a page takes a third of
# the CPU.
_NAMES: Final = ("chromium-headless-shell", "chromium")
_ARGUMENTS: Final = ("--no-sandbox", "--disable-dev-shm-usage")  # as root, in a container


@contextmanager
def launched(*arguments: str) -> Iterator[Browser]:
    """Run it; without it the test skips, in CI it fails.

    While it is there no other loop may run in this thread.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=_executable(), args=[*_ARGUMENTS, *arguments]
        )
        yield browser
        browser.close()


def _executable() -> str:
    """Return where it is."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        npm.missing(f"Chromium is not installed: apt-get install {_NAMES[0]}")
    return str(found)
