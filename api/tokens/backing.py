"""Which tokens have a price that somebody could sell at.

Such a token is verified: one knows what it is, somebody traded it of late, and its pools hold
enough money, or trade enough of it; or it is a share of a pool that holds as much. Money always
is. What a wallet has of other tokens is in no sum, wherever it has them: anybody can make a token,
trade it between two wallets at any price, and send it to anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from api.stores.caches import BoundedCache, now_s
from api.stores.clients import Stores
from api.tokens.cold_markets import read_cold
from api.tokens.reader import Token, Tokens
from schemas.amounts import LAMPORTS
from schemas.markets import POOL_FIELD, QUARTERS_KEPT, unpack_head, unpack_pool, window
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

        It costs two trips where pools do not disclose enough liquidity and the volume of a day was
        not read lately, and a query where such a market is not in Redis.
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
        for mint, is_enough in (await self._trades_enough(unread, tokens)).items():
            self._traded.put(mint, (now_s(), is_enough))
            if is_enough:
                enough.add(mint)
        return enough

    async def _trades_enough(self, mints: Sequence[str], tokens: Tokens) -> dict[str, bool]:
        """Return of each token whether its pools quoted in money traded enough in a day.

        Any other quote is worth what one small trade says, and so is a volume in it.
        """
        slots = {
            mint: token.cold_slot
            for mint in mints
            if (token := tokens.get(mint)) is not None and token.cold_slot is not None
        }
        pools = await self._read_pools([mint for mint in mints if mint not in slots], tokens.now_ms)
        if slots:  # put away for room: one that rests for days has no volume
            pools |= await self._read_cold_pools(slots)
        in_money = dict.fromkeys(mints, 0)
        for mint, values in pools.items():
            for packed in values:
                facts, quarters = unpack_pool(packed)
                if facts.quote_mint in MONEY:
                    in_money[mint] += _traded_lamports(quarters, tokens.now_ms)
        return {mint: traded >= LEAST_VOLUME_LAMPORTS for mint, traded in in_money.items()}

    async def _read_pools(self, mints: Sequence[str], now_ms: int) -> dict[str, list[bytes]]:
        """Return the pools in Redis of those tokens that traded enough in all of them together."""
        keys = [MARKET.make(tag=mint_tag(mint), mint=mint) for mint in mints]
        found = await self._stores.ask(
            [command for key in keys for command in (("HGET", key, "quarters"), ("HKEYS", key))]
        )
        asked: dict[str, tuple[str, list[bytes]]] = {}
        for mint, key, quarters, names in zip(mints, keys, found[::2], found[1::2], strict=True):
            of_pools = [name for name in names if name.startswith(POOL_FIELD)]
            if (
                of_pools
                and quarters
                and _traded_lamports(quarters, now_ms) >= LEAST_VOLUME_LAMPORTS
            ):
                asked[mint] = key, of_pools
        pools = await self._stores.ask([("HMGET", key, *names) for key, names in asked.values()])
        return {
            mint: [*filter(None, values)]  # one may have left in between
            for mint, values in zip(asked, pools, strict=True)
        }

    async def _read_cold_pools(self, slots: Mapping[str, int]) -> dict[str, list[bytes]]:
        """Return the pools of markets in ClickHouse; `slots` are as `read_cold` takes them."""
        cold = await read_cold(self._stores, slots)
        return {
            mint: [value for name, value in each.fields.items() if name.startswith(POOL_FIELD)]
            for mint, each in cold.items()
        }


def _traded_lamports(quarters: bytes, now_ms: int) -> int:
    day = window(quarters, now_ms // 60_000, QUARTERS_KEPT)
    return day.buy_lamports + day.sell_lamports


def _is_known(token: Token) -> bool:
    return bool(token.about["name"] or token.about["symbol"])


def _pooled_lamports(token: Token) -> int:
    if token.pooled_lamports is None:
        head = token.packed_head
        token.pooled_lamports = 0 if head is None else unpack_head(head)[0].liquidity_lamports or 0
    return token.pooled_lamports
