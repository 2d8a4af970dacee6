"""What every door answers about positions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from api.accounts.wallets import LaneReading
from api.http.encoding import Encoded
from api.positions.aggregates import aggregates, everything
from api.positions.answers import AggregatePositions
from api.positions.reader import Everything, Positions
from api.stores.caches import CachedAnswers
from schemas.protocols.contract import Protocol, Shape

KEPT_BYTES: Final = 32 << 20
FRESH_FOR_S: Final = 1.0
AT_ONCE: Final = 4  # wallets of a batch
_ROUTES: Final = 1 << 10


@lru_cache(_ROUTES)
def _shape_of(protocol: Protocol, route: str) -> Shape | None:
    return next((each.shape for each in protocol.routes if each.path == route), None)


class PositionService:
    """Encoded answers, cached. Every method raises Problem."""

    def __init__(
        self,
        positions: Positions,
        slugs: Mapping[str, Protocol],
        known: Mapping[str, Protocol],
    ) -> None:
        """Serve the protocols of slugs; `known` are the slugs of all files."""
        self.slugs = slugs
        self._known = known
        self.aggregates = aggregates(slugs, known)
        self._everything = everything(slugs, self.aggregates)
        self._positions = positions
        self._cached = CachedAnswers(KEPT_BYTES, FRESH_FOR_S)

    async def of_route(
        self, wallet: str, slug: str, protocol: Protocol, route: str, holder: str
    ) -> Encoded:
        """Return a wallet's positions of one route (`answers.ProtocolPositions`).

        `holder` is the fingerprint of the key, on whose account more is asked for.
        """
        of = self._positions.of_route
        return await self._cached.get(of, wallet, slug, protocol, route, holder)

    async def of_aggregate(self, wallet: str, name: str, holder: str) -> Encoded:
        """Return what a wallet has of an aggregate (`answers.AggregatePositions`)."""
        return await self._cached.get(self._one, wallet, name, holder)

    async def _one(self, wallet: str, name: str, holder: str) -> AggregatePositions:
        of = self._positions.of_aggregates
        [answer] = await of(wallet, [self.aggregates[name]], self.slugs, holder)
        return answer

    async def everything(
        self,
        wallet: str,
        holder: str,
        *,
        renews: bool = True,
        reading: LaneReading | None = None,
    ) -> Everything:
        """Return all positions of a wallet, with the tokens of its own that they mean.

        `renews`: the wallet is followed on account of this, not only what its positions need.
        `reading`: its accounts, where they were read already.
        """
        of = self._positions.everything
        return await of(
            wallet, self._everything, self.slugs, holder, renews=renews, reading=reading
        )

    def shape_of(self, slug: str, route: str) -> Shape | None:
        """Return the shape of a route, None where no file has it; it need not be served."""
        protocol = self.slugs.get(slug) or self._known.get(slug)
        return None if protocol is None else _shape_of(protocol, route)

    async def of_many(
        self, wallets: Sequence[str], names: Sequence[str]
    ) -> dict[str, dict[str, AggregatePositions]]:
        """Return aggregates by wallet and name; no wallet is asked for that is not followed."""
        gate = asyncio.Semaphore(AT_ONCE)
        asked = [self.aggregates[name] for name in names]

        async def one(wallet: str) -> dict[str, AggregatePositions]:
            async with gate:
                found = await self._positions.of_aggregates(wallet, asked, self.slugs, None)
            return dict(zip(names, found, strict=True))

        answers = await asyncio.gather(*map(one, wallets))
        return dict(zip(wallets, answers, strict=True))
