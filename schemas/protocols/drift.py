"""Drift v2: deposits, borrows and perp positions of sub-accounts, insurance stakes and fuel.

Each part has its own kinds, routes and reading; all of them ask for their accounts together.
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import Held, Protocol, Reading, World
from schemas.protocols.drift_parts import accounts, fuel, insurance
from schemas.protocols.drift_parts.layout import KINDS
from schemas.protocols.in_step import in_step

_PARTS: Final = (accounts, insurance, fuel)


def read(held: Held, world: World) -> Reading:
    """Return the positions of all parts; raises Unreadable."""
    return in_step(*(part.read(held, world) for part in _PARTS))


PROTOCOL: Final = Protocol(
    "drift",
    KINDS,
    tuple(route for part in _PARTS for route in part.ROUTES),
    read,
    unsupported_fields=tuple(text for part in _PARTS for text in part.UNSUPPORTED),
)
