"""What every door answers about tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from api.accounts.following import Following
from api.accounts.mints import MintReader
from api.http.encoding import Encoded
from api.http.errors import NO_IMAGE, Problem
from api.metadata.service import ImageBytes, MetadataService
from api.stores.caches import CachedAnswers, SingleFlight
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.tokens import figures
from api.tokens.batches import TokenBatches
from api.tokens.holders import HolderReader
from api.tokens.leaderboard_answers import LeaderboardAnswers
from api.tokens.mint_accounts import SuppliedTokens
from api.tokens.pool_prices import PoolPrices
from api.tokens.reader import TokenReader
from api.tokens.trending import TrendingTokens
from schemas.money import MONEY
from schemas.solana.addresses import key

HOLDERS_KEPT_BYTES: Final = 16 << 20
TOKENS_KEPT_BYTES: Final = 8 << 20


class TokenService:
    """Encoded answers. Every method raises Problem."""

    def __init__(
        self,
        stores: Stores,
        reader: TokenReader,
        gaps: GapReader,
        following: Following,
        metadata: MetadataService,
        pools: PoolPrices,
    ) -> None:
        self._stores = stores
        self._reader = reader
        self._gaps = gaps
        self._following = following
        self._metadata = metadata
        mints = MintReader(stores)
        self._supplied = SuppliedTokens(reader, mints, pools)
        self._tokens = CachedAnswers(TOKENS_KEPT_BYTES)
        self._reads = SingleFlight()
        self._holders = CachedAnswers(HOLDERS_KEPT_BYTES)
        self._holder_reader = HolderReader(stores, gaps, mints)
        self._batches = TokenBatches(self._supplied, gaps)
        self._leaderboards = LeaderboardAnswers(stores, reader, gaps)
        self._trending = TrendingTokens(stores, gaps)

    async def token(self, mint: str, holder: str) -> Encoded:
        """Return a token and its last 24 hours (`answers.Token`), and have its mint followed.

        `holder` is the fingerprint of the key that asks.
        """
        asked = await self._following.want("mint", key(mint), holder)
        answer = await self._tokens.get(
            figures.token, self._supplied, self._gaps, self._metadata, mint, asked
        )
        self._metadata.want(mint, holder)
        return answer

    async def image(self, mint: str) -> ImageBytes:
        """Return a token's image."""
        found = await self._metadata.image(mint)
        if isinstance(found, ImageBytes):
            return found
        raise Problem(NO_IMAGE, f"{found.reason}: {found.detail}", reason=found.reason)

    async def price(self, mint: str, holder: str) -> Encoded:
        """Return what a token costs, read for each call (`answers.TokenPrice`).

        Have its mint followed, whose supply the market capitalisation rests on.
        """
        await self._following.want("mint", key(mint), holder)
        return await self._reads.get(figures.token_price, self._supplied, self._gaps, mint)

    async def pools(self, mint: str) -> Encoded:
        """Return where a token trades (`answers.Pools`)."""
        return await self._reads.get(figures.pools, self._stores, self._reader, self._gaps, mint)

    async def holders(self, mint: str, limit: int, holder: str) -> Encoded:
        """Return who holds most of a token (`answers.Holders`).

        Have its mint followed and, of a token older than the tape, its largest accounts. `holder`
        is the fingerprint of the key that asks.
        """
        asked = None
        if mint not in MONEY:
            await self._following.want("mint", key(mint), holder)
        if await self._holder_reader.is_older(mint):
            asked = await self._following.want("holders", key(mint), holder)
        return await self._holders.get(self._holder_reader.largest, mint, limit, asked)

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
