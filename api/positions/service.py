"""What every door answers about positions."""

from __future__ import annotations

from typing import Final

from api.accounts.following import Following
from api.http.encoding import Encoded
from api.positions.accounts_reader import AccountsReader
from api.positions.reader import Positions
from api.positions.rewards import RewardsReader
from api.stores.caches import CachedAnswers
from api.tokens.reader import TokenReader
from schemas.protocols.contract import Protocol

KEPT_BYTES: Final = 32 << 20
FRESH_FOR_S: Final = 1.0


class PositionService:
    """Encoded answers, cached. Every method raises Problem."""

    def __init__(
        self,
        accounts: AccountsReader,
        tokens: TokenReader,
        rewards: RewardsReader,
        following: Following,
    ) -> None:
        self._positions = Positions(accounts, tokens, rewards, following)
        self._cached = CachedAnswers(KEPT_BYTES, FRESH_FOR_S)

    async def of_route(
        self, wallet: str, slug: str, protocol: Protocol, route: str, holder: str
    ) -> Encoded:
        """Return a wallet's positions of one route (`answers.ProtocolPositions`).

        `holder` is the fingerprint of the key, on whose account more is asked for.
        """
        of = self._positions.of_route
        return await self._cached.get(of, wallet, slug, protocol, route, holder)
