"""Kamino: lending (klend), farms and their rewards, vaults and managed liquidity.

Each part has its own kinds, routes and reading; they ask for their accounts together, but that
farms are read before vaults and strategies, whose shares are staked there.
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
    return in_step(lending.read(held, world), _farms_and_shares(held, world))


def _farms_and_shares(held: Held, world: World) -> Reading:
    """Return positions in farms, vaults and strategies, whose shares may be staked in farms."""
    farmed = yield from farms.read(held, world)
    shares = yield from in_step(
        vaults.read(held, world, farmed.of_vaults),
        liquidity.read(held, world, farmed.of_strategies),
    )
    return [*farmed.positions, *shares]


PROTOCOL: Final = Protocol(
    "kamino",
    tuple(kind for part in _PARTS for kind in part.KINDS),
    tuple(route for part in _PARTS for route in part.ROUTES),
    read,
    unsupported_fields=tuple(text for part in _PARTS for text in part.UNSUPPORTED),
    reads_tokens=True,
)
