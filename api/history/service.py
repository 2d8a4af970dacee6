"""What every door answers about the past: days, swaps, candles, lots of a position, perps."""

from __future__ import annotations

from api.history import candles, daily, lots, perps, swaps
from api.history.spans import Asked
from api.history.swaps_kept import KeptSwaps
from api.http.encoding import Encoded
from api.stores.caches import SingleFlight
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.tokens.reader import TokenReader
from api.wallets.holdings import Beginning


class HistoryService:
    """Encoded answers, read once for identical requests under way. Every method raises Problem."""

    def __init__(
        self, stores: Stores, tokens: TokenReader, gaps: GapReader, swaps_days: int
    ) -> None:
        self._stores = stores
        self._tokens = tokens
        self._gaps = gaps
        self._beginning = Beginning(stores)
        self._kept = KeptSwaps(stores, swaps_days)
        self._reads = SingleFlight()

    async def daily_pnl(self, wallet: str, from_ms: int | None, to_ms: int | None) -> Encoded:
        """Return what a wallet realized on each day (`answers.DailyPnl`)."""
        return await self._reads.get(
            daily.read_daily_pnl,
            self._stores,
            self._gaps,
            self._beginning,
            wallet,
            from_ms,
            to_ms,
        )

    async def daily_token_pnl(
        self, wallet: str, mint: str, from_ms: int | None, to_ms: int | None
    ) -> Encoded:
        """Return what a wallet did with a token on each day (`answers.DailyTokenPnl`)."""
        return await self._reads.get(
            daily.read_daily_token_pnl,
            self._stores,
            self._gaps,
            self._beginning,
            self._tokens,
            wallet,
            mint,
            from_ms,
            to_ms,
        )

    async def daily_trades(self, wallet: str, from_ms: int | None, to_ms: int | None) -> Encoded:
        """Return what a wallet bought and sold on each day (`answers.DailyTrades`)."""
        return await self._reads.get(
            daily.read_daily_trades,
            self._stores,
            self._gaps,
            self._beginning,
            wallet,
            from_ms,
            to_ms,
        )

    async def wallet_swaps(self, wallet: str, asked: Asked) -> Encoded:
        """Return a page of a wallet's swaps (`answers.WalletSwaps`)."""
        return await self._reads.get(
            swaps.read_wallet_swaps, self._stores, self._gaps, self._kept, wallet, asked
        )

    async def token_swaps(self, mint: str, asked: Asked) -> Encoded:
        """Return a page of a token's swaps (`answers.TokenSwaps`)."""
        return await self._reads.get(
            swaps.read_token_swaps, self._stores, self._gaps, self._kept, self._tokens, mint, asked
        )

    async def wallet_token_swaps(self, wallet: str, mint: str, asked: Asked) -> Encoded:
        """Return a page of a wallet's swaps in one token (`answers.WalletTokenSwaps`)."""
        return await self._reads.get(
            swaps.read_wallet_token_swaps,
            self._stores,
            self._gaps,
            self._kept,
            self._tokens,
            wallet,
            mint,
            asked,
        )

    async def funding(self, wallet: str, asked: Asked) -> Encoded:
        """Return a page of a wallet's funding payments (`perp_answers.FundingHistory`)."""
        return await self._reads.get(perps.read_funding, self._stores, self._gaps, wallet, asked)

    async def perp_pnl(self, wallet: str, asked: Asked) -> Encoded:
        """Return a page of changes of a wallet's positions (`perp_answers.PerpHistory`)."""
        return await self._reads.get(perps.read_perp_pnl, self._stores, self._gaps, wallet, asked)

    async def candles(
        self, mint: str, interval: str, from_ms: int | None, to_ms: int | None
    ) -> Encoded:
        """Return the candles of a token (`answers.Candles`)."""
        return await self._reads.get(
            candles.read_candles,
            self._stores,
            self._gaps,
            self._beginning,
            self._tokens,
            mint,
            interval,
            from_ms,
            to_ms,
        )

    async def lots(self, wallet: str, mint: str, limit: int, cursor: str | None) -> Encoded:
        """Return a position, its open lots and its matches (`answers.Lots`)."""
        return await self._reads.get(
            lots.read_lots, self._stores, self._gaps, self._tokens, wallet, mint, limit, cursor
        )
