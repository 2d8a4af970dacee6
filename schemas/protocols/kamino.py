"""Kamino: lending (klend), farms and their rewards, vaults and managed liquidity.

Each part has its own kinds, routes and reading; all of them ask for their accounts together. To
add a part, import its module and name it in `_PARTS`.
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import Held, Protocol, Reading, World
from schemas.protocols.in_step import in_step
from schemas.protocols.kamino_parts import farms, lending, liquidity, vaults

_PARTS: Final = (
    lending,
    farms,
    vaults,
    liquidity,
)


def read(held: Held, world: World) -> Reading:
    """Return the positions of all parts; raises Unreadable."""
    return in_step(*(part.read(held, world) for part in _PARTS))


PROTOCOL: Final = Protocol(
    "kamino",
    tuple(kind for part in _PARTS for kind in part.KINDS),
    tuple(route for part in _PARTS for route in part.ROUTES),
    read,
    unsupported_fields=tuple(text for part in _PARTS for text in part.UNSUPPORTED),
    reads_tokens=True,
)
