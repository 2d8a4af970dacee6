"""What judges of positions were asked, which `make judges` adds up."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

FILE: Final = "JUDGED"
"""The environment variable that names the file; without it nothing is kept."""


def judged(*, worlds: int = 0, accounts: int = 0, differences: int = 0) -> None:
    """Add random worlds, real accounts, and figures that differ as the test's document explains.

    A difference that it does not explain fails the test instead.
    """
    if path := os.environ.get(FILE):
        counted = {"worlds": worlds, "accounts": accounts, "differences": differences}
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(counted) + "\n")
