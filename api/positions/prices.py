"""Prices of what positions hold, the same as in holdings, and which of them count.

A deposit must not change what a wallet is worth: what counts in holdings counts in a position, and
what does not (`tokens.backing`) does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from api.accounts.mints import MintReader
from api.tokens.backing import Backing
from api.tokens.pool_prices import PoolPrices
from api.tokens.reader import Token, TokenReader, Tokens
from schemas.money import MONEY
from schemas.protocols.contract import Position
from schemas.solana.addresses import text


class Prices(NamedTuple):
    """Tokens with their prices, and the mints whose price counts."""

    tokens: Tokens
    verified: frozenset[str]
    decimals: Mapping[str, int]  # of mints, as their accounts say, where nothing else does
    unknown: Sequence[str] = ()  # mints whose decimals a price lacks
    vaults: Sequence[bytes] = ()  # of pools that prices come from: known while they are asked for
    markets: frozenset[bytes] = frozenset()  # verified, of those that anybody can open


class PriceReader:
    """Reads prices, for all requests of a process. Raises Problem."""

    def __init__(
        self,
        tokens: TokenReader,
        mints: MintReader,
        pools: PoolPrices,
        backing: Backing,
        verified_markets: frozenset[bytes] = frozenset(),
    ) -> None:
        self.markets = verified_markets
        self._tokens = tokens
        self._mints = mints
        self._pools = pools
        self._backing = backing

    async def of(self, positions: Sequence[Position]) -> Prices:
        """Return the prices of all that positions hold."""
        decimals = _decimals(positions)
        tokens = await self._tokens.read(decimals)
        verified = MONEY | await self._backing.of_markets(tokens, decimals)
        unpriced = {
            mint: places if places is not None or token is None else token.decimals
            for mint, places in decimals.items()
            if not _is_priced(token := tokens.get(mint)) and mint not in MONEY
        }
        if not unpriced:
            return Prices(tokens, verified, {}, markets=self.markets)
        lacking = [mint for mint, places in unpriced.items() if places is None]
        found: dict[str, int] = {}
        if lacking:
            known = await self._mints.known(lacking)
            found = {mint: each.account.decimals for mint, each in known.items()}
            unpriced |= found
        tokens = replace(tokens, by_mint=tokens.by_mint.copy())
        vaults = await self._pools.price(tokens, unpriced)
        verified |= await self._backing.of_pools(tokens, unpriced)
        unknown = [mint for mint in lacking if mint not in found]
        return Prices(tokens, verified, found, unknown, vaults, self.markets)


def _is_priced(token: Token | None) -> bool:
    return token is not None and token.price is not None


def _decimals(positions: Sequence[Position]) -> dict[str, int | None]:
    """Return the mints that positions hold, with their decimals where a position says them."""
    found: dict[str, int | None] = {}
    for position in positions:
        for asset in position.assets:
            mint = text(asset.mint)
            if found.get(mint) is None:
                found[mint] = asset.decimals
    return found
