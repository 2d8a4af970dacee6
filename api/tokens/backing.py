"""Which tokens have a price that somebody could sell at.

Such a token is verified: one knows what it is, somebody traded it of late, and its pools hold
enough, or trade enough; or it is a share of a pool that holds as much. Money always is. What a
wallet has of other tokens is in no sum, wherever it has them: anybody can make a token, trade it
between two wallets at any price, and send it to anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from api.stores.caches import BoundedCache, now_s
from api.stores.clients import Stores
from api.tokens.reader import Token, Tokens
from schemas.amounts import LAMPORTS
from schemas.markets import QUARTERS_KEPT, unpack_head, window
from schemas.money import MONEY
from schemas.redis_keys import MARKET, mint_tag

LEAST_LIQUIDITY_LAMPORTS: Final = 10 * LAMPORTS
LEAST_VOLUME_LAMPORTS: Final = 100 * LAMPORTS  # of a day: concentrated pools disclose no liquidity
VOLUME_FRESH_FOR_S: Final = 5.0
_REMEMBERED: Final = 1 << 14


class Backing:
    """Finds verified tokens, for all requests of a process."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        # mint -> when its volume of a day was read, and whether it was enough
        self._traded: BoundedCache[str, tuple[float, bool]] = BoundedCache(_REMEMBERED)

    async def of_markets(self, tokens: Tokens, mints: Iterable[str]) -> frozenset[str]:
        """Return which mints have a market that backs their price; raises Problem.

        It costs a trip where pools do not disclose enough liquidity and the volume of a day was not
        read lately.
        """
        backed = set[str]()
        doubtful: list[str] = []
        for mint in mints:
            token = tokens.get(mint)
            if token is not None and token.source == "live" and _is_known(token):
                if _pooled_lamports(token) >= LEAST_LIQUIDITY_LAMPORTS:
                    backed.add(mint)
                else:
                    doubtful.append(mint)
        if doubtful:
            backed |= await self._traded_enough(doubtful, tokens)
        return frozenset(backed)

    async def of_pools(self, tokens: Tokens, mints: Iterable[str]) -> frozenset[str]:
        """Return which mints are shares of a pool that holds enough of what is verified.

        `tokens` have the prices by pools. Raises Problem.
        """
        pools = {
            mint: pool
            for mint in mints
            if (token := tokens.get(mint)) is not None
            and (pool := token.pool_price) is not None
            and (pool.lamports or 0) >= LEAST_LIQUIDITY_LAMPORTS
        }
        sides = {each.mint: each for pool in pools.values() for each in pool.sides}
        backed = await self.of_markets(replace(tokens, by_mint=sides), sides)
        return frozenset(
            mint
            for mint, pool in pools.items()
            if all(each.mint in MONEY or each.mint in backed for each in pool.sides)
        )

    async def _traded_enough(self, mints: Iterable[str], tokens: Tokens) -> set[str]:
        enough, unread = set[str](), list[str]()
        oldest = now_s() - VOLUME_FRESH_FOR_S
        for mint in mints:
            known = self._traded.kept.get(mint)
            if known is None or known[0] < oldest:
                unread.append(mint)
            elif known[1]:
                enough.add(mint)
        if not unread:
            return enough
        series = await self._stores.ask(
            [("HGET", MARKET.make(tag=mint_tag(mint), mint=mint), "quarters") for mint in unread]
        )
        for mint, quarters in zip(unread, series, strict=True):
            lamports = 0
            if quarters:
                day = window(quarters, tokens.now_ms // 60_000, QUARTERS_KEPT)
                lamports = day.buy_lamports + day.sell_lamports
            self._traded.put(mint, (now_s(), lamports >= LEAST_VOLUME_LAMPORTS))
            if lamports >= LEAST_VOLUME_LAMPORTS:
                enough.add(mint)
        return enough


def _is_known(token: Token) -> bool:
    return bool(token.about["name"] or token.about["symbol"])


def _pooled_lamports(token: Token) -> int:
    if token.pooled_lamports is None:
        head = token.packed_head
        token.pooled_lamports = 0 if head is None else unpack_head(head)[0].liquidity_lamports or 0
    return token.pooled_lamports
