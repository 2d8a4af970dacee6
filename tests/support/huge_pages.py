"""Whether this process, and those it starts, may have huge pages: Linux's prctl(2)."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_PR_SET_THP_DISABLE: Final = 41  # <linux/prctl.h>


def allow(allowed: bool) -> None:
    """Let this process have them or not, and all that it starts from now on."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, int(not allowed), 0, 0, 0)
