"""What every door answers about tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from api.http.encoding import Encoded
from api.stores.caches import CachedAnswers, SingleFlight
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.tokens import figures
from api.tokens.batches import TokenBatches
from api.tokens.holders import HolderReader
from api.tokens.leaderboard_answers import LeaderboardAnswers
from api.tokens.reader import TokenReader
from api.tokens.trending import TrendingTokens

HOLDERS_KEPT_BYTES: Final = 16 << 20
TOKENS_KEPT_BYTES: Final = 8 << 20


class TokenService:
    """Encoded answers. Every method raises Problem."""

    def __init__(self, stores: Stores, reader: TokenReader, gaps: GapReader) -> None:
        self._stores = stores
        self._reader = reader
        self._gaps = gaps
        self._tokens = CachedAnswers(TOKENS_KEPT_BYTES)
        self._reads = SingleFlight()
        self._holders = CachedAnswers(HOLDERS_KEPT_BYTES)
        self._holder_reader = HolderReader(stores, gaps)
        self._batches = TokenBatches(reader, gaps)
        self._leaderboards = LeaderboardAnswers(stores, reader, gaps)
        self._trending = TrendingTokens(stores, gaps)

    async def token(self, mint: str) -> Encoded:
        """Return a token and its last 24 hours (`answers.Token`)."""
        return await self._tokens.get(figures.token, self._reader, self._gaps, mint)

    async def price(self, mint: str) -> Encoded:
        """Return what a token costs, read for each call (`answers.TokenPrice`)."""
        return await self._reads.get(figures.token_price, self._reader, self._gaps, mint)

    async def pools(self, mint: str) -> Encoded:
        """Return where a token trades (`answers.Pools`)."""
        return await self._reads.get(figures.pools, self._stores, self._reader, self._gaps, mint)

    async def holders(self, mint: str, limit: int) -> Encoded:
        """Return who holds most of a token (`answers.Holders`)."""
        return await self._holders.get(self._holder_reader.largest, mint, limit)

    async def leaderboard(self, mint: str, limit: int) -> Encoded:
        """Return who realized most with a token (`answers.Leaderboard`)."""
        return await self._reads.get(self._leaderboards.one, mint, limit)

    async def trending(self, platforms: Collection[str], limit: int) -> Encoded:
        """Return launch tokens that trend, of some platforms or of all (`answers.Trending`)."""
        return await self._trending.first(frozenset(platforms), limit)

    async def batch(self, mints: Sequence[str]) -> Encoded:
        """Return many tokens, each once (`answers.Tokens`)."""
        return await self._reads.get(self._batches.many, tuple(dict.fromkeys(mints)))

    async def leaderboards(self, mints: Sequence[str], limit: int) -> Encoded:
        """Return the leaderboards of many tokens, each once (`answers.Leaderboards`)."""
        return await self._reads.get(self._leaderboards.many, tuple(dict.fromkeys(mints)), limit)
