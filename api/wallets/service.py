"""What every door answers about wallets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from api.accounts.following import Following
from api.http.encoding import Encoded
from api.stores.caches import CachedAnswers, SingleFlight
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.tokens.backing import Backing
from api.tokens.pool_prices import PoolPrices
from api.tokens.reader import TokenReader
from api.wallets.holdings import Wanted
from api.wallets.reader import ReadAggregates, Section, View, Wallets

KEPT_BYTES: Final = 32 << 20
FRESH_FOR_S: Final = 1.0  # a caller who wants a change sooner subscribes to the WebSocket


class WalletService:
    """Encoded answers; those about one wallet are cached. Every method raises Problem."""

    def __init__(
        self,
        stores: Stores,
        tokens: TokenReader,
        gaps: GapReader,
        following: Following,
        pools: PoolPrices,
        backing: Backing,
        positions: ReadAggregates,
    ) -> None:
        self._positions = positions
        self.reader = self._wallets = Wallets(stores, tokens, gaps, following, pools, backing)
        self._reads = SingleFlight()
        self._cached = CachedAnswers(KEPT_BYTES, FRESH_FOR_S)

    async def positions(
        self, wallet: str, limit: int, cursor: str | None = None, view: View = View.FULL
    ) -> Encoded:
        """Return a page of a wallet's positions (`position_answers.PositionList`)."""
        return await self._cached.get(self._wallets.page, wallet, limit, cursor, view)

    async def newest(self, wallet: str, limit: int, view: View = View.FULL) -> Encoded:
        """Return the positions with the newest trades (`position_answers.AllPositions`)."""
        return await self._cached.get(self._wallets.newest, wallet, limit, view)

    async def position(self, wallet: str, mint: str) -> Encoded:
        """Return a wallet's position in a token (`position_answers.PositionAnswer`)."""
        return await self._cached.get(self._wallets.position, wallet, mint)

    async def summary(self, wallet: str) -> Encoded:
        """Return the last seven days of a wallet (`position_answers.SummaryAnswer`)."""
        return await self._cached.get(self._wallets.summary, wallet)

    async def holdings(self, wallet: str, wanted: Wanted, holder: str, wait_ms: int) -> Encoded:
        """Return what a wallet holds (`answers.HoldingsAnswer`), and have the wallet followed.

        Waits up to `wait_ms` until all of it is known; `holder` is the fingerprint of the key.
        """
        asked = await self._wallets.follow(wallet, holder, wait_ms / 1000)
        answer = await self._cached.get(self._wallets.holdings, wallet, wanted, asked)
        await self._wallets.ask_unknown(wallet, holder)  # of each key, though they share the answer
        return answer

    async def portfolio(self, wallet: str) -> Encoded:
        """Return a wallet at a glance (`answers.PortfolioAnswer`)."""
        return await self._cached.get(self._wallets.portfolio, wallet)

    async def batch(self, wallets: Sequence[str], include: Collection[Section]) -> Encoded:
        """Return sections of many wallets, each once (`answers.Batch`)."""
        return await self._reads.get(
            self._wallets.batch, tuple(dict.fromkeys(wallets)), frozenset(include), self._positions
        )
