"""Write versions of several nodes: each counts on its own, so two cannot be compared."""

from __future__ import annotations

from math import pi, sin
from typing import Final

_SPACING: Final = 8
_START: Final = 1 << 20
_SWING: Final = 2_000
_PERIOD: Final = 1_000


def write_version(version: int, node: int, nodes: int) -> int:
    """Return a node's own number for a write of the chain: ascending and never given twice.

    Now one node is ahead, now another, so whether a node's number is above another's says
    nothing. A chain of one node has the source's own numbers.
    """
    if nodes == 1:
        return version
    phase = 2 * pi * node / nodes
    wave = round(_SWING * sin(version / _PERIOD + phase))  # at most 3 less than that before
    return _START + _SPACING * version + wave + (version * 2_654_435_761 + node) % 3
